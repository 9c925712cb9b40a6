"""The columns of the tables, from columns.json: schema and manual in one.

Names and types of Common Crawl are those of its cc-index-schema-flat.json and of its host index;
`since` is the crawl in which it began to write the column, or the version of this project.

`python -m webcrawl.tools.corpus.columns docs/corpus.md` writes their tables into the page.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from importlib.resources import files
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
        rows = ["| column | type | meaning | example | since |", "| --- " * 5 + "|"]
        rows += [
            f"| `{each.name}` | {each.type}{'' if each.nullable else ', not null'} |"
            f" {each.description} | `{_in_cell(each.example)}` | {each.since} |"
            for each in columns
        ]
        start, mark, rest = page.partition(f"<!-- columns: {name} -->\n")
        if mark:
            page = start + mark + "\n".join(rows) + "\n" + re.sub(r"\A(?:\|.*\n)*", "", rest)
    return page


def _in_cell(example: str) -> str:
    return example.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(page_with_tables(path.read_text(encoding="utf-8")), encoding="utf-8")
