"""Sitemaps and feeds, read as a stream: the entries of a file, as they are written.

Owns the formats: sitemaps and sitemap indexes (sitemaps.org 0.9), text lists, RSS 0.9 to 2.0 and
Atom (RFC 4287). Pure: knows nothing of gzip, of URLs' canonical form and of who may list what.

Not an XML parser: files of the web are often ill-formed, and an XML parser has entities. Here only
tags of interest are found, straight in the text. So no entity is ever defined or expanded, nothing
is loaded from elsewhere, nesting costs nothing, and a file with an unescaped "&" is read whole.

Bounds, whatever the input: ENTRIES_MAX entries and as many language alternates; TAGS_MAX tags;
CARRY_MAX characters from piece to piece; every character is read a bounded number of times. 13 µs
for a usual entry.
"""

from __future__ import annotations

import codecs
import re
from calendar import timegm
from contextlib import suppress
from email.utils import parsedate_tz
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import urljoin

import webencodings  # type: ignore[import-untyped]  # it ships no types

ENTRIES_MAX: Final = 50_000  # sitemaps.org: of one file
SIZE_MAX: Final = 50 << 20  # sitemaps.org: bytes of one file, uncompressed
# Of all "<": 7 s of CPU at worst. An honest file of 50,000 entries has up to a million.
TAGS_MAX: Final = 2_000_000
CARRY_MAX: Final = 64 << 10  # characters of a tag, or of the text behind it
_ROOT_MAX: Final = 64 << 10  # Deviation: a file without its root element in so much is none
_VALUE_MAX: Final = 8 << 10  # a longer value is no URL that we ask for (`urls.MAX_LENGTH`)
_BASE_MAX: Final = 1 << 10  # of an xml:base, which each entry repeats

Format = Literal["", "urlset", "index", "rss", "atom", "text"]
Problem = Literal["", "not_a_sitemap", "too_many_entries", "too_many_tags", "entities"]

