"""The behaviours of a page, by name: the table.

A sound page is a 200 with a whole HTML document whose links a crawler must follow. Only sound pages
have the links that make every page reachable. A crawler must request each other page once, and
needs to find no links there.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import NamedTuple

import brotli  # type: ignore[import-untyped]

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

from simweb import documents as doc
from simweb import failures as bad
from simweb import hostile
from simweb.features import Feature
from simweb.pages import Page
from simweb.reply import Reply
from simweb.words import WORDS

ENDLESS = 1_000_000


class Trail(NamedTuple):
    """Writes a step as a path behind the page's path, and reads it back."""

    write: Callable[[int], str]
    read: Callable[[str], int]  # undefined for a path that `write` did not give


def _a_segment_each(word: Callable[[int], str]) -> Trail:
    return Trail(
        lambda step: "".join(f"/{word(number)}" for number in range(1, step + 1)),
        lambda path: path.count("/"),
    )


MORE = _a_segment_each(lambda number: "mais")
WORDS_ON = _a_segment_each(lambda number: WORDS[number % len(WORDS)])
MONTHS = Trail(
    lambda step: f"/{2030 + step // 12}/{step % 12 + 1:02}",
    lambda path: (int(path[1:5]) - 2030) * 12 + int(path[6:]) - 1 if path[6:].isdigit() else 0,
)


@dataclass(frozen=True)
class PageKind(Feature):
    """A kind. `steps` counts the URLs of a page in addition to its own (`?passo=1` ...).

    `leads` is the target of a redirect: "on" to the next step until the last, which is a document;
    "back" and forth between two steps; "away" to another host. `shut`: a step must not be
    requested, since only a nofollow link leads there. `trail`: steps are written in the path.
    """

    family = "page"
    build: Callable[[Page], Reply]
    _: KW_ONLY
    steps: int = 0
    leads: str = ""
    shut: bool = False
    trail: Trail | None = None

    @property
    def trap(self) -> bool:
        return self.steps == ENDLESS


_sound = PageKind
_hard = partial(PageKind, default=False)
_moved = partial(PageKind, sound=False, steps=1, leads="on")
_leaf = partial(PageKind, sound=False)
_hurt = partial(PageKind, sound=False, default=False)
_shut = partial(PageKind, sound=False, steps=1, shut=True)
_trap = partial(PageKind, sound=False, default=False, steps=ENDLESS)
_X_ROBOTS = "X-Robots-Tag: noindex, nofollow"
_LATIN_TYPE = "text/html; charset=ISO-8859-1"
_LATIN_META = '<meta http-equiv="Content-Type" content="text/html; charset=iso-8859-1">'

