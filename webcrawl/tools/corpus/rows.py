"""From a capture to its row: the columns that its own records tell.

The rest is found when all captures are known: `resolve` has it. Text is read of pages only: HTML
with a status of 2xx that is not the page of a bot wall.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec

from webcrawl.fetch.http1 import list_values
from webcrawl.fetch.walls import wall_of
from webcrawl.parse.charset import sniff
from webcrawl.parse.detection import Language
from webcrawl.parse.language import declared_language
from webcrawl.parse.page import HTML_TYPES, media_type_of
from webcrawl.parse.urls import redirect_target
from webcrawl.tools.corpus.captures import Capture
from webcrawl.tools.corpus.neardup import simhash, sketch
from webcrawl.tools.corpus.signals import signals_of
from webcrawl.tools.corpus.text import PAGE_MAX_BYTES, PageText, read
from webcrawl.tools.corpus.urlparts import host_parts
from webcrawl.warc.records import digest
from webcrawl.warc.surt import surt

ROBOTS_PATH = "/robots.txt"
OFFSET_MAX = (1 << 31) - 1  # Common Crawl's column has 32 bits
_HTML_START = re.compile(rb"(?:\xef\xbb\xbf)?\s*<(?:!doctype html|html)\b", re.IGNORECASE)
_DATE = re.compile(
    r"(\d{4})(?:-(\d\d)(?:-(\d\d)(?:T(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?Z?)?)?)?",
    re.ASCII,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAMES = {"shift_jis": "Shift_JIS", "big5": "Big5"}  # as IANA and Java spell them


class Row(msgspec.Struct, omit_defaults=True):
    """The columns of `columns.json` that one capture tells, and what is needed to find the rest.

    Times are microseconds since 1970.
    """

    url_surtkey: str
    url: str
    url_host_name: str
    url_host_tld: str | None
    url_host_registered_domain: str | None
    url_host_name_reversed: str | None
    url_protocol: str
    url_port: int | None
    url_path: str
    url_query: str | None
    fetch_time: int
    fetch_status: int
    warc_record_id: str  # in hexadecimal digits
    warc_record_offset: int
    warc_record_length: int
    crawl: str
    is_revisit: bool
    fetch_redirect: str | None = None
    content_digest: str | None = None
    content_mime_type: str | None = None
    content_mime_detected: str | None = None
    content_charset: str | None = None
    content_languages: str | None = None
    content_truncated: str | None = None
    title: str | None = None
    declared_language: str | None = None
    detected_language: str | None = None
    language_score: float | None = None
    language_share: float | None = None
    words: int | None = None
    text_length: int | None = None
    main_text_length: int | None = None
    simhash: int | None = None
    noindex: bool | None = None
    noarchive: bool | None = None
    nofollow: bool | None = None
    content_usage: str | None = None
    tdm_reservation: str | None = None
    license: str | None = None
    wall: str | None = None
    sketch: list[int] | None = None  # of `neardup`
    texts_in: str | None = None  # of `texts`
    texts_at: int | None = None
    # Of a revisit: the capture that it refers to.
    refers_url: str | None = None
    refers_time: int | None = None
    refers_id: str | None = None


class BadRowError(ValueError):
    """A capture that cannot have a row; the text says why."""


def row_of(capture: Capture, crawl: str, with_main: bool) -> tuple[Row, PageText | None]:
    """The row of `capture`, and the texts of a page, whose language is still to be found.

    BadRowError. Costs what reading them does.
    """
    record, parts = capture.record, capture.parts
    fields = record.fields
    time = _microseconds(fields.get("warc-date", ""))
    if time is None:
        raise BadRowError(f"WARC-Date is {fields.get('warc-date', '')[:40]!r}")
    if record.offset > OFFSET_MAX or record.size_bytes > OFFSET_MAX:
        raise BadRowError("beyond 2 GiB of its file, more than the column's 32 bits hold")
    host = host_parts(parts.host)
    row = Row(
        surt(capture.url),
        capture.url,
        parts.host,
        *host,
        parts.protocol,
        parts.port,
        parts.path,
        parts.query,
        time,
        capture.status,
        _id_in_hex(record.id),
        record.offset,
        record.size_bytes,
        crawl,
        capture.is_revisit,
        content_digest=_digest(capture),
        content_mime_detected=fields.get("warc-identified-payload-type"),
    )
    if content_type := capture.message.header(b"content-type"):
        row.content_mime_type = content_type.partition(";")[0].strip()[:255] or None
    if 300 <= capture.status < 400:
        row.fetch_redirect = redirect_target(
            capture.message.header(b"location").encode("latin-1"), capture.url
        )
    if capture.is_revisit:
        _read_reference(row, fields)
    else:
        row.content_truncated = fields.get("warc-truncated")
    return row, _read_payload(row, capture, content_type, with_main)


def _read_payload(
    row: Row, capture: Capture, content_type: str, with_main: bool
) -> PageText | None:
    payload = b"" if capture.is_revisit else capture.message.payload(PAGE_MAX_BYTES)
    row.wall = capture.wall or wall_of(capture.status, capture.message.head, payload) or None
    is_page = 200 <= capture.status < 300 and row.wall is None and not capture.is_requisite
    is_robots = is_page and row.url_path == ROBOTS_PATH and not capture.is_revisit
    is_html = bool(payload) and not is_robots and _is_html(row, payload)
    page, charset = None, ""
    if is_html:
        charset = sniff(payload, content_type)
        row.content_charset = _name_of(charset)
        if is_page:
            page = _read_text(row, payload, charset, with_main)
            languages = b",".join(list_values(capture.message.headers, b"content-language"))
            row.declared_language = declared_language(
                payload, charset, languages.decode("latin-1"), capture.url
            )
    found = signals_of(capture, payload if is_html else b"", charset, payload if is_robots else b"")
    row.noindex, row.noarchive, row.nofollow = found[:3]
    row.content_usage, row.tdm_reservation, row.license = found[3:]
    return page


def _read_text(row: Row, html: bytes, charset: str, with_main: bool) -> PageText:
    page = read(html, charset, with_main=with_main)
    row.title = page.title
    row.words = len(page.all_text.split())
    row.text_length = len(page.all_text)
    row.simhash, row.sketch = simhash(page.best_text), sketch(page.best_text)
    if with_main:
        row.main_text_length = len(page.main_text)
    return page


def find_language(row: Row, page: PageText, language_of: Callable[[str], Language]) -> None:
    """Fill the columns of the language of `page`."""
    language = language_of(page.best_text)
    row.detected_language, row.language_score = language.code, language.score
    if language.code != "und":
        row.content_languages = ",".join(code for code, _ in language.shares)
        row.language_share = language.shares[0][1]


def _is_html(row: Row, payload: bytes) -> bool:
    """By the type that the writer has found, else by the declared one, else by the first bytes.
    XHTML begins as any XML: then the declared type says more.
    """
    found, declared = row.content_mime_detected, row.content_mime_type
    said = (declared or found) if found == "text/xml" else (found or declared)
    return media_type_of(said) in HTML_TYPES if said else bool(_HTML_START.match(payload[:4096]))


def _digest(capture: Capture) -> str | None:
    recorded = capture.record.fields.get("warc-payload-digest")
    if recorded is None:
        if capture.is_revisit or not capture.record.is_whole:
            return None
        recorded = digest(capture.message.body)
    label, _, value = recorded.partition(":")
    return value if label.lower() in ("sha1", "sha-1") else recorded


def _read_reference(row: Row, fields: Mapping[str, str]) -> None:
    row.refers_url = fields.get("warc-refers-to-target-uri", "").strip("<>") or None
    row.refers_time = _microseconds(fields.get("warc-refers-to-date", ""))
    if refers_to := fields.get("warc-refers-to"):
        row.refers_id = _id_in_hex(refers_to)


def _microseconds(date: str) -> int | None:
    """A WARC-Date (WARC 1.1, 5.4: from a year to nanoseconds) since 1970; None if it is none."""
    found = _DATE.fullmatch(date)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(each or 0) for each in found.groups()[:6])
    try:
        time = datetime(year, month or 1, day or 1, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    return (time - _EPOCH) // timedelta(microseconds=1) + int((found[7] or "").ljust(6, "0")[:6])


def _id_in_hex(record_id: str) -> str:
    """16 bytes if it is a UUID, else the bytes of its text."""
    text = record_id.strip("<>")
    try:
        return UUID(text.removeprefix("urn:uuid:")).hex
    except ValueError:
        return text.encode("utf-8", "replace").hex()


def _name_of(charset: str) -> str:
    """A WHATWG name as IANA spells it."""
    if charset.startswith(("windows-", "x-", "replacement")):
        return charset
    return _NAMES.get(charset, charset.upper())
