"""Keeps the texts of pages in files of their own, and writes them beside the rows of the tables.

DuckDB works on 2,048 rows at a time, which with texts would be gigabytes for some pages. So texts
stay out of it: a part has them in a file, one gzip member a page, and its rows say where. The
tables are made and sorted without texts; then each row is joined with its texts, one by one.

Memory: the texts of a page.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

import msgspec

from webcrawl.warc.members import content, member

FIELDS = ("texts_in", "texts_at")  # of a row: the file of its texts, and where they begin
TEXTS_MAX = 16 << 20  # bytes of a row with two texts of a MiB, if most characters are escaped
_FIRST_FIELD = b',"texts_in":'  # in a string of JSON the quotes would be escaped
_FILES_MAX = 64  # that are open at a time


class _Place(msgspec.Struct):
    texts_in: str | None = None
    texts_at: int | None = None


def as_member(**texts: str) -> bytes:
    """Texts by the names of their columns, as they are kept."""
    return member(msgspec.json.encode(texts))


def joined(rows: Path, folder: Path) -> Iterator[tuple[bytes, bytes]]:
    """Each row of JSON lines that end with FIELDS, without these, and its texts as a JSON object;
    b"" for a row without texts.
    """
    place_of = msgspec.json.Decoder(_Place).decode
    files: dict[str, BinaryIO] = {}
    with rows.open("rb") as lines, ExitStack() as stack:
        for line in lines:
            row = line[: line.rindex(_FIRST_FIELD)] + b"}"
            place = place_of(line)
            if place.texts_in is None or place.texts_at is None:
                yield row, b""
                continue
            if place.texts_in not in files:
                if len(files) == _FILES_MAX:
                    stack.pop_all().close()
                    files.clear()
                file = stack.enter_context((folder / place.texts_in).open("rb"))
                files[place.texts_in] = file
            yield row, b"".join(content(files[place.texts_in], place.texts_at))


def with_texts(row: bytes, texts: bytes) -> bytes:
    """A row and its texts as one line of JSON."""
    return (row[:-1] + b"," + texts[1:] if texts else row) + b"\n"
