"""The text of pages: charset, title, main text as marked, and pages that want too much."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter

import lxml.html
import pytest

from tests.cases import each_of
from tests.unit.corpus_pages import pages
from webcrawl.parse.links import TITLE_MAX
from webcrawl.tools.corpus.text import PAGE_MAX_BYTES, bounded, read

PAGE = """<html lang="PT-br"><head><title> Olá
 mundo </title></head><body><nav><a href="/">Início</a></nav><article><p>Este é o texto da
 página, com bastantes palavras para ser o principal.</p></article>
<footer>Rodapé</footer></body></html>"""


def test_a_page_has_a_title_and_two_texts() -> None:
    page = read(PAGE.encode(), None)
    assert page.title == "Olá mundo"
    assert [word in page.all_text for word in ("Início", "principal", "Rodapé")] == [True] * 3
    assert [word in page.main_text for word in ("Início", "principal", "Rodapé")] == [0, 1, 0]
    assert read(PAGE.encode(), None, with_main=False).main_text == ""


@pytest.mark.parametrize(
    ("payload", "charset"),
    [
        pytest.param("Olá, três".encode("cp1252"), None, id="nothing declared, not UTF-8"),
        pytest.param("Olá, três".encode(), None, id="nothing declared, UTF-8"),
        pytest.param("\ufeffOlá, três".encode("utf-16-le"), None, id="byte order mark"),
        pytest.param("Olá, três".encode("iso8859-15"), "iso-8859-15", id="HTTP header"),
        pytest.param(
            b"<meta charset=utf-8>" + "Olá, três".encode("cp1252"),
            "windows-1252",
            id="header first",
        ),
        pytest.param(b"<meta charset=utf-8>" + "Olá, três".encode(), None, id="meta"),
    ],
)
def test_the_charset_is_the_crawlers(payload: bytes, charset: str | None) -> None:
    assert read(payload, charset).all_text == "Olá, três"


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def grams(text: str) -> set[tuple[str, ...]]:
    found = words(text)
    return set(zip(found, found[1:], found[2:], strict=False))


def spaced(element: lxml.html.HtmlElement) -> str:
    """The text of an element, with spaces between blocks."""
    return " ".join(element.itertext())


def mean(values: list[float]) -> float:
    return round(sum(values) / len(values), 3)


@each_of("is_portuguese", [True, False])
def test_main_text_is_what_was_marked(is_portuguese: bool) -> None:
    """`text` has these numbers. A box whose class is "sidebar" is counted apart."""
    scores: dict[str, list[float]] = {
        each: [] for each in ("precision", "recall", "pre", "table", "sidebar")
    }
    for page in pages("handbook_pages"):
        if (page["locale"] == "pt-BR") is not is_portuguese:
            continue
        found = read(page["html"].encode(), None).main_text
        found_grams = grams(found)
        root = lxml.html.document_fromstring(page["html"].encode())
        (marked,) = root.xpath("//body/div[@class and not(@id)]")
        for kind in ("pre", "table"):
            wanted = [gram for each in marked.iter(kind) for gram in grams(spaced(each))]
            if wanted:
                scores[kind].append(sum(each in found_grams for each in wanted) / len(wanted))
        for box in marked.xpath(".//div[@class='sidebar']"):
            wanted = list(grams(spaced(box)))
            scores["sidebar"].append(sum(each in found_grams for each in wanted) / len(wanted))
            box.drop_tree()
        want, have = Counter(words(spaced(marked))), Counter(words(found))
        scores["precision"].append((want & have).total() / have.total())
        scores["recall"].append((want & have).total() / want.total())
    means = {kind: mean(values) for kind, values in scores.items()}
    assert len(scores["precision"]) >= 30
    assert means["precision"] >= 0.97
    assert means["recall"] >= 0.97
    assert means["pre"] >= 0.9
    assert means["table"] >= 0.95
    assert means["sidebar"] <= 0.1


def test_what_follows_a_target_of_xhtml_is_no_link() -> None:
    """`<a id="x"/>` is not closed in HTML. DocBook writes one per heading and table."""
    section = (
        '<div class="section"><h2><a id="{n}"/>Title</h2><p>Words of the chapter.</p>'
        '<div class="table"><a id="t{n}"/><p>Table</p><table><tr><td><a href="/{n}">one</a></td>'
        "<td>of the chapter</td></tr></table></div></div>"
    )
    page = "".join(section.format(n=n) for n in range(5)) + "<p>a <a href=http://x.test/>link</a> b"
    found = read(f'<body><div><h1><a id="c"/>Chapter</h1>{page}</div>'.encode(), None).main_text
    assert found.count("of the chapter") == 10
    assert "a link b" in found


# Each is long, or wants more than its size. {n}: how often.
HOSTILE = {
    "svg": "'<svg>' * {n}",
    "boxes": "'<div>x' * {n}",
    "boxes around all": "'<div>' * 2000 + '<b>x</b>' * {n}",
    "lists around lines": "'<ul><li>' * 2000 + '<pre>' + 'x\\n' * {n}",
    "open formatting": "''.join(f'<p><b id={{i}}>x' for i in range({n}))",
    "open fonts": "'<FONT size=1>' * 99 + '<p>x' * {n}",
    "attributes": "'<div ' + ' '.join(f'a{{i}}' for i in range({n})) + '>x'",
    "hidden attributes": "'<div ' + ' '.join(f'a{{i}}=\">\"' for i in range({n})) + '>x'",
    "attributes of no comment": "'<!--><p ' + ' '.join(f'a{{i}}' for i in range({n} * 7)) + '>x'",
    "attributes of no value": "'<title><i a=\"</title><p b=\\'\">\\' '"
    " + ' '.join(f'a{{i}}' for i in range({n} * 7)) + '>x'",
    "tags in tags": "'<a' * {n} * 20 + ' >x'",
    "one tag": "'<' + 'a' * {n} * 20 + '>'",
    "NULs": "'\\0' * {n} * 20 + 'x'",
    "title": "'<title>' + 'x ' * {n}",
    "hidden end tags": "''.join(f'<p><b id={{i}}>x<!--</b>-->' for i in range({n}))",
}
SCRIPT = """
import resource, sys
from webcrawl.tools.corpus.text import read

