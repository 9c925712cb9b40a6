"""What the records of WARC files say of pages, of originals, and of the revisits that need them.

Rows go into a temporary SQLite database on disk: some 60 bytes a response, 200 a page, and its
text. Memory: three MiB, and `_CACHE_KIB`, however many records there are.

A page is a response of 2xx with HTML, or a revisit of one. In the files of this crawler, a response
without its metadata record is none: a sitemap or robots.txt that the server answered with HTML. Nor
is a requisite, which has an E in hopsFromSeed, as of Heritrix.
"""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from isal import isal_zlib

from webcrawl.fetch.http1 import parse_headers
from webcrawl.parse.charset import sniff
from webcrawl.parse.links import title_of
from webcrawl.parse.page import HTML_TYPES, media_type_of
from webcrawl.tools.report.words import visible_text
from webcrawl.warc.captures import PART_OF, fields_and_block, lines_of
from webcrawl.warc.cdxj import head_size, is_not_modified
from webcrawl.warc.members import LEVEL, START_BYTES, Member, whole_members
from webcrawl.warc.payload import payload_of

_CACHE_KIB = 32 << 10
_PAGE_BYTES = 150  # of a page in a list, beside URL, title and text
_PAYLOAD_MAX = 4 * START_BYTES  # bytes of a page that are read for its title and text
_OURS = "webcrawl/"  # begins the software of our warcinfo records
_status_2xx = re.compile(rb"\S+[ \t]+2(?!04)\d\d").match  # 204: no content
_is_time = re.compile(  # of WARC 1.1, 5.4, as exact as nearly all writers are
    r"[0-9]{4}-(0[1-9]|1[0-2])-([0-2][0-9]|3[01])T[0-2][0-9](:[0-5][0-9]){2}Z"
).fullmatch
_fraction = re.compile(r"[^.]{19}\.(\d*[1-9])").match  # of a second, in a WARC-Date
_TO_DIGITS = str.maketrans("", "", "-:TZ")
_hops = re.compile(rb"^hopsFromSeed:[ \t]*(\w*)", re.MULTILINE).search

_SCHEMA = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
CREATE TABLE page (
    id INTEGER PRIMARY KEY, warc INTEGER, url TEXT, time TEXT, record TEXT, title TEXT, text BLOB,
    is_seed INTEGER, original BLOB
);
CREATE TABLE response (key BLOB PRIMARY KEY, warc INTEGER, page INTEGER) WITHOUT ROWID;
CREATE TABLE exact (key BLOB PRIMARY KEY, time TEXT) WITHOUT ROWID;
CREATE TABLE revisit (
    warc INTEGER, url TEXT, time TEXT, original BLOB, original_url TEXT, original_time TEXT
);
"""
# Pages, with title and text of their originals.
_PAGES = """
FROM (SELECT page.id AS id, page.url AS url, page.time AS time, page.record AS record,
             coalesce(page.title, first.title) AS title, coalesce(page.text, first.text) AS text,
             page.is_seed AS is_seed
      FROM page LEFT JOIN response ON response.key = page.original
                LEFT JOIN page AS first ON first.id = response.page
      WHERE page.warc = ?)
