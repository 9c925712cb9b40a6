"""From the records of a WARC file to its captures: answers, each with its metadata record.

The metadata record that names an answer in WARC-Concurrent-To belongs to it, if it comes before the
next answer: so all writers do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import takewhile
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, Protocol

from webcrawl.warc.reader import Broken, Record, records_at

_HOPS = re.compile(rb"^hopsFromSeed:[ \t]*(\w*)", re.MULTILINE)
_OF_PAGE = b"fetchTimeMs:"  # in the metadata of a page or requisite, not in that of a robots.txt
PART_OF = "isPartOf"  # of a warcinfo record: the collection, and the ID of the crawl


class Openable(Protocol):
    """A path, or a file of a store."""

    def open(self, mode: Literal["rb"], /) -> BinaryIO: ...


class Archived(NamedTuple):
    """A response or revisit record, and the block of its capture's metadata record, if it has one.

    `is_cut`: the records end with this one, so the others of its capture are missing.
    """

    record: Record
    metadata: bytes
    is_cut: bool

    @property
    def hops(self) -> str:
        """The way from a seed, by the letters of Heritrix: L for a link, R for a redirect, E for a
        file that a page shows. "" of a seed, and if it is not known.
        """
        found = _HOPS.search(self.metadata)
        return found[1].decode("latin-1") if found else ""

    @property
    def kind(self) -> Literal["page", "requisite", ""]:
        """By the metadata of this crawler; "" of any other answer."""
        if _OF_PAGE not in self.metadata:
            return ""
        return "requisite" if "E" in self.hops else "page"


def captures(records: Iterable[Record | Broken]) -> Iterator[Archived | Broken | Record]:
    """The answers among `records`; as they are the broken parts, and those that belong to none."""
    last: Archived | None = None
    for record in records:
        if isinstance(record, Broken):
            yield record
        elif record.is_answer:
            if last is not None:
                yield last
            last = Archived(record, b"", is_cut=True)
        else:
            last = last and last._replace(is_cut=False)
            if record.type == "metadata":
                if last and record.fields.get("warc-concurrent-to") == last.record.id:
                    last = last._replace(metadata=record.block)
            elif record.type != "request":
                yield record
    if last is not None:
        yield last


def captures_in(path: Path) -> Iterator[Archived]:
    """The answers in a file, in order, up to the first torn record. OSError. 2 s for 1 GB."""
    with path.open("rb") as file:
        whole = takewhile(lambda each: isinstance(each, Record), records_at(file))
        yield from (each for each in captures(whole) if isinstance(each, Archived))


def lines_of(block: bytes) -> list[tuple[str, str]]:
    """Name and value of each line of a warcinfo record (application/warc-fields)."""
    pairs = (line.partition(":") for line in block.decode("utf-8", "replace").split("\n"))
    return [(name.strip(), value.strip()) for name, _, value in pairs]


def crawls_of(path: Openable) -> list[str]:
    """The values of isPartOf in the warcinfo record of a file; [] without one, and of a file that
    has just been renamed or removed. OSError.
    """
    try:
        with path.open("rb") as file:
            first = next(records_at(file), None)
    except FileNotFoundError:
        return []
    if not isinstance(first, Record) or first.type != "warcinfo":
        return []
    names = lines_of(first.block)
    return [value for name, value in names if name.lower() == PART_OF.lower()]
