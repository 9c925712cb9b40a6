"""What the records of WARC files say of pages, of originals, and of the revisits that need them.

Rows go into a temporary SQLite database on disk: some 60 bytes a response, 200 a page, and its
text. Memory: three MiB, and `_CACHE_KIB`, however many records there are.

A page is a response of 2xx with HTML, or a revisit of one. In the files of this crawler, a response
without its metadata record is none: a sitemap or robots.txt that the server answered with HTML. Nor
is a requisite.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from isal import isal_zlib

from webcrawl.parse.charset import sniff
from webcrawl.parse.links import title_of
from webcrawl.parse.page import HTML_TYPES, media_type_of
from webcrawl.tools.words import visible_text
from webcrawl.warc.captures import PART_OF, Archived, Openable, captures, lines_of
from webcrawl.warc.cdxj import is_not_modified
from webcrawl.warc.members import LEVEL, START_BYTES
from webcrawl.warc.payload import Message, message_of
from webcrawl.warc.reader import Broken, Record, is_packed, read_records

_CACHE_KIB = 32 << 10
_PAGE_BYTES = 150  # of a page in a list, beside URL, title and text
_PAYLOAD_MAX = 4 * START_BYTES  # bytes of a page that are read for its title and text
_OURS = "webcrawl/"  # begins the software of our warcinfo records
_is_time = re.compile(  # of WARC 1.1, 5.4, as exact as nearly all writers are
    r"[0-9]{4}-(0[1-9]|1[0-2])-([0-2][0-9]|3[01])T[0-2][0-9](:[0-5][0-9]){2}Z"
).fullmatch
_fraction = re.compile(r"[^.]{19}\.(\d*[1-9])").match  # of a second, in a WARC-Date
_TO_DIGITS = str.maketrans("", "", "-:TZ")

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
      WHERE page.warc BETWEEN ? AND ?)
"""
_LOST = "FROM revisit LEFT JOIN response ON key = original WHERE key IS NULL"


class Page(NamedTuple):
    """A line of pages.jsonl. `time`: WARC-Date to the second."""

    url: str
    time: str
    record: str  # WARC-Record-ID, without its brackets and `urn:uuid:`
    title: str | None
    text: str


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

    def read(self, number: int, path: Openable, each: Callable[[Record], object]) -> None:
        """Read the records of the WARC file `path`; `each` is called for each of them.

        DamagedError: the file is damaged, or has no gzip member per record. OSError.
        """
        is_ours = False

        def whole(file: BinaryIO) -> Iterator[Record]:
            if not is_packed(file):
                raise DamagedError(f"{path}: 0: no gzip member with one WARC record")
            for record in read_records(file):
                if isinstance(record, Broken):
                    where = f"{path}: {record.offset}: {record.why}"
                    raise DamagedError(f"{where}; see scrapy warccheck")
                each(record)
                yield record

        with path.open("rb") as file:
            for found in captures(whole(file)):
                if isinstance(found, Archived):
                    self._add(number, found, is_ours)
                elif isinstance(found, Record) and found.type == "warcinfo":
                    info = dict(lines_of(found.block))
                    is_ours = info.get("software", "").startswith(_OURS)
                    self.title = self.title or info.get(PART_OF, "")
                    self.description = self.description or info.get("description", "")

    def _add(self, warc: int, archived: Archived, is_ours: bool) -> None:
        """Add the rows of a response or a revisit. No link led to a seed, as far as is known."""
        record = archived.record
        fields, original = record.fields, None
        url, time = fields.get("warc-target-uri", ""), _second(fields.get("warc-date", ""))
        if _is_time(time):
            self.latest = max(self.latest, time)
        if record.type == "revisit":
            if is_not_modified(fields.get("warc-profile", "")):
                return  # it has no line in the index
            first = fields.get("warc-refers-to-target-uri", "")
            first_date = fields.get("warc-refers-to-date", "")
            first_time, original = _second(first_date), _key(first, first_date)
            if fraction := _fraction(first_date):
                time_17 = first_time.translate(_TO_DIGITS) + fraction[1][:3].ljust(3, "0")
                self._rows.execute("INSERT OR IGNORE INTO exact VALUES (?, ?)", (original, time_17))
            values = (warc, url, time, original, first, first_time)
            self._rows.execute("INSERT INTO revisit VALUES (?, ?, ?, ?, ?, ?)", values)
        page = None
        message = _html(record) if archived.kind == "page" or not is_ours else None
        if message is not None:
            is_seed = not archived.hops.strip("R")
            texts = (None, None) if original else self._texts(message)
            names = (record.id.strip("<>").removeprefix("urn:uuid:"), *texts, is_seed, original)
            page = self._rows.execute(
                "INSERT INTO page VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)", (warc, url, time, *names)
            ).lastrowid
        if original is None:
            row = (_key(url, time), warc, page)
            self._rows.execute("INSERT OR IGNORE INTO response VALUES (?, ?, ?)", row)

    def _texts(self, message: Message) -> tuple[str, bytes | None]:
        """The title of a page, and its text, compressed, if it is wanted."""
        payload, content_type = message.payload(_PAYLOAD_MAX), message.header(b"content-type")
        title = title_of(payload, sniff(payload, content_type))
        if not self._has_text:
            return title, None
        words = " ".join(visible_text(payload, content_type).split())
        return title, isal_zlib.compress(words.encode("utf-8", "replace"), LEVEL)

    def pages(self, warcs: range, *, is_seed: bool) -> Iterator[Page]:
        """The seeds of some files, or their other pages, in the order of their records. A revisit
        has title and text of its original.
        """
        columns = f"url, time, record, title, text {_PAGES}"
        sql = f"SELECT {columns} WHERE is_seed = ? ORDER BY id"
        rows = self._rows.execute(sql, (warcs.start, warcs.stop - 1, is_seed))
        for url, time, record, title, text in rows:
            unpacked = isal_zlib.decompress(text).decode() if text else ""
            yield Page(url, time, record, title, unpacked)

    def pages_bytes(self, warc: int) -> int:
        """What the list of the pages of a file takes when it is compressed, or more."""
        texts = "length(url) + ifnull(length(CAST(title AS BLOB)), 0) + ifnull(length(text), 0)"
        (total,) = self._rows.execute(
            f"SELECT total({_PAGE_BYTES} + {texts}) {_PAGES}", (warc, warc)
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


def _html(record: Record) -> Message | None:
    """The answer in a record if it is of 2xx and HTML."""
    if not record.fields.get("content-type", "").startswith("application/http"):
        return None
    message = message_of(record.block)
    has_content = message.status[:1] == "2" and message.status != "204"
    is_html = media_type_of(message.header(b"content-type")) in HTML_TYPES
    return message if has_content and is_html else None


def _key(url: str, date: str) -> bytes:
    """The key of a capture, by its WARC-Date or its time in an index."""
    text = f"{date[:19].translate(_TO_DIGITS)} {url}"
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()


def _second(date: str) -> str:
    """A WARC-Date to the second, as in an index."""
    return f"{date[:19]}Z"
