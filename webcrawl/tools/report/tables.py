"""The value that each figure is: named columns, and rows that can be read again and again.

Written as CSV (RFC 4180), UTF-8, with one line of column names. A text of the web that a
spreadsheet would read as a formula gets an apostrophe in front, and characters that do not print
are written as escapes, such as `\\x1b`.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import duckdb

from webcrawl.base.wording import printable

Row = tuple[Any, ...]
_ROWS_AT_A_TIME = 10_000
_FORMULA = ("=", "+", "-", "@")


@dataclass(frozen=True, slots=True)
class Table:
    """A figure. `name` is that of its CSV file; `rows` begins anew at each call."""

    name: str
    columns: tuple[str, ...]
    rows: Callable[[], Iterator[Row]]

    def first(self, limit: int) -> list[Row]:
        return list(islice(self.rows(), limit))

    def column(self, name: str) -> list[Any]:
        at = self.columns.index(name)
        return [row[at] for row in self.rows()]

    def records(self, limit: int | None = None) -> list[dict[str, Any]]:
        rows = islice(self.rows(), limit)
        return [dict(zip(self.columns, row, strict=True)) for row in rows]


def listed(name: str, columns: tuple[str, ...], rows: Iterable[Row]) -> Table:
    """A short table, held in memory."""
    held = list(rows)
    return Table(name, columns, lambda: iter(held))


def queried(log: duckdb.DuckDBPyConnection, name: str, sql: str, *values: Any) -> Table:
    """The result of a query, read from the database at each call. The columns are the query's."""

    def rows() -> Iterator[Row]:
        with log.cursor() as cursor:
            result = cursor.execute(sql, values)
            while some := result.fetchmany(_ROWS_AT_A_TIME):
                yield from some

    columns = log.execute(f"DESCRIBE {sql}", values).fetchall()
    return Table(name, tuple(str(column[0]) for column in columns), rows)


def one(log: duckdb.DuckDBPyConnection, sql: str) -> Row:
    """The only row of a query."""
    (row,) = log.execute(sql).fetchall()
    return tuple(row)


def write_csv(table: Table, out: TextIO) -> None:
    """Write all rows. Memory: one row."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(
        [value if type(value) is int else _cell(value) for value in row] for row in table.rows()
    )


def save_csv(table: Table, folder: Path) -> None:
    with (folder / f"{table.name}.csv").open("w", encoding="utf-8", newline="") as out:
        write_csv(table, out)


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        text = printable(value)
        return f"'{text}" if text.startswith(_FORMULA) else text
    return f"{value:.6g}" if isinstance(value, float) and abs(value) < 1e6 else value
