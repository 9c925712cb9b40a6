"""Lines of the indexes (CDXJ) of earlier archives: what a revisit record needs of each.

Reads the lines of this crawler, cdxj-indexer and pywb, plain or gzip (also in members, as ZipNum
has them). A line that is no CDXJ is an error with file and line: half an index would store again
what the other half holds. Memory: one piece of PIECE_BYTES, and one line.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, cast

import msgspec
from isal import igzip
from isal.igzip_lib import IsalError

from webcrawl.warc.records import raw_digest

PIECE_BYTES: Final = 1 << 20
LINE_MAX: Final = 1 << 20  # bytes; URLs have 2,000 characters
SUFFIXES: Final = (".cdxj", ".cdxj.gz")

_time = re.compile(rb"[12]\d{3}[01]\d[0-3]\d[0-2]\d[0-5]\d[0-5]\d").fullmatch
_base32 = re.compile(r"(?:sha1:)?([A-Za-z2-7]{32})").fullmatch
_hex = re.compile(r"sha1:([0-9A-Fa-f]{40})").fullmatch
_UNREADABLE: Any = (OSError, EOFError, zlib.error, IsalError)


class EarlierError(Exception):
    """An index of DEDUP_INDEX cannot be used. One line for the user."""


class Fields(msgspec.Struct):
    """The fields of a line that are read. Other writers may have other types."""

    url: Any = None
    digest: Any = None
    mime: Any = None
    status: Any = None
    method: Any = "GET"
    filename: Any = None


class Entry(NamedTuple):
    """A capture that a revisit record may refer to."""

    digest: bytes  # 20 bytes of its payload, SHA-1
    time: bytes  # its WARC-Date, 14 digits
    url: bytes


_read_fields = msgspec.json.Decoder(Fields).decode


class Lines:
    """The lines of one file, from a position on. `line` and `position` are those of the next line.

    `position` counts bytes of the text, so that of a gzip file the text before is read again.
    """

    def __init__(self, path: Path, position: int = 0, line: int = 0) -> None:
        self.path = path
        self.position = position
        self.line = line

    def __iter__(self) -> Iterator[bytes]:
        try:
            with _opened(self.path) as file:
                yield from self._lines(file)
        except _UNREADABLE as error:
            reason = getattr(error, "strerror", None) or error
            raise EarlierError(f"{self.path}, line {self.line + 1}: {reason}") from None

    def _lines(self, file: BinaryIO) -> Iterator[bytes]:
        file.seek(self.position)
        rest = b""
        while piece := file.read(PIECE_BYTES):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                self.line += 1
                self.position += len(line) + 1
                yield line
            if len(rest) > LINE_MAX:
                raise self.broken("a line of more than 1 MiB", self.line + 1)
        if rest:  # a file that was cut ends within a line, which then is no CDXJ
            self.line += 1
            self.position += len(rest)
            yield rest

    def broken(self, reason: str, line: int = 0) -> EarlierError:
        """The error for the line that was yielded last."""
        return EarlierError(f"{self.path}, line {line or self.line}: {reason}")

    def fields(self, line: bytes) -> tuple[bytes, Fields] | None:
        """Time and fields of `line`; None for a header or blank line. EarlierError."""
        if not line.strip() or line.startswith(b"!"):  # "!meta" of ZipNum, "!OpenWayback-CDXJ"
            return None
        _, time, data = (*line.split(b" ", 2), b"", b"")[:3]
        if not _time(time):
            raise self.broken("no CDXJ: a key, a time of 14 digits and a JSON object were expected")
        try:
            return time, _read_fields(data)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise self.broken(f"no CDXJ: {error}") from None

    def entry(self, line: bytes) -> Entry | None:
        """The entry of `line`; None if no revisit record may refer to it. EarlierError. 1.5 µs.

        None for a revisit, which has no payload itself; for a payload digest that is missing or not
        SHA-1; for another method than GET, which a replay finds by another key; for a URL that is
        not http or https; for a header or blank line.
        """
        found = self.fields(line)
        return found and _entry_of(*found)


def _entry_of(time: bytes, fields: Fields) -> Entry | None:
    url, digest = fields.url, fields.digest
    if fields.mime == "warc/revisit" or fields.method != "GET":
        return None
    if not isinstance(url, str) or not url.startswith(("http:", "https:")) or "\n" in url:
        return None
    if not isinstance(digest, str):
        return None
    raw = url.encode("utf-8", "replace")
    if found := _base32(digest):
        return Entry(raw_digest(found[1].upper()), time, raw)
    return Entry(bytes.fromhex(found[1]), time, raw) if (found := _hex(digest)) else None


def sources_of(names: list[str]) -> list[Path]:
    """The files that DEDUP_INDEX names: itself, or all in a folder and the folders in it, sorted.

    EarlierError.
    """
    found: dict[Path, None] = {}
    for name in names:
        path = Path(name)
        if path.is_dir():
            files = sorted(each for each in path.rglob("*") if each.name.endswith(SUFFIXES))
            if not files:
                raise EarlierError(f"{name} is a folder without files *.cdxj or *.cdxj.gz")
        elif path.is_file() and path.name.endswith(SUFFIXES):
            files = [path]
        elif path.exists():
            raise EarlierError(f"{name} is no file *.cdxj or *.cdxj.gz")
        else:
            raise EarlierError(f"{name} does not exist")
        found.update(dict.fromkeys(each.absolute() for each in files))
    return list(found)


def _opened(path: Path) -> BinaryIO:
    if path.suffix != ".gz":
        return path.open("rb")
    return cast("BinaryIO", igzip.IGzipFile(path, "rb"))  # type: ignore[no-untyped-call]
