"""The columns of what an owner says about the use of a page, from the lines of `ownersignals`."""

from __future__ import annotations

from typing import NamedTuple

from webcrawl.parse.links import read_html
from webcrawl.parse.ownersignals import (
    header_directives,
    header_signals,
    license_signals,
    meta_directives,
    meta_signals,
    robots_signals,
)
from webcrawl.tools.corpus.captures import Capture

# A page has no signal in its markup if no element begins within _TAG_MAX before one of _WORDS. Of
# a page with _FOUND_MAX words that is not asked, but read.
_WORDS = (b"robots", b"tdm-", b"license")
_ELEMENTS = (b"<meta", b"<link")
_TAG_MAX = 2_000  # bytes
_FOUND_MAX = 200
_USAGE = ("content-usage", "content-signal")


class Signals(NamedTuple):
    """The columns; None where the owner says nothing."""

    noindex: bool
    noarchive: bool
    nofollow: bool
    content_usage: str | None
    tdm_reservation: str | None
    license: str | None


def signals_of(capture: Capture, html: bytes, charset: str, robots_txt: bytes) -> Signals:
    """The columns of a capture; `html` and `robots_txt` are b"" if it is none.

    A crawler that knew its own name has written what applies to it; else all that is for `*`.
    """
    lines = capture.signals
    if not lines or lines[-1].startswith("... "):
        lines = header_signals(capture.message.headers)
        if html and _may_say(html.lower(), charset):
            lines += _in_markup(html, charset)
        if robots_txt:
            lines += robots_signals(robots_txt, "*")
    if not lines:
        return _NONE
    said: dict[str, list[str]] = {}
    directives: set[str] = set()
    for line in lines:
        name, _, value = line.partition(": ")
        name = name.lower()
        of_meta, element = name.startswith("meta "), name.rpartition(" ")[2]
        said.setdefault(element, []).append(value)
        if of_meta and not element.startswith("tdm-"):
            directives |= meta_directives([(element, value)], (element,))
        elif name == "x-robots-tag":
            directives |= header_directives(value, ())
    return Signals(
        not directives.isdisjoint(("noindex", "none")),
        "noarchive" in directives,
        not directives.isdisjoint(("nofollow", "none")),
        _usage(lines, bool(robots_txt)),
        _joined(said.get("tdm-reservation")),
        _joined([*said.get("link", ()), *said.get("license", ())]),
    )


_NONE = Signals(False, False, False, None, None, None)


def _may_say(lower: bytes, charset: str) -> bool:
    """Whether the markup must be read, which takes 3 times as long or more. O(size)."""
    if charset.startswith("utf-16"):
        return True
    for word in _WORDS:
        at, found = lower.find(word), 0
        while at >= 0:
            found += 1
            if found == _FOUND_MAX:
                return True
            before = lower[max(0, at - _TAG_MAX) : at]
            if any(element in before for element in _ELEMENTS):
                return True
            at = lower.find(word, at + 1)
    return False


def _in_markup(html: bytes, charset: str) -> list[str]:
    markup = read_html(html, charset)
    metas = [
        (name, text) for name, text in markup.robots if name == "robots" or name.startswith("tdm-")
    ]
    return [*meta_signals(metas), *license_signals(markup.licenses)]


def _usage(lines: list[str], of_robots_txt: bool) -> str | None:
    """The values of Content-Usage; of a robots.txt with their names, as it has two."""
    found = [
        line if of_robots_txt else line.partition(": ")[2]
        for line in lines
        if line.partition(": ")[0].lower() in _USAGE
    ]
    return _joined(found)


def _joined(values: list[str] | None) -> str | None:
    return "\n".join(values) if values else None
