"""The similarity hash: what is a change of a page, and what is not."""

from __future__ import annotations

import random
from itertools import pairwise

from simweb.words import TEXTS
from tests.cases import each_of
from webcrawl.parse.maintext import (
    TEXT_MAX_BYTES,
    blocks_of,
    digest,
    is_same,
    main_words,
    pieces,
    text_hash,
)

WORDS = [a + b for a in ("har", "win", "sto", "bri", "mou") for b in ("bour", "ter", "rm", "dge")]


def paragraph(seed: int, words: int = 40) -> str:
    return " ".join(random.Random(seed).choices(WORDS, k=words)) + "."


def page(
    *paragraphs: str, date: str = "1 May 2026", views: int = 7, ad: str = "", menu: str = "Home"
) -> bytes:
    text = "".join(f"<p>{each}</p>" for each in paragraphs)
    return (
        f"<!DOCTYPE html><html><head><title>x</title><script>var t = '{views}<p>';</script></head>"
        f'<body><ul class="menu top"><li><a href="/">{menu}</a></ul><div class="ad">{ad}</div>'
        f"<div>{date}, {views} views</div>{text}<footer><p>{menu} {paragraph(9)}</p></footer>"
    ).encode()


def hash_of(payload: bytes, charset: str = "utf-8") -> int:
    return text_hash(payload, blocks_of(payload, charset))


TEXT = tuple(map(paragraph, range(6)))


@each_of(
    "other",
    [
        page(*TEXT, date="30 November 2027", views=90_210),
        page(*TEXT, ad="<p>" + paragraph(77) + "</p>", menu="Start"),
        page(*TEXT).replace(b"<p>", b'<P class="n">').replace(b"<div>", b"<div><!-- x -->"),
        page(*TEXT, date="3 hours ago"),
    ],
)
def test_the_same_text_has_the_same_hash(other: bytes) -> None:
    assert is_same(hash_of(page(*TEXT)), hash_of(other))


@each_of(
    "other",
    [
        page(*TEXT, paragraph(50)),
        page(paragraph(51), *TEXT[1:]),
        page(*map(paragraph, range(60, 66))),
    ],
)
def test_another_text_has_another_hash(other: bytes) -> None:
    assert not is_same(hash_of(page(*TEXT)), hash_of(other))


def test_pages_of_few_words_differ() -> None:
    """The simulated web has a hundred words: their order tells its pages apart."""
    hashes = [hash_of(b"<h1>T</h1>" + TEXTS["pt", "utf-8"].cut(n * 7919, 1500)) for n in range(60)]
    assert not any(is_same(*pair) for pair in pairwise(hashes))


def test_headlines_count_where_there_is_no_text() -> None:
    def news(first: int) -> bytes:
        links = "".join(f"<li><a href=/{n}>{paragraph(n, 7)}</a>" for n in range(first, first + 9))
        return f"<nav>{paragraph(99)}</nav><ul>{links}</ul>".encode()

    assert not is_same(hash_of(news(0)), hash_of(news(4)))
    assert main_words(blocks_of(b"<nav>only a menu</nav>", "utf-8")) == [b"only", b"a", b"menu"]


def test_text_in_other_encodings() -> None:
    chinese = "<p>" + "".join(chr(0x4E00 + n * 7) for n in range(200)) + "</p>"
    assert len(pieces(main_words(blocks_of(chinese.encode(), "utf-8")))) > 5  # without spaces
    assert hash_of(chinese.encode("utf-16-le"), "utf-16le") == hash_of(chinese.encode())
    assert hash_of(chinese.encode("gb18030"), "gb18030") == hash_of(chinese.encode())


def test_what_is_no_html_or_has_no_words_is_compared_by_its_bytes() -> None:
    assert text_hash(b"%PDF", None) == digest(b"%PDF")
    assert hash_of(b"<img src=a>") == digest(b"<img src=a>") != hash_of(b"<img src=b>")
    assert hash_of(b"") == digest(b"")


@each_of(
    "payload",
    [
        b"<" * TEXT_MAX_BYTES,
        b"<div " + b"class=" * 100_000,
        b"<script>" * 50_000,
        b"<div class=ad>" * 50_000 + b"x",
        b"<p>" + b"\xe3" * 300_000,
        bytes(range(256)) * 500,
    ],
)
def test_any_bytes_have_a_hash(payload: bytes) -> None:
    assert 0 < hash_of(payload) < 1 << 64
