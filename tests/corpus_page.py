"""`python -m tests.corpus_page`: writes the tables of columns of docs/corpus.md anew.

From webcrawl/tools/corpus/columns.json.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

from tests.forked import ROOT
from webcrawl.tools.corpus.columns import Column, tables

PAGE = ROOT / "docs" / "corpus.md"


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
    PAGE.write_text(page_with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
