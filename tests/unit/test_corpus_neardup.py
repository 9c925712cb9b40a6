"""Near-duplicates: mirrors with other dates, banners and menus, and pages that are no copies."""

from __future__ import annotations

import random
from collections.abc import Sequence
from html import escape

import duckdb

from tests.unit.corpus_pages import pages
from webcrawl.tools.corpus.neardup import mark, simhash, sketch
from webcrawl.tools.corpus.text import read

MENU = """
home news about contact download search help forum login register products services support blog
archive events partners press careers documentation
"""
BANNER = """
we use cookies to improve your experience this mirror is sponsored by donate today free shipping
"""
TEMPLATES = (
    "<nav><ul>{menu}</ul></nav><main><h1>{host}</h1>{text}</main><footer>{end}</footer>",
    """<div id=banner>{banner}</div><ul class=menu>{menu}</ul><div class=content>{text}<p>{date}</p>
    </div><div class=footer>{end}</div>""",
    "<table><tr><td>{menu}</td><td>{text}</td></tr></table><hr><p>{banner}</p><p>{end}</p>",
    "<p><b>{banner}</b></p>{text}<p>{end}</p><p>Mirror of the page of {date}</p><ul>{menu}</ul>",
    """<div class=cookie-banner>{banner}</div><article><p>By admin on {date}</p>{text}</article>
    <aside>{menu}</aside>""",
)
COPIES = 3


def mirror(rnd: random.Random, text: str) -> bytes:
    """A page of one of the templates around `text`."""
    host = f"host{rnd.randrange(999)}.example"
    month = rnd.choice(("January", "March", "May", "July", "October"))
    date = f"{rnd.randint(1, 28)} {month} {rnd.randint(2001, 2026)}, {rnd.randint(0, 23)}:30"
    values = {
        "text": "".join(f"<p>{escape(each)}</p>\n" for each in text.split("\n") if each.strip()),
        "host": host,
        "date": date,
        "menu": "".join(
            f'<li><a href="/{each}">{each}</a></li>'
            for each in rnd.sample(MENU.split(), rnd.randint(4, 12))
        ),
        "banner": " ".join(rnd.choices((MENU + BANNER).split(), k=rnd.randint(5, 40))),
        "end": f"Copyright {host}. Last updated {date}. Page views: {rnd.randrange(99_999)}",
    }
    return f"<html><body>{rnd.choice(TEMPLATES).format(**values)}</body></html>".encode()


def marked(sketches: Sequence[list[int]]) -> dict[int, int]:
    """What `mark` finds among pages with these sketches, in this order."""
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE page (number BIGINT, sketch UINTEGER[]);"
            "CREATE TABLE near_duplicate (number BIGINT, first BIGINT)"
        )
        connection.executemany("INSERT INTO page VALUES (?, ?)", list(enumerate(sketches)))
        mark(connection)
        return dict(connection.execute("FROM near_duplicate").fetchall())


def test_mirrors_are_found_and_pages_of_one_template_are_not() -> None:
    """Three copies of each of 131 pages. Half-translated ones share up to 70 % of their text."""
    rnd = random.Random(28)
    texts = [page["text"] for page in pages("labelled_pages")]
    order = [number for number in range(len(texts)) for _ in range(COPIES)]
    rnd.shuffle(order)
    found = marked([sketch(read(mirror(rnd, texts[each]), "utf-8").main_text) for each in order])
    right = sum(order[number] == order[first] for number, first in found.items())
    assert right / len(found) >= 0.95
    assert right / ((COPIES - 1) * len(texts)) >= 0.9


WORDS = [a + b for a in ("har", "win", "sto", "bri", "mou", "pla") for b in ("bour", "ter", "rm")]


def sentence(seed: int, words: int = 300) -> str:
    return " ".join(random.Random(seed).choices(WORDS, k=words)) + ". "


def test_a_page_is_marked_with_the_first_of_its_group() -> None:
    """Each is near the one before, the last is not near the first."""
    parts = [sentence(n) for n in range(12)]
    chain = [sketch("".join(parts[n : n + 8])) for n in range(5)]
    assert marked(chain) == dict.fromkeys(range(1, 5), 0)
    assert marked([chain[0], chain[4]]) == {}


def test_the_same_text_on_many_hosts_is_one_group() -> None:
    same, other = sketch(sentence(1)), sketch(sentence(2))
    assert marked([other, *[same] * 500, other]) == dict.fromkeys(range(2, 501), 1) | {501: 0}


def test_dates_and_numbers_are_no_difference_and_words_are() -> None:
    text = sentence(3) + "Updated 3 May 2026. 17 comments."
    assert sketch(text) == sketch(sentence(3) + "Updated 28 October 2025. 4 comments.")
    assert sketch(text) != sketch(text.replace("comments", "complaints"))


def test_short_texts_are_the_same_only_word_for_word() -> None:
    texts = ["Page not found", "Page 404 not found", "Page not there", "", "404", "1 May"]
    assert marked([sketch(each) for each in texts]) == {1: 0}
    gone = (
        "The page that you are looking for was removed by its author, or perhaps it never existed."
    )
    assert marked([sketch(f"{gone} {each}") for each in ("news", "blogs", "news")]) == {2: 0}


def test_a_simhash_has_64_bits_few_of_which_differ_between_similar_texts() -> None:
    parts = [sentence(n, 60) for n in range(20)]
    one, near, far = "".join(parts), "".join(parts[1:]), sentence(99, 1_200)
    assert simhash("") == simhash("1 2 3") == 0
    assert 1 << 32 < simhash(one) < 1 << 64
    assert (
        (simhash(one) ^ simhash(near)).bit_count() < 12 < (simhash(one) ^ simhash(far)).bit_count()
    )