PAGES = (
    _sound("plain", 100, "200 with a Content-Length", doc.plain),
    _sound("chunked", 8, "chunked", doc.chunked),
    _sound("chunked-odd", 2, "chunked with extensions, trailers, 000", doc.chunked_odd),
    _sound("chunked-gzip", 4, "gzip, chunked", doc.chunked_gzip),
    _sound("gzip", 6, "Content-Encoding: gzip", doc.coded("gzip", doc.gzipped)),
    _sound("x-gzip", 0.5, "Content-Encoding: x-gzip", doc.coded("x-gzip", doc.gzipped)),
    _sound("deflate", 1, "deflate with a zlib header", doc.coded("deflate", zlib.compress)),
    _sound("deflate-raw", 0.5, "deflate without zlib", doc.coded("deflate", doc.raw_deflate)),
    _sound("br", 2, "br", doc.coded("br", brotli.compress)),
    _hard("zstd", 0.2, "zstd", doc.coded("zstd", zstd.compress)),
    _sound("until-close", 3, "HTTP/1.0, the body ends with the connection", doc.until_close),
    _sound("odd-head", 1, "odd case, spaces and repeats of header fields", doc.odd_head),
    _sound("interim", 0.5, "103 before the 200", doc.interim),
    _sound("pieces", 0.5, "sent in pieces with pauses", doc.pieces),
    _sound("slow", 1, "first byte after 0.5 to 2 s", doc.slow),
    _sound("large", 0.2, "1 MiB", doc.large),
    _sound("latin", 4, "windows-1252, named in the header", doc.latin(_LATIN_TYPE, "")),
    _sound("latin-meta", 2, "windows-1252, named in meta", doc.latin("text/html", _LATIN_META)),
    _sound("xhtml", 1, "application/xhtml+xml", doc.typed("application/xhtml+xml; charset=utf-8")),
    _sound("type-case", 1, "Text/HTML;charset=...", doc.typed('Text/HTML;x=y;Charset="UTF-8"')),
    _sound("base", 2, "links relative to a base", doc.base),
    _sound("elements", 2, "links in area and iframe", doc.elements),
    _sound("frameset", 0.7, "links in frames", doc.frameset),
    _sound("head-links", 2, "links in meta refresh and link rel=next, prev", doc.head_links),
    _sound("noise", 5, "comments, scripts, mailto: not links", doc.noise),
    _sound("rel-nofollow", 1, "one link with rel=nofollow", doc.rel_nofollow, steps=1),
    _hard("many-links", 0.2, "20,000 links", hostile.many_links),
    _hard("many-fields", 0.2, "3,000 header lines, some broken", hostile.many_fields),
    _hard("tiny-chunks", 0.2, "one byte a chunk", hostile.tiny_chunks),
    _hard("nested", 0.2, "200,000 elements deep", hostile.around(*hostile.NESTED)),
    _hard("attributes", 0.2, "a tag with 100,000 attributes", hostile.around(*hostile.ATTRIBUTES)),
    _hard("tangled", 0.2, "2 MB of broken markup", hostile.around(*hostile.TANGLED)),
    _moved("301", 4, "301", bad.redirect(301)),
    _moved("302", 3, "302", bad.redirect(302)),
    _moved("303", 0.5, "303", bad.redirect(303)),
    _moved("307", 0.5, "307", bad.redirect(307)),
    _moved("308", 0.5, "308", bad.redirect(308)),
    _moved("chain", 1.5, "four redirects in a row", bad.redirect(301, 302, 307), steps=4),
    _moved("relative", 1, "Location relative to the page", bad.redirect(302, spell=bad.query_only)),
    _moved("away", 2, "301 to another host", bad.redirect(301), steps=0, leads="away"),
    _moved("loop", 1, "two redirects to each other", bad.redirect(302), leads="back"),
    _leaf("nowhere", 0.5, "302 without a Location that can be followed", bad.nowhere),
    _leaf("404", 5, "404", bad.status(404)),
    _leaf("410", 0.5, "410", bad.status(410)),
    _leaf("401", 0.3, "401", bad.status(401, 'WWW-Authenticate: Basic realm="x"')),
    _leaf("403", 1, "403", bad.status(403)),
    _leaf("500", 1, "500", bad.status(500)),
    _leaf("503", 0.5, "503 with Retry-After", bad.status(503, "Retry-After: 2")),
    _leaf("429", 0.5, "429 with Retry-After", bad.status(429, "Retry-After: 1")),
    _leaf("204", 0.3, "204", bad.status(204)),
    _leaf("304", 0.2, "304 to an unconditional request", bad.status(304)),
    _leaf("999", 0.2, "status 999", bad.unknown_status),
    _leaf("flaky", 0.7, "503 the first time, 200 the second", bad.flaky),
    _leaf("hang", 0.3, "never answers", bad.broken(b"", "hang")),
    _leaf("half-head", 0.2, "half a header, then silence", bad.broken(b"HTTP/1.1 200", "hang")),
    _leaf("drip", 0.2, "five bytes a second, for ever", bad.drip),
    _leaf("reset", 0.5, "reset before the answer", bad.broken(b"", "reset")),
    _leaf("close", 0.3, "closed before the answer", bad.broken(b"", "close")),
    _leaf("reset-inside", 0.5, "reset inside the body", bad.reset_inside),
    _leaf("garbage", 0.3, "not HTTP", bad.broken(b"\x00\x01<b>nada</b>\r\n\r\n", "close")),
    _leaf("long", 0.5, "Content-Length 1000 too long", bad.wrong_length(1000)),
    _leaf("short", 0.5, "Content-Length 300 too short", bad.wrong_length(-300)),
    _leaf("bad-chunks", 0.3, "chunked, broken in the middle", bad.bad_chunks),
    _leaf("bad-gzip", 0.3, "HTML labelled as gzip", bad.bad_gzip),
    _leaf("no-type", 0.5, "HTML without a Content-Type", doc.typed("")),
    _leaf("pdf", 2, "application/pdf", bad.file("application/pdf", b"%PDF-1.4\n")),
    _leaf("png", 1, "image/png", bad.file("image/png", b"\x89PNG\r\n\x1a\n")),
    _leaf("empty", 0.5, "200 without a byte", bad.empty),
    _leaf("large-head", 0.1, "1 MiB of header", bad.large_head),
    _leaf("endless", 0.1, "100 MiB without a length", bad.endless),
    _leaf("bomb", 0.1, "1 MiB of gzip, 1 GiB out of it", bad.bomb),
    _hurt("endless-chunks", 0.2, "100 MiB, chunked", hostile.endless_chunks),
    _hurt("huge-chunk", 0.2, "a chunk of 16 EiB, announced", hostile.huge_chunk),
    _hurt("hold", 0.2, "9 MiB, then silence", hostile.hold),
    _hurt("head-drip", 0.2, "a header field every 0.2 s, for ever", hostile.head_drip),
    _hurt("interims", 0.2, "100 Continue, for ever", hostile.interims),
    _hurt("two-lengths", 0.2, "two Content-Lengths", hostile.two_lengths),
    _hurt("long-location", 0.2, "301 to a URL of 48 kB", hostile.long_location),
    _hurt("many-codings", 0.2, "500 content codings", hostile.many_codings),
    _hurt("later", 0.2, "503 with a useless Retry-After", hostile.nonsense_later),
    _shut("meta-nofollow", 0.7, "meta robots nofollow", doc.nofollow(meta=doc.META_NOFOLLOW)),
    _shut("x-robots", 0.7, "X-Robots-Tag: nofollow", doc.nofollow(_X_ROBOTS)),
    _trap("calendar", 0.3, "each page links to the next one, for ever", doc.calendar),
    _trap("tunnel", 0.3, "each page links to `mais` below it", doc.deeper, trail=MORE),
    _trap("well", 0.3, "each page links to another word below it", doc.deeper, trail=WORDS_ON),
    _trap("months", 0.3, "links to the next month and the last", doc.months, trail=MONTHS),
    _trap("fan", 0.3, "each page links to the same 20,000 others", hostile.fan),
    _trap("redirects", 0.3, "each page redirects to the next one, for ever", bad.redirect(302)),
)
