"""Reads records as they begin: their fields, the lines of their block; and the captures of a WARC
file that this project has written.

Reads only: after a kill `crawl.lost` makes lines of the crawl log of the captures.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from webcrawl.warc.members import whole_members

_TYPE = b"WARC/1.1\r\nWARC-Type: "
_ANSWERS = (_TYPE + b"response\r\n", _TYPE + b"revisit\r\n")
_ABOUT = (_TYPE + b"warcinfo\r\n", _TYPE + b"resource\r\n")  # of the file, not of a capture
_METADATA = _TYPE + b"metadata\r\n"
_URIS = {"warc-target-uri", "warc-refers-to-target-uri"}  # of wget, by WARC 1.0: <http://a/>
PART_OF = "isPartOf"  # of a warcinfo record: the collection, and the ID of the crawl

Fields = dict[str, str]  # of a record, names in lower case


class Archived(NamedTuple):
    """A response or revisit record, and the block of its capture's metadata record, if it has one.

    `block` may end after the HTTP head, `metadata` after a MiB. `is_cut`: the file ends with this
    record, so the others of its capture are missing.
    """

    offset: int
    fields: Fields
    block: bytes
    metadata: bytes
    is_cut: bool


def is_answer(start: bytes) -> bool:
    """Whether the record that begins with `start` is a response or a revisit."""
    return start.startswith(_ANSWERS)


def is_about_file(start: bytes) -> bool:
    """Whether the record that begins with `start` is of its file: no part of a capture."""
    return start.startswith(_ABOUT)


def fields_and_block(start: bytes) -> tuple[Fields, bytes]:
    """The fields of the record that begins with `start`, and its block as far as `start` has it.

    Deviation: a folded line is not joined; writers fold none of the fields that are read.
    """
    head, _, block = start.partition(b"\r\n\r\n")
    lines = head.decode("utf-8", "replace").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    fields = {name.lower(): value.strip() for name, _, value in pairs}
    for name in _URIS & fields.keys():
        fields[name] = fields[name].strip("<>")
    return fields, block


def lines_of(block: bytes) -> list[tuple[str, str]]:
    """Name and value of each line of a warcinfo record (application/warc-fields)."""
    pairs = (line.partition(":") for line in block.decode("utf-8", "replace").split("\n"))
    return [(name.strip(), value.strip()) for name, _, value in pairs]


def crawls_of(path: Path) -> list[str]:
    """The values of isPartOf in the warcinfo record of a file; [] without one, and of a file that
    has just been renamed or removed. OSError.
    """
    try:
        with path.open("rb") as file:
            first = next(whole_members(file), None)
    except FileNotFoundError:
        return []
    if first is None or not is_about_file(first.start):
        return []
    return [value for name, value in lines_of(fields_and_block(first.start)[1]) if name == PART_OF]


def captures(path: Path) -> Iterator[Archived]:
    """The answers in a file, in order, up to the first torn record. OSError.

    2 s for 1 GB. Memory: that of `whole_members`, and the start of one record.
    """
    answer: Archived | None = None
    with path.open("rb") as file:
        for member in whole_members(file):
            if is_answer(member.start):
                if answer is not None:
                    yield answer
                answer = Archived(member.offset, *fields_and_block(member.start), b"", is_cut=True)
            elif answer is not None:
                answer = answer._replace(is_cut=False)
                if member.start.startswith(_METADATA):
                    fields, block = fields_and_block(member.start)
                    if fields.get("warc-concurrent-to") == answer.fields.get("warc-record-id"):
                        answer = answer._replace(metadata=block)
    if answer is not None:
        yield answer
