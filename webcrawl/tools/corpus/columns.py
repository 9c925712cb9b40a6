"""The columns of the tables, from columns.json: schema and manual in one.

Names and types of Common Crawl are those of its cc-index-schema-flat.json and of its host index;
`since` is the crawl in which it began to write the column, or the version of this project.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

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
