"""The columns of the tables, from columns.json: schema and manual in one.

Names and types of Common Crawl are those of its cc-index-schema-flat.json and of its host index;
`since` is the crawl in which it began to write the column, or the version of this project.

`python -m webcrawl.tools.corpus.columns docs/corpus.md` writes their tables into the page.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from itertools import groupby
from pathlib import Path

import msgspec

# As Spark names them, and as DuckDB does. Parquet has unsigned integers, Spark has not.
_TYPES = {
    "string": "VARCHAR",
    "short": "SMALLINT",
    "integer": "INTEGER",
    "long": "BIGINT",
    "unsigned long": "UBIGINT",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "timestamp": "TIMESTAMPTZ",
    "binary": "BLOB",
    "map": "MAP(VARCHAR, BIGINT)",
}


class Column(msgspec.Struct, frozen=True):
    """A column; `since` is "Common Crawl" for one that it has always had."""

    name: str
    type: str
    nullable: bool
    description: str
    example: str
    since: str

    @property
    def sql_type(self) -> str:
        return _TYPES[self.type]


@cache
def tables() -> dict[str, list[Column]]:
    """The columns of "captures", of "texts" (more columns of captures, on request) and "hosts"."""
    text = files(__package__).joinpath("columns.json").read_bytes()
    return msgspec.json.decode(text, type=dict[str, list[Column]])


def page_with_tables(page: str) -> str:
    """`page` with a table of the columns after each `<!-- columns: NAME -->`."""
    for name, columns in tables().items():
        start, mark, rest = page.partition(f"<!-- columns: {name} -->\n")
        if mark:
            table = "\n".join(_table(columns))
            page = start + mark + table + "\n" + re.sub(r"\A(?:\|.*\n)*", "", rest)
    return page


def _table(columns: list[Column]) -> Iterator[str]:
    """Columns that follow one another and have one description share a row."""
    yield "| column | meaning | since |"
    yield "| --- | --- | --- |"
    before = ""
    for (meaning, since), same in groupby(columns, lambda each: (each.description, each.since)):
        names = ", ".join(f"`{each.name}`" for each in same)
        yield f"| {names} | {meaning} |" + (f" {since} |" if since != before else "")
        before = since


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(page_with_tables(path.read_text(encoding="utf-8")), encoding="utf-8")