"""
_LOST = "FROM revisit LEFT JOIN response ON key = original WHERE key IS NULL"


class Page(NamedTuple):
    """A line of pages.jsonl. `time`: WARC-Date to the second."""

    url: str
    time: str
    record: str  # WARC-Record-ID, without its brackets and `urn:uuid:`
    title: str | None
    text: str
    is_seed: bool  # no link led to it, or nothing is known of that


class Lost(NamedTuple):
    """A revisit whose original is in none of the files."""

    url: str
    time: str
    original_url: str
    original_time: str


class DamagedError(Exception):
    """A file cannot be read beyond a place. One line for the user, or several."""


class Captures:
    """Call `read` for each file; then ask."""

    def __init__(self, database: Path, *, has_text: bool) -> None:
        self.title = self.description = ""  # of the first warcinfo records that have them
        self.latest = ""  # WARC-Date of a capture, to the second
        self._has_text = has_text
        self._rows = sqlite3.connect(database, isolation_level=None)
        self._rows.executescript(f"PRAGMA cache_size = -{_CACHE_KIB};{_SCHEMA}BEGIN")
        self._warc = 0
        self._is_ours = False
        self._page: tuple[object, ...] | None = None  # its metadata record may follow
        self._id = ""

    def read(self, number: int, path: Path, each: Callable[[Member], object]) -> None:
        """Read the records of the WARC file `path`; `each` is called for each of them.

        DamagedError: the file is damaged, or has no gzip member per record. OSError.
        """
        end = 0
        self._warc, self._is_ours = number, False
        with path.open("rb") as file:
            size_bytes = os.fstat(file.fileno()).st_size
            for member in whole_members(file):
                fields, block = fields_and_block(member.start)
                if not member.start.startswith(b"WARC/") or not _is_one(fields, block, member):
                    raise DamagedError(f"{path}: {end}: no gzip member with one WARC record")
                self._add(fields, block)
                each(member)
                end = member.end
        self._end_page()
        if end != size_bytes or not end:
            raise DamagedError(f"{path}: {end}: the file is damaged here; see scrapy warccheck")

    def _add(self, fields: dict[str, str], block: bytes) -> None:
        kind = fields.get("warc-type", "")
        if kind == "metadata" and self._page and fields.get("warc-concurrent-to") == self._id:
            hops = _hops(block)
            is_page = b"fetchTimeMs:" in block and not (hops and b"E" in hops[1])
            self._end_page(is_seed=not (hops and hops[1].strip(b"R")), is_page=is_page)
        elif kind in ("response", "revisit"):
            self._end_page()
            self._id = fields.get("warc-record-id", "")
            time = _second(fields.get("warc-date", ""))
            if _is_time(time):
                self.latest = max(self.latest, time)
            self._add_answer(kind, fields, time, block)
        elif kind == "warcinfo":
            info = dict(lines_of(block))
            self._is_ours = info.get("software", "").startswith(_OURS)
            self.title = self.title or info.get(PART_OF, "")
            self.description = self.description or info.get("description", "")

    def _add_answer(self, kind: str, fields: dict[str, str], time: str, block: bytes) -> None:
        """Add the row of a response or a revisit, and keep its page until the next record."""
        url, original = fields.get("warc-target-uri", ""), None
        if kind == "revisit":
            if is_not_modified(fields.get("warc-profile", "")):
                return  # it has no line in the index
            first = fields.get("warc-refers-to-target-uri", "")
            first_date = fields.get("warc-refers-to-date", "")
            first_time, original = _second(first_date), _key(first, first_date)
            if fraction := _fraction(first_date):
                time_17 = first_time.translate(_TO_DIGITS) + fraction[1][:3].ljust(3, "0")
                self._rows.execute("INSERT OR IGNORE INTO exact VALUES (?, ?)", (original, time_17))
            values = (self._warc, url, time, original, first, first_time)
            self._rows.execute("INSERT INTO revisit VALUES (?, ?, ?, ?, ?, ?)", values)
        title = text = None
        is_html, content_type, payload = _html(fields, block, has_payload=original is None)
        if is_html and original is None:
            title = title_of(payload, sniff(payload, content_type))
            if self._has_text:
                words = " ".join(visible_text(payload, content_type).split())
                text = isal_zlib.compress(words.encode("utf-8", "replace"), LEVEL)
        if is_html:
            record = self._id.strip("<>").removeprefix("urn:uuid:")
            self._page = (self._warc, url, time, record, title, text, original)
        elif original is None:
            self._add_response(url, time, None)

    def _end_page(self, *, is_seed: bool = True, is_page: bool = False) -> None:
        """Add the row of the page whose records have ended, if there is one."""
        if self._page is None:
            return
        warc, url, time, record, title, text, original = self._page
        self._page = number = None
        if is_page or not self._is_ours:
            values = (warc, url, time, record, title, text, is_seed, original)
            number = self._rows.execute(
                "INSERT INTO page VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)", values
            ).lastrowid
        if original is None:
            self._add_response(str(url), str(time), number)

    def _add_response(self, url: str, time: str, page: int | None) -> None:
        values = (_key(url, time), self._warc, page)
        self._rows.execute("INSERT OR IGNORE INTO response VALUES (?, ?, ?)", values)

    def pages(self, warc: int, *, is_seed: bool) -> Iterator[Page]:
        """The seeds of a file, or its other pages, in the order of their records. A revisit has
        title and text of its original.
        """
        columns = f"url, time, record, title, text {_PAGES}"
        sql = f"SELECT {columns} WHERE is_seed = ? ORDER BY id"
        rows = self._rows.execute(sql, (warc, is_seed))
        for url, time, record, title, text in rows:
            unpacked = isal_zlib.decompress(text).decode() if text else ""
            yield Page(url, time, record, title, unpacked, is_seed)

    def pages_bytes(self, warc: int) -> int:
        """What the list of the pages of a file takes when it is compressed, or more."""
        texts = "length(url) + ifnull(length(CAST(title AS BLOB)), 0) + ifnull(length(text), 0)"
        (total,) = self._rows.execute(
            f"SELECT total({_PAGE_BYTES} + {texts}) {_PAGES}", (warc,)
        ).fetchone()
        return int(total)

    def lost(self, limit: int) -> tuple[int, list[Lost]]:
        """How many revisits have no original in any file, and the first of them."""
        (number,) = self._rows.execute(f"SELECT count(*) {_LOST}").fetchone()
        columns = "url, time, original_url, original_time"
        some = self._rows.execute(f"SELECT {columns} {_LOST} LIMIT ?", (limit,))
        return number, [Lost(*row) for row in some]

    def originals_in(self, warcs: range) -> Iterator[tuple[int, int]]:
        """The other files that have originals of revisits in `warcs`, each with how many."""
        yield from self._rows.execute(
            "SELECT response.warc, count(*) FROM revisit JOIN response ON key = original"
            " WHERE revisit.warc BETWEEN ?1 AND ?2 AND response.warc NOT BETWEEN ?1 AND ?2"
            " GROUP BY 1",
            (warcs.start, warcs.stop - 1),
        )

    def exact_time(self, url: str, time: str) -> str | None:
        """The time of a capture in 17 digits, given in 14, if a revisit refers to it by a date that
        is more exact than a second.
        """
        found = self._rows.execute("SELECT time FROM exact WHERE key = ?", (_key(url, time),))
        row: tuple[str] | None = found.fetchone()
        return row[0] if row else None

    def close(self) -> None:
        self._rows.close()


def _is_one(fields: dict[str, str], block: bytes, member: Member) -> bool:
    """Whether a member has one record, as far as its start shows."""
    length = fields.get("content-length", "")
    is_whole = len(member.start) < START_BYTES
    return length.isdecimal() and (not is_whole or len(block) == int(length) + len(b"\r\n\r\n"))


def _html(fields: dict[str, str], block: bytes, *, has_payload: bool) -> tuple[bool, str, bytes]:
    """Whether an answer is of 2xx and HTML, its Content-Type, and the start of its payload."""
    if not fields.get("content-type", "").startswith("application/http") or not _status_2xx(block):
        return False, "", b""
    end = head_size(block)
    headers = parse_headers(block[:end])
    content_type = next((v.decode("latin-1") for n, v in headers if n == b"content-type"), "")
    if media_type_of(content_type) not in HTML_TYPES:
        return False, "", b""
    body = block[end : int(fields["content-length"])] if has_payload else b""
    return True, content_type, payload_of(body, headers, _PAYLOAD_MAX)


def _key(url: str, date: str) -> bytes:
    """The key of a capture, by its WARC-Date or its time in an index."""
    text = f"{date[:19].translate(_TO_DIGITS)} {url}"
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()


def _second(date: str) -> str:
    """A WARC-Date to the second, as in an index."""
    return f"{date[:19]}Z"