_ROOTS: Final[dict[str, Format]] = {
    "urlset": "urlset",
    "sitemapindex": "index",
    "rss": "rss",
    "rdf": "rss",
    "feed": "atom",
}
_ENTRY: Final[dict[Format, str]] = {
    "urlset": "url",
    "index": "sitemap",
    "rss": "item",
    "atom": "entry",
}
_DATES: Final[dict[Format, tuple[str, ...]]] = {
    "urlset": ("lastmod",),
    "index": ("lastmod",),
    "rss": ("pubdate", "date"),  # dc:date of RSS 1.0
    "atom": ("updated", "published"),
}
# In any case: some files have <URLSET>, and XML knows no such element.
_NAMES = (
    "(?ai:urlset|sitemapindex|url|sitemap|loc|lastmod|rss|rdf|feed|item|entry|link|guid"
    "|pubdate|date|updated|published)"
)
_TAG = re.compile(
    rf"<(?:(/?)(?:([\w.-]++):)?({_NAMES})(?=[\s/>])([^<>]*+)>([^<]*+)"
    r"|(!--|!\[CDATA\[|!ENTITY))"
)
_ATTRIBUTE = re.compile(r"""(?<![\w:.-])([\w:.-]++)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_REFERENCE = re.compile(r"&(?:(amp|lt|gt|quot|apos)|#([0-9]{1,7})|#[xX]([0-9A-Fa-f]{1,6}));")
_PREDEFINED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_DECLARED = re.compile(rb"""<\?xml[^>]{0,200}?encoding\s*=\s*["']([\w.:-]{1,40})["']""")
_UTF16_BOMS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_SOME_ROOT = re.compile(r"<(?:[\w.-]+:)?(?ai:urlset|sitemapindex|rss|rdf|feed)[\s>]")
_LATEST: Final = 253_402_300_799  # the year 9999; RFC 822 sets no bound to its numbers
# W3C date and time, a profile of ISO 8601.
_W3C = re.compile(
    r"(\d{4})(?:-(\d\d)(?:-(\d\d)"
    r"(?:[Tt ](\d\d):(\d\d)(?::(\d\d)(?:[.,]\d+)?)?\s*(?:[Zz]|([+-])(\d\d):?(\d\d))?)?)?)?"
)


class Entry(NamedTuple):
    """One URL of a file."""

    url: str  # as it is written, without the blanks around it
    lastmod: int = 0  # UTC seconds; 0: none, or one that cannot be read


def seconds_of(date: str) -> int:
    """A date of a sitemap or a feed as UTC seconds; 0 if it cannot be read. Never fails."""
    seconds = _seconds_of(date.strip()[:64])
    return seconds if seconds <= _LATEST else 0


@lru_cache(1024)  # most entries of a file have one of a few dates
def _seconds_of(date: str) -> int:
    match = _W3C.fullmatch(date)
    if match is None:
        with suppress(ValueError, TypeError, OverflowError, IndexError):
            parts = parsedate_tz(date)  # RFC 822, of RSS
            return max(0, timegm((*parts[:6], 0, 0, 0)) - (parts[9] or 0)) if parts else 0
        return 0
    year, month, day, hour, minute, second, sign, hours, minutes = match.groups("0")
    whole = (int(year), int(month) or 1, int(day) or 1, int(hour), int(minute), int(second))
    if whole[0] < 1970 or whole[1] > 12 or whole[2] > 31 or whole[3] > 24 or whole[4] > 59:
        return 0
    ahead = int(hours) * 3600 + int(minutes) * 60
    return max(0, timegm((*whole, 0, 0, 0)) + (ahead if sign == "-" else -ahead))


class SitemapReader:
    """Reads one file: call `feed` with its pieces, then `end`. Both return entries; never raises.

    format -- of the file, "" before it is known
    problem -- why the rest of the file is not read; "" if nothing was wrong
    is_done -- the rest of the file is not read
    """

    def __init__(self) -> None:
        self.format: Format = ""
        self.problem: Problem = ""
        self._room = self._alternates_room = ENTRIES_MAX
        self._tags_room = TAGS_MAX
        self._decode: codecs.IncrementalDecoder | None = None
        self._first = b""  # bytes before the encoding is known
        self._begin = ""  # characters before the format is known
        self._carry = ""  # a tag, and the text behind it, that may not be complete
        self._skips = False  # up to the next "<": the text in the carry is too long
        self._is_cut = False  # the end of the file is missing
        self._until = ""  # the end of the comment or CDATA section that is open
        self._prefix = ""  # of the root element's namespace
        self._base = self._entry_base = ""  # of Atom's feed, and of the entry: xml:base
        self._is_entry = False  # inside an entry
        self._field = ""  # the element whose text is being read
        self._text = ""
        self._url = self._guid = ""
        self._lastmod = 0
        self._found: list[Entry] = []

    @property
    def is_done(self) -> bool:
        return bool(self.problem)

    def feed(self, data: bytes) -> list[Entry]:
        """The entries that end in this piece."""
        if self.is_done:
            return []
        if self._decode is None:
            self._first += data
            if len(self._first) < 256:  # the encoding is declared at the beginning
                return []
            data = self._begin_decoding()
        self._read(self._decoded(data, final=False), final=False)
        return self._taken()

    def end(self, *, is_cut: bool = False) -> list[Entry]:
        """The last entries. The file is over.

        `is_cut`: its end is missing. A URL that the end cuts is another URL, and no entry: in XML
        that is seen, in a text list it may be the last line.
        """
        if self.is_done:
            return []
        self._is_cut = is_cut
        data = self._begin_decoding() if self._decode is None else b""
        self._read(self._decoded(data, final=True), final=True)
        if not self.format and not self.problem:
            self.problem = "not_a_sitemap"
        return self._taken()

    def _begin_decoding(self) -> bytes:
        """Choose the decoder by what came so far. Returns these bytes."""
        first, self._first = self._first, b""
        if first.startswith(_UTF16_BOMS):
            self._decode = codecs.getincrementaldecoder("utf-16")("replace")
            return first
        declared = _DECLARED.search(first)
        encoding = webencodings.lookup(declared[1].decode("ascii", "replace")) if declared else None
        if encoding is None or encoding.name.startswith("utf-"):  # as ASCII, it is not UTF-16
            self._decode = codecs.getincrementaldecoder("utf-8-sig")("replace")
        else:
            decoder: Any = encoding.codec_info.incrementaldecoder("replace")
            self._decode = decoder
        return first

    def _decoded(self, data: bytes, *, final: bool) -> str:
        assert self._decode is not None
        try:
            return self._decode.decode(data, final)
        except UnicodeError:  # in ISO-2022-JP, an escape sequence without an end, despite "replace"
            self._decode.reset()
            return ""

    def _taken(self) -> list[Entry]:
        found, self._found = self._found, []
        return found

    def _read(self, text: str, *, final: bool) -> None:
        if not self.format:
            self._begin += text
            text = self._begin
            self._find_format(final=final)
            if not self.format:
                return
            self._begin = ""
        if self.format == "text":
            self._read_lines(text, final=final)
        else:
            self._read_tags(text, final=final)

    def _find_format(self, *, final: bool) -> None:
        """Set the format, or the problem that there is none, once that can be told."""
        begin = self._begin
        root = _SOME_ROOT.search(begin)
        if root is not None:
            name = root[0][1:].rstrip(">").rstrip().rpartition(":")
            self.format, self._prefix = _ROOTS[name[2].lower()], name[0]
            return
        if not begin.lstrip().startswith("<") and (final or len(begin) > _VALUE_MAX):
            lines = begin.split("\n", 100)[:100]
            if any(_is_url(line.strip()) for line in lines):
                self.format = "text"
                return
        if final or len(begin) > _ROOT_MAX:
            self.problem = "not_a_sitemap"

    # Text lists

    def _read_lines(self, text: str, *, final: bool) -> None:
        *lines, self._carry = (self._carry + text).split("\n")
        if final and not self._is_cut:
            lines.append(self._carry)
        self._carry = self._carry[:CARRY_MAX]
        for line in lines:
            if _is_url(url := line.strip()):
                self._add(url, 0)

    # XML

    def _read_tags(self, text: str, *, final: bool) -> None:
        if self._skips:
            start = text.find("<")
            if start < 0 and not final:
                return
            self._skips, text = False, text[start:] if start >= 0 else ""
        self._tags_room -= text.count("<")
        if self._tags_room < 0:
            self.problem = "too_many_tags"
        text, self._carry = self._carry + text, ""
        at = 0
        while not self.problem:
            if self._until:
                end = text.find(self._until, at)
                if end < 0:
                    self._collect(text[at : len(text) - 2])
                    self._carry = text[max(at, len(text) - 2) :]
                    return
                self._collect(text[at:end])
                at, self._until = end + len(self._until), ""
            # A tag and the text behind it are complete where the next tag begins.
            cut = len(text) if final else max(text.rfind("<"), at)
            at = self._tags_until(text, at, cut)
            if not self._until:
                break
        rest = text[at:]
        if final or self.problem:
            if final and self._field:  # no tag closes it: the text may be cut
                self._field = self._text = ""
            self._end_entry()
        elif rest.startswith(("<!--", "<![CDATA[")):
            self._until = "-->" if rest[2] == "-" else "]]>"
            self._carry = rest[4 if rest[2] == "-" else 9 :]
            if len(self._carry) > CARRY_MAX:
                self._read_tags("", final=False)
        else:
            self._carry, self._skips = rest[:CARRY_MAX], len(rest) > CARRY_MAX

    def _tags_until(self, text: str, at: int, cut: int) -> int:
        """Read the tags of interest from `at` to `cut`, or up to a comment or CDATA section, whose
        beginning sets `_until`. Returns the end of what was read.
        """
        for match in _TAG.finditer(text, at, cut):
            closing, prefix, name, attributes, behind, other = match.groups()
            if other == "!ENTITY":  # no sitemap needs one
                self.problem = "entities"
                return match.end()
            if other:
                self._until = "-->" if other == "!--" else "]]>"
                return match.end()
            if closing:
                self._closes(prefix or "", name.lower())
            else:
                self._opens(prefix or "", name.lower(), attributes, behind)
            if self.problem:
                return match.end()
        return cut

    def _opens(self, prefix: str, name: str, attributes: str, behind: str) -> None:
        self._end_field()
        if name == "feed" and not self._is_entry:
            self._base = _base_in(attributes, "")
        if name == _ENTRY[self.format] and prefix == self._own_prefix:
            self._end_entry()
            self._is_entry = True
            if self.format == "atom":
                self._entry_base = _base_in(attributes, self._base)
        elif not self._is_entry:
            return
        elif name == "link" and self.format in ("urlset", "atom"):
            self._read_link(prefix, attributes)
        elif name in ("loc", "link", "guid"):
            if prefix == self._own_prefix and not attributes.endswith("/"):
                is_name = name == "guid" and "false" in attributes  # isPermaLink="false"
                self._field, self._text = ("" if is_name else name), behind
        elif name in _DATES[self.format] and (prefix == self._own_prefix or name == "date"):
            self._field, self._text = name, behind

    @property
    def _own_prefix(self) -> str:
        """Of the elements of an entry: those of RSS have none, also below rdf:RDF."""
        return "" if self.format == "rss" else self._prefix

    def _closes(self, prefix: str, name: str) -> None:
        if name == self._field:
            self._end_field()
        elif name == _ENTRY[self.format] and prefix == self._own_prefix:
            self._end_entry()

    def _read_link(self, prefix: str, attributes: str) -> None:
        """<link> of Atom; in a sitemap xhtml:link, another language of the same page."""
        found = _attributes_of(attributes)
        url, rel = _unescaped(found.get("href", "")).strip(), found.get("rel", "alternate")
        if not url or rel.lower() != "alternate":
            return
        if self.format == "atom":
            if prefix == self._prefix and not self._url:
                self._url = _joined(_base_in(attributes, self._entry_base), url)
        elif "hreflang" in found and self._alternates_room:
            self._alternates_room -= 1
            self._found.append(Entry(url))

    def _collect(self, text: str) -> None:
        """The content of a CDATA section belongs to the element that is being read."""
        if self._field and self._until == "]]>" and len(self._text) < _VALUE_MAX:
            escaped = text[:_VALUE_MAX].replace("&", "&amp;")
            self._text += escaped

    def _end_field(self) -> None:
        name, text = self._field, self._text
        self._field = self._text = ""
        if name in ("loc", "link"):
            self._url = self._url or _value(text)
        elif name == "guid":
            self._guid = _value(text)
        elif name:
            self._lastmod = self._lastmod or seconds_of(_value(text))

    def _end_entry(self) -> None:
        self._end_field()
        url = self._url or (self._guid if _is_url(self._guid) else "")
        if self._is_entry and url:
            self._add(url, self._lastmod)
        self._is_entry, self._url, self._guid, self._lastmod = False, "", "", 0

    def _add(self, url: str, lastmod: int) -> None:
        if not self._room:
            self.problem = "too_many_entries"
        elif len(url) <= _VALUE_MAX:
            self._room -= 1
            self._found.append(Entry(url, lastmod))


def _attributes_of(attributes: str) -> dict[str, str]:
    """The attributes of a tag, as they are written; names in lower case."""
    return {
        name.lower(): double or single for name, double, single in _ATTRIBUTE.findall(attributes)
    }


def _base_in(attributes: str, outer: str) -> str:
    """The base of an element's URLs (RFC 4287, 2): its xml:base, relative to the `outer` one."""
    if "base" not in attributes.lower():
        return outer
    base = _joined(outer, _unescaped(_attributes_of(attributes).get("xml:base", "")).strip())
    return base if len(base) <= _BASE_MAX else outer


def _joined(base: str, url: str) -> str:
    """`url` relative to `base`. Both may be relative to the URL of the file."""
    try:
        return urljoin(base, url)
    except ValueError:  # no URL
        return url


def _is_url(text: str) -> bool:
    return text[:8].lower().startswith(("http://", "https://"))


def _value(text: str) -> str:
    return _unescaped(text.strip()) if len(text) <= 2 * _VALUE_MAX else ""


def _unescaped(text: str) -> str:
    """`text` with the references of XML 1.0, 4.1 and 4.6. Any other stays as it is written."""
    return _REFERENCE.sub(_character, text) if "&" in text else text


def _character(reference: re.Match[str]) -> str:
    name, decimal, hexadecimal = reference.groups()
    if name:
        return _PREDEFINED[name]
    code = int(decimal) if decimal else int(hexadecimal, 16)
    if code == 0 or 0xD800 <= code <= 0xDFFF or code > 0x10FFFF:
        return "\ufffd"
    return chr(code)
