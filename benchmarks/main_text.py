"""How well the main text tells a changed page from the same page: shares of pairs of visits.

100 articles of 3 to 25 paragraphs and 100 pages of 30 headlines, of the docstrings of Python's
standard library, in a page with menu, date, counter, token, ad, related links and footer. Each is
compared with itself after one change, as RECRAWL compares two visits (webcrawl.parse.maintext), and
in two simpler ways: by words in place of pairs of words, and by all text of the page. Takes half a
minute. Exit code 1: the share of pages that are rightly the same is below 0.98, or the share of
changes that are missed above 0.2.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import sysconfig
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from statistics import median

from benchmarks.crawls import NotDone
from benchmarks.here import cpu_us
from webcrawl.parse.maintext import SAME_BITS, main_words, pieces, simhash, text_hash

_SAME_MIN, _MISSED_MAX = 0.98, 0.2
_TIMED_PARAGRAPHS, _TIMED_LINKS, _TIMES = 90, 300, 20
_RAW = re.compile(rb"<(head|script)\b.*?</\1>|<[^>]*>", re.DOTALL)


@dataclass(frozen=True)
class Visit:
    """The content of a page at one visit."""

    paragraphs: tuple[str, ...]
    headlines: tuple[str, ...]
    date: str
    counter: int
    token: str
    ad: str
    related: tuple[str, ...]
    nameless_ad: str = ""  # in a box that does not say so

    def to_html(self) -> bytes:
        body = "".join(
            f"<p>{text[:40]}<a href=/x>{text[40:60]}</a>{text[60:]}</p>" for text in self.paragraphs
        )
        menu = "".join(f"<li><a href=/{name}>{name}</a>" for name in ("Home", "News", "About us"))
        nameless = f"<div><p>{self.nameless_ad}</p></div>" if self.nameless_ad else ""
        return (
            f"<!DOCTYPE html><html><head><title>A page</title></head><body><nav><ul>{menu}</ul>"
            f"</nav><div class='meta'>Published {self.date}, {self.counter} views</div>"
            f"<script>var token = '{self.token}';</script><div class='ad'><p>{self.ad}</p></div>"
            f"<div>{body}{_list_of(self.headlines)}</div>{nameless}"
            f"<div class='related'>{_list_of(self.related)}</div>"
            "<footer><p>All rights are reserved by the owners of this page.</p></footer></body>"
        ).encode()


def _list_of(texts: Sequence[str]) -> str:
    rows = (f"<li><a href='/{number}'>{text}</a>" for number, text in enumerate(texts))
    return f"<ul>{''.join(rows)}</ul>"


class Texts:
    """Paragraphs of 30 to 120 words in a random order; after the last one the first again."""

    def __init__(self, random: Random) -> None:
        self._all = sorted(_docstring_paragraphs())
        random.shuffle(self._all)
        self._next = 0

    def paragraphs(self, count: int) -> tuple[str, ...]:
        start, self._next = self._next, self._next + count
        return tuple(self._all[at % len(self._all)] for at in range(start, self._next))

    def cut(self, count: int, words: int) -> tuple[str, ...]:
        """`count` texts of so many words: headlines and ads."""
        return tuple(" ".join(text.split()[:words]) for text in self.paragraphs(count))


def _docstring_paragraphs() -> set[str]:
    found = set()
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes in old modules
            tree = ast.parse(path.read_bytes())
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                for part in (ast.get_docstring(node) or "").split("\n\n"):
                    words = part.replace("<", "").replace("&", "").split()
                    if 30 <= len(words) <= 120 and sum(map(str.isalpha, words)) > len(words) / 2:
                        found.add(" ".join(words))
    return found


Change = Callable[[Visit, Texts, Random], Visit]


def _details(page: Visit, texts: Texts, random: Random) -> Visit:
    date = f"{random.randint(1, 28)} {random.choice(('March', 'June', 'October'))} 2026"
    return replace(page, date=date, counter=random.randrange(9999), token=f"{random.random()}")


def _other_ad(page: Visit, texts: Texts, random: Random) -> Visit:
    return replace(_details(page, texts, random), ad=texts.cut(1, 14)[0])


def _other_links(page: Visit, texts: Texts, random: Random) -> Visit:
    return replace(_other_ad(page, texts, random), related=texts.cut(5, 8))


def _nameless_ad(page: Visit, texts: Texts, random: Random) -> Visit:
    return replace(_details(page, texts, random), nameless_ad=texts.cut(1, 14)[0])


def _new_paragraph(page: Visit, texts: Texts, random: Random) -> Visit:
    return replace(page, paragraphs=page.paragraphs + texts.paragraphs(1))


def _other_paragraph(page: Visit, texts: Texts, random: Random) -> Visit:
    return replace(page, paragraphs=texts.paragraphs(1) + page.paragraphs[1:])


def _ten_words(page: Visit, texts: Texts, random: Random) -> Visit:
    words = [text.split() for text in page.paragraphs]
    for _ in range(10):
        some = random.choice(words)
        some[random.randrange(len(some))] = random.choice(texts.paragraphs(1)[0].split())
    return replace(page, paragraphs=tuple(map(" ".join, words)))


def _all_other(page: Visit, texts: Texts, random: Random) -> Visit:
    return replace(page, paragraphs=texts.paragraphs(len(page.paragraphs)))


def _new_headlines(count: int) -> Change:
    def change(page: Visit, texts: Texts, random: Random) -> Visit:
        return replace(page, headlines=texts.cut(count, 8) + page.headlines[:-count])

    return change


# (kind of the pages, what changed, whether they are the same pages, the change). None: they are,
# but nothing in the page says so.
CASES: tuple[tuple[str, str, bool | None, Change], ...] = (
    ("article", "other date, counter, token", True, _details),
    ("article", "and another ad", True, _other_ad),
    ("article", "and other related links", True, _other_links),
    ("headlines", "other date, counter, token", True, _details),
    ("headlines", "and another ad", True, _other_ad),
    ("article", "an ad in a box without a name", None, _nameless_ad),
    ("article", "one more paragraph", False, _new_paragraph),
    ("article", "another paragraph", False, _other_paragraph),
    ("article", "ten words replaced", False, _ten_words),
    ("article", "all another text", False, _all_other),
    ("headlines", "one new of 30", False, _new_headlines(1)),
    ("headlines", "five new of 30", False, _new_headlines(5)),
)


def used(page: bytes) -> int:
    return text_hash(page, "utf-8", is_html=True)


def by_words(page: bytes) -> int:
    return simhash(set(main_words(page, "utf-8")))


def of_all_text(page: bytes) -> int:
    """One block of all text: so nothing is left out but numbers and dates."""
    return simhash(pieces(main_words(b"<p>" + _RAW.sub(b" ", page), "utf-8")))


WAYS = {"used": used, "words": by_words, "all text": of_all_text}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pages", type=int, default=100, help="articles, and pages of headlines")
    parser.add_argument("--seed", type=int, default=17, help="of the choice of texts")


def measure(arguments: argparse.Namespace) -> str:
    random = Random(arguments.seed)
    texts = Texts(random)
    pages = {
        "article": [_page(texts, random.randint(3, 25)) for _ in range(arguments.pages)],
        "headlines": [_page(texts, headlines=30) for _ in range(arguments.pages)],
    }
    shares: dict[str, dict[bool | None, list[float]]] = {name: {} for name in WAYS}
    print(f"{'':44}" + "".join(f"{name:>14}" for name in WAYS), file=sys.stderr)
    for kind, what, is_same, change in CASES:
        visits = [(page.to_html(), change(page, texts, random).to_html()) for page in pages[kind]]
        row = f"{kind + ': ' + what:44}"
        for name, hash_of in WAYS.items():
            bits = [(hash_of(first) ^ hash_of(second)).bit_count() for first, second in visits]
            share = sum(each <= SAME_BITS for each in bits) / len(bits)
            shares[name].setdefault(is_same, []).append(share)
            row += f"{share:9.2f} ({median(bits):2.0f})"
        print(row, file=sys.stderr)
    large = _page(texts, _TIMED_PARAGRAPHS, related=_TIMED_LINKS).to_html()
    line = "; ".join(
        f"{name}: {min(some[True]):.2f} or more of the same pages are the same, up to"
        f" {max(some[False]):.2f} of the changes are missed, {_times(WAYS[name], large):,.0f} µs"
        for name, some in shares.items()
    )
    line += f" CPU for {len(large) // 1000} kB with {large.count(b'<'):,} tags"
    if min(shares["used"][True]) < _SAME_MIN or max(shares["used"][False]) > _MISSED_MAX:
        raise NotDone(line)
    return line


def _page(texts: Texts, paragraphs: int = 0, *, headlines: int = 0, related: int = 5) -> Visit:
    return Visit(
        texts.paragraphs(paragraphs),
        texts.cut(headlines, 8),
        "1 May 2026",
        7,
        "a",
        texts.cut(1, 14)[0],
        texts.cut(related, 8),
    )


def _times(hash_of: Callable[[bytes], int], page: bytes) -> float:
    """The CPU time of a hash, in µs."""

    def run() -> None:
        for _ in range(_TIMES):
            hash_of(page)

    return cpu_us(run, _TIMES)
