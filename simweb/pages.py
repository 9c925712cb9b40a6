"""One page: its title, its links, its text, and the HTML made of them.

Owns the form of the document; `pagekinds` owns how it is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

from simweb.tongues import TONGUES, Tongue
from simweb.words import TEXTS, WORDS

Charset = Literal["utf-8", "windows-1252"]

# Sizes of pages as shares of their mean: log-normal, as on the web, cut at 40 times the mean.
_RNG = Random(3)
SIZES = tuple(min(_RNG.lognormvariate(-0.405, 0.9), 40.0) for _ in range(4096))

_BEFORE, _AFTER = '<p>Veja <a class="x" href="', '">aqui</a> e siga.\n'  # a link in the text
_AFTER_AND_BEFORE = _AFTER + _BEFORE


@dataclass(slots=True)
class Page:
    """A page. `onward` is the URL of its next step: the target of a redirect, or of a link that
    must not be followed. `back` is the URL of the step before, "" on the first."""

    title: str  # different for any two pages that are not mirrors
    number: int  # a hash, from which builders draw variants
    step: int
    attempt: int  # 1: the first request for it
    size_bytes: int
    onward: str
    whole: bool  # a mirror serves it too: its links must be absolute
    hrefs: Callable[[], list[str]]  # attribute values of its links, escaped
    back: str = ""
    tongue: Tongue = TONGUES[0]

    def html(
        self,
        hrefs: Sequence[str],
        *,
        charset: Charset = "utf-8",
        meta: str = '<meta charset="utf-8">',
        more: str = "",
    ) -> bytes:
        """The document; `meta` goes into its head and `more` into its body. About 7 µs."""
        menu = len(hrefs) // 4
        items = "".join(
            [f'<li><a href="{href}">{WORDS[len(href) & 63]}</a>\n' for href in hrefs[:menu]]
        )
        rest = _AFTER_AND_BEFORE.join(hrefs[menu:])
        top = (
            f'<!DOCTYPE html>\n<html lang="{self.tongue.declared}">\n<head>\n{meta}\n'
            f"<title>{self.title}</title>\n"
            f'<link rel="stylesheet" href="/s.css">\n</head>\n<body>\n<nav>\n<ul>\n{items}</ul>\n'
            f"</nav>\n<h1>{self.title}</h1>\n"
        ).encode(charset)
        links = f"{_BEFORE}{rest}{_AFTER}" if hrefs else ""
        end = f"{links}{more}\n</body>\n</html>\n".encode(charset)
        text = TEXTS[self.tongue.text, charset].cut(
            self.number, self.size_bytes - len(top) - len(end)
        )
        return b"".join((top, text, end))
