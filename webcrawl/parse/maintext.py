"""The main text of a page, and its similarity hash: whether a page has changed since its last
visit.

Owns what counts as a change. Bytes do not: counters, dates, tokens and rotating ads make every page
new. So numbers and the words of dates are left out, and of an HTML page only the text of long
blocks with few links counts. If there is little of it, as on a page of headlines, all text counts
that is not beside the text (menus, footers, boxes that say that they are ads). The hash is a
simhash (Charikar 2002) of pieces of the text: texts with most pieces in common have hashes that
differ in few bits.

docs/lasting.md describes it. Pure. O(size) up to TEXT_MAX_BYTES, for any bytes: 8 to 13 µs per kB
of a usual page, twice as much without the C module; half a second and 60 MB at worst.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from hashlib import sha1
from itertools import filterfalse
from typing import Final

from xxhash import xxh3_64_digest

from webcrawl.parse.charset import decode

# Hashes that differ in this many bits at most are of the same text: docs/lasting.md.
SAME_BITS: Final = 2
TEXT_MAX_BYTES: Final = 1 << 20  # of a page: what comes after is not compared
QUICK_BYTES: Final = 64 << 10  # a page of this size takes less than 20 ms, whatever it holds

Blocks = tuple[list[bytes], list[bytes], list[bytes]]

_BLOCK_WORDS = 10  # of a long block, outside links
_LINK_WORDS = 8  # of a long block, for each of its links
_MAIN_SHARE = 4  # the long blocks must have one in so many words
_ATTRIBUTES_MAX = 500  # bytes, of a tag whose class is looked at

# Digits and ASCII punctuation end a word, and are left out. Letters beyond ASCII are bytes beyond.
_LETTERS_ONLY = bytes(byte if byte > 127 or chr(byte).isalpha() else 32 for byte in range(256))
# Where a text is cut into pieces: 2 to 6 % of the letters of Latin, Cyrillic and Greek script, and
# one in 16 characters of Chinese and Japanese.
CUTS: Final = bytes(32 if byte in b"gpGP\x80\xbf" else byte for byte in range(256))

_SKIPPED = (
    *("script", "style", "noscript", "template", "svg", "select", "iframe", "textarea"),
    "head",
)
_ASIDE = ("nav", "aside", "footer")
_BOXES = ("div", "section", "ul", "ol", "table", "td", "p", "form", "ins")
_INLINE = (
    *("abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "dfn", "em", "del"),
    *("font", "i", "img", "kbd", "label", "mark", "q", "s", "samp", "small", "span", "br"),
    *("strike", "strong", "sub", "sup", "time", "tt", "u", "var", "wbr"),
)
# Boxes with such a class or id are beside the text: whole words of it, so that "with-sidebar" of a
# page's outermost box is none.
_values = re.compile(
    rb"""(?:class|id)\s*+=\s*+(?:"([^"]*+)|'([^']*+)|([^\s"'<>]++))""", re.IGNORECASE
).findall
_names_beside = re.compile(
    rb"(?:\A|\s)"
    rb"(?:ads?|adsbygoogle|advert(?:s|isement|ising)?|ad[_-][a-z0-9_-]*|[a-z0-9_-]*[_-]ads?|banners?"
    rb"|sponsor(?:s|ed)?|promo(?:s|tion)?|related|recommend(?:ed|ations)?|trending|popular|sidebar"
    rb"|nav|navbar|navigation|menu|breadcrumbs?|footer|cookies?|consent|share|social|newsletter)"
    rb"(?=\s|\Z)",
    re.IGNORECASE,
).search
# Words of dates and ages ("3 hours ago"), whose numbers are left out as well.
_DATES = """
    january february march april may june july august september october november december
    jan feb mar apr jun jul aug sep sept oct nov dec monday tuesday wednesday thursday friday
    saturday sunday mon tue wed thu fri sat sun am pm today yesterday ago second seconds minute
    minutes hour hours day days week weeks month months year years utc gmt
    janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro
    segunda terça quarta quinta sexta feira sábado domingo hoje ontem há atrás segundos minuto
    minutos hora horas dia dias semana semanas mês meses ano anos
    enero febrero marzo mayo junio julio septiembre octubre noviembre diciembre lunes martes
    miércoles jueves viernes hoy ayer hace día días mes año años
    januar februar märz mai juni juli oktober dezember montag dienstag mittwoch donnerstag freitag
    samstag sonntag heute gestern vor uhr sekunden minuten stunde stunden tag tagen woche wochen
    janvier février mars avril juin juillet août septembre octobre novembre décembre lundi mardi
    mercredi jeudi vendredi samedi dimanche aujourd hui hier heure heures jour jours semaine année
"""


def _spellings(names: tuple[str, ...], prefix: str = "") -> tuple[bytes, ...]:
    return tuple((prefix + each).encode() for name in names for each in (name, name.upper()))


# What a tag does. All others end a block of text.
_INLINE_TAG, _LINK, _LINK_END, _RAW, _ASIDE_TAG, _ASIDE_END, _BOX, _BLOCK = range(8)
_ACTIONS = {
    **dict.fromkeys(_spellings(_INLINE) + _spellings(_INLINE, "/"), _INLINE_TAG),
    **dict.fromkeys(_spellings(("a",)), _LINK),
    **dict.fromkeys(_spellings(("a",), "/"), _LINK_END),
    **dict.fromkeys(_spellings(_SKIPPED), _RAW),
    **dict.fromkeys(_spellings(_ASIDE), _ASIDE_TAG),
    **dict.fromkeys(_spellings(_ASIDE, "/"), _ASIDE_END),
    **dict.fromkeys(_spellings(_BOXES), _BOX),
}
_BOXLESS = {name: action for name, action in _ACTIONS.items() if action != _BOX}
_date_words = frozenset(
    each.encode() for word in _DATES.split() for each in (word, word.capitalize(), word.upper())
)
# ASCII bytes mean ASCII characters, and letters beyond ASCII are bytes beyond ASCII.
_READ_AS_BYTES = re.compile(
    r"utf-8|windows-125\d|windows-874|iso-8859-\d+|koi8-[ru]|macintosh|ibm866"
).fullmatch


def is_same(first: int, second: int) -> bool:
    """Whether two hashes are of the same main text."""
    return (first ^ second).bit_count() <= SAME_BITS


def text_hash(payload: bytes, blocks: Blocks | None) -> int:
    """The hash of a page, 64 bits, never 0.

    `blocks`: of HTML; the simhash of its main text. Of anything else, and of HTML without any word:
    a digest of the bytes, which is the same only for the same bytes.
    """
    words = main_words(blocks) if blocks else []
    return (simhash(pieces(words)) if words else digest(payload)) or 1


def digest(payload: bytes) -> int:
    """The first 64 bits of SHA-1."""
    return int.from_bytes(sha1(payload, usedforsecurity=False).digest()[:8])


def main_words(blocks: Blocks) -> list[bytes]:
    """The words of the main text of an HTML page, in order; empty for a page without any word."""
    main, rest, beside = blocks
    words, others = words_of(main), words_of(rest)
    if len(words) * _MAIN_SHARE < len(words) + len(others):
        words += others
    return words or words_of(beside)


def blocks_of(payload: bytes, charset: str) -> Blocks:
    """The text of an HTML page: long blocks, all other blocks, and blocks beside the text."""
    payload, _ = _as_bytes(payload[:TEXT_MAX_BYTES], charset)
    found: Blocks = text_blocks(payload, _ACTIONS, _is_beside)
    return found


def plain_text(payload: bytes, charset: str, enough_bytes: int) -> tuple[bytes, str]:
    """The text of the long blocks of an HTML page, and its encoding; if it has less than
    `enough_bytes`, with that of all blocks that are not beside them. References stay (`&amp;`).

    Boxes are not looked at: that would cost three times as much, and menus have no long blocks.
    """
    payload, charset = _as_bytes(payload[:TEXT_MAX_BYTES], charset)
    main, rest, _ = text_blocks(payload, _BOXLESS, _is_beside)
    text = b" ".join(main)
    return (text if len(text) >= enough_bytes else b" ".join([text, *rest])), charset


def _as_bytes(payload: bytes, charset: str) -> tuple[bytes, str]:
    """`payload` as `text_blocks` reads it, and its encoding."""
    if _READ_AS_BYTES(charset):
        return payload, charset
    return decode(payload, charset).encode("utf-8", "replace"), "utf-8"


def pieces(words: list[bytes]) -> set[bytes]:
    """The features of a text: its letters, cut where one of a few rarer letters is. O(letters).

    A piece has some 25 letters, so there are few of them; where the text is cut depends on the text
    near by alone, so a change of the text changes the pieces there and no others. Words alone would
    make all pages of a site that has few of them the same.
    """
    return set(b"".join(words).translate(CUTS).split(b" "))


def _is_beside(attributes: bytes) -> bool:
    """Whether the class or id among `attributes` says that a box is beside the text. Linear."""
    if len(attributes) > _ATTRIBUTES_MAX:
        return False
    return any(_names_beside(b" ".join(value)) for value in _values(attributes))


def words_of(blocks: list[bytes]) -> list[bytes]:
    """The words of blocks of text, in order, without numbers and the words of dates."""
    words = b" ".join(blocks).translate(_LETTERS_ONLY).split()
    return list(filterfalse(_date_words.__contains__, words))


def text_blocks_in_python(
    payload: bytes, actions: Mapping[bytes, int], is_beside: Callable[[bytes], bool]
) -> Blocks:
    """The text of a page: long blocks, all other blocks, and blocks beside the text.

    `actions` says what a tag does, and `is_beside` of a box's attributes whether the box is beside
    the text. "<" within an attribute or a comment is read as a tag: the same at each visit.
    O(size): 0.3 µs per tag, in C 0.06.
    """
    main: list[bytes] = []
    rest: list[bytes] = []
    beside: list[bytes] = []
    texts: list[bytes] = []  # of the block, in order
    raw_end = b""  # the tag that ends a script
    box = box_end = b""  # of what is beside the text, and how many of its kind are open
    asides = boxes = link_words = links = 0
    is_link = False
    for part in (payload + b"<>").split(b"<"):  # a last tag ends the last block
        tag, _, text = part.partition(b">")
        name, _, attributes = tag.partition(b" ")
        action = actions.get(name, _BLOCK)
        if raw_end:
            if name.lower() != raw_end:
                continue
            raw_end = b""
        if action >= _RAW:
            is_link = False
            if texts:
                block = b"".join(texts)
                words = block.count(b" ") - link_words
                is_long = words >= _BLOCK_WORDS and words >= _LINK_WORDS * links
                (beside if asides or boxes else main if is_long else rest).append(block)
                texts, links, link_words = [], 0, 0
            if action == _RAW:
                raw_end = b"/" + name.lower()
                continue
            if action == _ASIDE_TAG:
                asides += 1
            elif action == _ASIDE_END:
                asides = max(0, asides - 1)
            elif boxes:
                boxes += (name == box) - (name == box_end)
            elif action == _BOX and attributes and is_beside(attributes):
                box, box_end, boxes = name, b"/" + name, 1
        elif action == _LINK:
            is_link = True
            links += 1
        elif action == _LINK_END:
            is_link = False
        if text and text != b"\n":
            texts.append(text)
            if is_link:
                link_words += text.count(b" ") + 1
    return main, rest, beside


try:
    from webcrawl_scan import text_blocks
except ImportError:  # the C module was not built: no compiler
    text_blocks = text_blocks_in_python


def simhash(features: set[bytes]) -> int:
    """The simhash of `features`, at least one. 0.2 µs per feature, and 30 µs."""
    digests = b"".join(map(xxh3_64_digest, features))
    half = len(features) / 2
    lowest_bits = int.from_bytes(b"\1" * len(features))
    value = 0
    for place in range(8):
        column = int.from_bytes(digests[place::8])
        for bit in range(7, -1, -1):
            value = value << 1 | ((column >> bit & lowest_bits).bit_count() > half)
    return value
