"""What the body of a page says: its links, with RECRAWL the hash of its main text, with LANGUAGES
the language of a page of the sample, and the sketch of its text without FOLLOW_NEAR_DUPLICATES.

The same function reads a small page in place and a large one in the other process (`bodyprocess`).
So the other process loads this folder, the user's parsers, and `fetch.decode`, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec import Struct

from webcrawl.parse.maintext import QUICK_BYTES as QUICK_TEXT_BYTES
from webcrawl.parse.maintext import Blocks, blocks_of, text_hash
from webcrawl.parse.page import (
    HTML_TYPES,
    PARSERS,
    QUICK_BYTES,
    QUICK_TAGS,
    ParsedPage,
    Parser,
    media_type_of,
    read_page,
)
from webcrawl.parse.requisites import CSS_TYPE

if TYPE_CHECKING:
    from webcrawl.parse.detection import Detector

# In which the files that a page or style sheet shows are found in 25 ms.
QUICK_SHOWN_BYTES: Final = 64 << 10
# Of a parser that the setting PARSERS names. That of PDF may unpack 32 times as much.
QUICK_BYTES_OF_OTHERS: Final = 16 << 10


class Options(Struct, frozen=True):
    """The settings for reading pages: the first message to the other process."""

    agent: str = ""  # the name that robots rules know this crawler by, lower case
    also: tuple[str, ...] = ()  # other names whose rules hold too (ROBOTSTXT_USER_AGENT)
    obey_nofollow: bool = True
    follow_feeds: bool = True
    parsers: dict[str, str | None] = {}  # PARSERS: import paths by media type; None: no parser
    revisits: bool = False  # RECRAWL
    requisites: bool = False  # PAGE_REQUISITES
    languages: bool = False  # LANGUAGES
    language_model: str = ""  # LANGUAGE_MODEL, absolute
    sketches: bool = False  # FOLLOW_NEAR_DUPLICATES is off


class About(NamedTuple):
    """What is known of a body beside it: URL and headers, and `is_sampled`: the language of its
    text is looked for, 0.4 ms.
    """

    content_type: str
    url: str
    x_robots_tag: str = ""
    refresh: str = ""  # that header
    is_sampled: bool = False
    content_language: str = ""  # that header


class Parsed(NamedTuple):
    """What the body of a page says. `simhash`: of its main text; None without RECRAWL.

    `language`: of its text, ISO 639-3 or "und"; "" if that was not looked at. `sketch`: of its text
    (`parse.sketch`); empty if it is not compared.
    """

    page: ParsedPage
    simhash: int | None = None
    language: str = ""
    sketch: bytes = b""


class BodyReader:
    """Reads bodies with one set of options."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._parsers = parsers_of(options.parsers)
        reads_text = options.revisits or options.sketches
        most = min(QUICK_TEXT_BYTES, QUICK_BYTES) if reads_text else QUICK_BYTES
        if options.requisites:
            most = min(most, QUICK_SHOWN_BYTES)
        self._quick_bytes = {
            media_type: QUICK_BYTES_OF_OTHERS if media_type in options.parsers else most
            for media_type in self._parsers
        }
        self._quick_bytes.setdefault(CSS_TYPE, QUICK_SHOWN_BYTES)
        self._detector: Detector | None = None
        if options.languages:
            from webcrawl.parse.detection import Detector  # noqa: PLC0415  (its library is an extra)

            self._detector = Detector(options.language_model)
        self._sketch: Callable[[Blocks], bytes] | None = None
        if options.sketches:
            from webcrawl.parse.sketch import page_sketch  # noqa: PLC0415  (as above)

            self._sketch = page_sketch

    def reads_quickly(self, body: bytes, media_type: str) -> bool:
        """Whether `read` takes less than 50 ms, so it may run on the event loop.

        20 µs for a page of 50 KB; no time below 32 KB.
        """
        size = len(body)
        if size > self._quick_bytes.get(media_type, size):  # of other types no link is read
            return False
        return size <= 8 * QUICK_TAGS or body.count(b"<") <= QUICK_TAGS

    def read(self, body: bytes, about: About) -> Parsed:
        """What `body` says. May raise what a parser of the user's raises."""
        options = self.options
        content_type, url, x_robots_tag, refresh, is_sampled, content_language = about
        page = read_page(
            body,
            content_type,
            url,
            x_robots_tag=x_robots_tag,
            refresh=refresh,
            content_language=content_language,
            obey_nofollow=options.obey_nofollow,
            user_agent_token=options.agent,
            robots_also=options.also,
            follow_feeds=options.follow_feeds,
            parsers=self._parsers,
            finds_requisites=options.requisites,
        )
        if not (options.revisits or is_sampled or options.sketches):
            return Parsed(page)
        is_html = media_type_of(content_type) in HTML_TYPES
        simhash, language, sketch = None, "", b""
        reads_text = is_html and (options.revisits or options.sketches)
        blocks = blocks_of(body, page.charset) if reads_text else None
        if options.revisits:
            simhash = text_hash(body, blocks)
        if is_sampled and is_html and self._detector is not None:
            language = self._detector.detect_page(body, page.charset)
        if self._sketch is not None and blocks and not page.moves:
            sketch = self._sketch(blocks)
        return Parsed(page, simhash, language, sketch)


def parsers_of(paths: Mapping[str, str | None]) -> dict[str, Parser]:
    """The parsers by media type: ours, and those of PARSERS by their import paths."""
    parsers = dict(PARSERS)
    for media_type, path in paths.items():
        if path is None:
            parsers.pop(media_type, None)
        else:
            parsers[media_type] = _imported(path)
    return parsers


def _imported(path: str) -> Any:
    """The object at "package.module.name", or of a class at "package.module.Class.name"."""
    parent, _, name = path.rpartition(".")
    try:
        return getattr(import_module(parent), name)
    except ModuleNotFoundError as error:
        if "." not in parent or error.name != parent:
            raise
        return getattr(_imported(parent), name)