resource.setrlimit(resource.RLIMIT_DATA, (300 << 20, 300 << 20))
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))  # only a hang gets there
for line in sys.stdin:
    page = read(eval(line).encode(), None)
    print("x" in page.all_text or "x" in page.title)
"""


def test_no_page_takes_more_than_its_size() -> None:
    """300 MB and a minute of CPU time are enough for each."""
    sizes = (20_000,)
    cases = [(name, n) for name in HOSTILE for n in sizes] + [("svg", 2_000_000)]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        input="\n".join(HOSTILE[name].format(n=n) for name, n in cases),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    without_text = {
        case for case, line in zip(cases, done.stdout.split(), strict=True) if line == "False"
    }
    # The last one has a text, but there is no room for its tree.
    expected = {(name, n) for name in ("svg", "one tag", "hidden end tags") for n in sizes}
    expected.add(("svg", 2_000_000))
    assert without_text == expected


def test_only_the_start_of_a_long_page_is_read() -> None:
    long = read(b"word " * (PAGE_MAX_BYTES // 5) + b"<p>last", None)
    assert (len(long.all_text), "last" in long.all_text) == (PAGE_MAX_BYTES, False)
    assert len(read(b"<title>" + b"x" * 9_999, None).title) == TITLE_MAX


def test_tags_that_cost_too_much_go_and_their_text_stays() -> None:
    usual = b"<div><p>one <b>two</b></div>" * 5_000
    assert bounded(usual) == usual
    deep = bounded(b'<ul class="a"><li>one <b>two' * 5_000)
    assert deep == b'<br class="a"><li>one <wbr>two' * 5_000
    many = b"<p " + b" ".join(b"a%d='>'" % n for n in range(501)) + b">text"
    assert bounded(b"<p>" + many) == b"<p>_" + many[1:]
    assert bounded(b"<!--><SCRIPT>'" + many) == b"<!--><SCRIPT>'_" + many[1:]
    assert bounded(many.replace(b" a7='>'", b"")) == many.replace(b" a7='>'", b"")
    image = b'<img src="data:' + b"A" * 300_000 + b'">text'
    assert bounded(image) is image
