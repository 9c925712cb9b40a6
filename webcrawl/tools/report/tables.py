"""The value that each figure is: named columns, and rows that can be read again and again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import duckdb

Row = tuple[Any, ...]
_ROWS_AT_A_TIME = 10_000


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
