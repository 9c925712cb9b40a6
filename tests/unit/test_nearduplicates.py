"""Pages with nearly the text of an earlier one: which are found, and what is stored of them."""

from __future__ import annotations

import random

import pytest

from tests.unit.corpus_pages import pages
from tests.unit.test_corpus_neardup import COPIES, mirror, sentence
from webcrawl.frontier.disk import rows
from webcrawl.frontier.disk.store import Store
from webcrawl.frontier.lease import Failed, Fetched, Outcome, Returned, Text
from webcrawl.frontier.nearduplicates import NearDuplicates
from webcrawl.parse.body import About, BodyReader, Options
from webcrawl.parse.likeness import BANDS
from webcrawl.parse.maintext import blocks_of, text_hash
from webcrawl.parse.sketch import page_sketch

DONE = Fetched(200, 1.0, 1.0)


def sketch_of(html: bytes) -> bytes:
    return page_sketch(blocks_of(html, "utf-8"))


class Kept:
    """Near-duplicates, and pages that they are given."""

    def __init__(self) -> None:
        self.store = Store(None)
        self.near = NearDuplicates(self.store)

    def ask(self, url: str, html: bytes) -> str:
        return self.near.first(url, Text(sketch_of(html), is_leaf=False))

    def page(self, url: str, html: bytes, outcome: Outcome = DONE) -> str:
        """A page from lease to release; the URL of the first page with nearly its text, or ""."""
        first = self.ask(url, html)
        self.near.page_ended(url, outcome)
        return first

    @property
    def rows(self) -> int:
        self.store._db.commit()
        return sum(1 for _ in self.store._db.rows(rows.SKETCH))


def test_mirrors_are_found_and_pages_of_one_template_are_not() -> None:
    """As in `test_corpus_neardup`. Of each group the first page is followed, so none is lost."""
    kept, rnd = Kept(), random.Random(28)
    texts = [page["text"] for page in pages("labelled_pages")]
    order = [number for number in range(len(texts)) for _ in range(COPIES)]
    rnd.shuffle(order)
    found = {n: kept.page(str(n), mirror(rnd, texts[each])) for n, each in enumerate(order)}
    named = {n: int(first) for n, first in found.items() if first}
    right = sum(order[n] == order[first] for n, first in named.items())
    assert right / len(named) >= 0.95
    assert right / ((COPIES - 1) * len(texts)) >= 0.9


def listed(introduction: str, entries: list[str]) -> bytes:
    items = "".join(f"<li><a href=/{n}>{entry}</a></li>" for n, entry in enumerate(entries))
    return f"<h1>All</h1><p>{introduction}</p><ul>{items}</ul>".encode()


def test_the_pages_of_a_list_differ_by_their_links() -> None:
    """Below the same introduction there are the days of a month, or names."""
    kept, introduction = Kept(), sentence(1, 100)
    for year in range(1990, 2020):
        days = [f"Edition of {day} May {year}" for day in range(1, 32)]
        names = [sentence(year * 100 + n, 4) for n in range(30)]
        assert kept.page(f"days of {year}", listed(introduction, days)) == ""
        assert kept.page(f"names of {year}", listed(introduction, names)) == ""


def test_short_texts_are_not_compared() -> None:
    moved = "<p>This site has moved. Please note <a href=http://new.test/>our new address</a>.</p>"
    assert sketch_of(moved.encode()) == b""
    assert sketch_of(b"<nav>" + sentence(1).encode() + b"</nav>") == b""
    assert sketch_of(b"<p>" + sentence(1).encode()) != b""


def test_a_page_is_read_for_its_hash_and_its_sketch_as_for_each() -> None:
    html, about = b"<p>" + sentence(1, 100).encode(), About("text/html", "http://a.test/")
    both, hashed, sketched = (
        BodyReader(Options(revisits=revisits, sketches=sketches)).read(html, about)
        for revisits, sketches in ((True, True), (True, False), (False, True))
    )
    assert both == hashed._replace(sketch=sketch_of(html))
    assert both == sketched._replace(simhash=text_hash(html, blocks_of(html, "utf-8")))


def test_a_copy_is_found_while_the_first_page_is_leased() -> None:
    kept, html = Kept(), b"<p>" + sentence(1).encode()
    assert [kept.ask(each, html) for each in ("first", "second", "first")] == ["", "first", ""]
    kept.near.page_ended("first", DONE)
    assert kept.page("third", html) == "first"
    assert kept.rows == BANDS + 1
    assert (kept.near._rows, kept.near.fresh) == ({}, {})


@pytest.mark.parametrize("outcome", [Returned(), Failed("reset", 1.0, 1.0)])
def test_a_page_that_was_not_fetched_is_not_the_first(outcome: Outcome) -> None:
    kept, html = Kept(), b"<p>" + sentence(1).encode()
    assert kept.page("a", html, outcome) == ""
    assert kept.rows == 0
    assert [kept.page(each, html) for each in ("b", "a")] == ["", "b"]
