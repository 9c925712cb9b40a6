"""Writes tables as CSV (RFC 4180), UTF-8, with one line of column names.

A text of the web that a spreadsheet would read as a formula gets an apostrophe in front, and
characters that do not print are written as escapes, such as `\\x1b`.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, TextIO

from webcrawl.base.wording import printable
from webcrawl.tools.report.tables import Table

_FORMULA = ("=", "+", "-", "@")


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
