"""HTML: html5lib's cases for attributes, encodings and trees, and Heritrix's cases for links."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from foreign import SHARED, check_all, files, needs, needs_shared

from webcrawl.parse.charset import sniff
from webcrawl.parse.links import _text, read_html
from webcrawl.parse.markup import attributes_of, tags
from webcrawl.parse.page import read_page
from webcrawl.parse.urls import canonicalize

HERITRIX = SHARED / "html" / "heritrix_extract.json"


def unescaped(value: Any) -> Any:
    r"""A value of a case that html5lib marks `doubleEscaped`: \uXXXX stands for a character."""
    if isinstance(value, str):
        return re.sub(r"\\u([0-9A-Fa-f]{4})", lambda code: chr(int(code[1], 16)), value)
    if isinstance(value, dict):
        return {unescaped(name): unescaped(each) for name, each in value.items()}
    return [unescaped(each) for each in value] if isinstance(value, list) else value


def start_tags() -> Iterator[Any]:
    """Tokenizer cases that begin with a start tag: the HTML, the tag's name, its attributes."""
    for text in files("tinyhtml5", "tokenizer/*.test").values():
        for case in json.loads(text).get("tests", ()):
            if "Data state" not in case.get("initialStates", ["Data state"]):
                continue
            html, output = case["input"], case["output"]
            if case.get("doubleEscaped"):
                html, output = unescaped(html), unescaped(output)
            kind, *token = next(each for each in [*output, [""]] if each != "ParseError")
            if kind == "StartTag" and token[1]:
                yield html, *token[:2]


@needs("tinyhtml5")
def test_attributes() -> None:
    check_all(check_attributes, start_tags())


def check_attributes(html: str, tag: str, attributes: dict[str, str]) -> None:
    """WHATWG HTML, 13.2.5.32 to 13.2.5.40 and 13.2.5.72 to 13.2.5.80, in a tag of interest."""
    page = re.sub(f"(?i)<{re.escape(tag)}", "<meta", html, count=1).encode()
    _, _, source = next(tags(page))
    assert {
        name.decode().replace("\0", "\ufffd"): _text(value, "utf-8")
        for name, value in attributes_of(source).items()
    } == attributes


def encodings() -> Iterator[Any]:
    for text in files("tinyhtml5", "encoding/*.dat").values():
        for section in text.split(b"#data\n")[1:]:
            page, _, rest = section.partition(b"\n#encoding\n")
            encoding = rest.partition(b"\n")[0].decode().lower()
            yield page, encoding


@needs("tinyhtml5")
def test_encodings() -> None:
    check_all(check_encoding, encodings())


def check_encoding(page: bytes, encoding: str) -> None:
    """WHATWG HTML, 13.2.3.2."""
    assert sniff(page) == encoding


def trees() -> Iterator[Any]:
    """Trees with links, of whole pages read without scripts."""
    link = re.compile(r'^\| +<a>\n(?:\| +(?!href)\w+=.*\n)*\| +href="(.*)"$', re.MULTILINE)
    for text in files("tinyhtml5", "tree-construction/*.dat").values():
        for section in f"\n{text.decode('utf-8', 'replace')}".split("\n#data\n")[1:]:
            html, _, rest = section.partition("\n#errors")
            before, _, tree = rest.partition("#document\n")
            if links := link.findall(tree) if "#script-on" not in before else []:
                yield html, links


@needs("tinyhtml5")
def test_trees() -> None:
    check_all(check_tree, trees())


def check_tree(html: str, links: list[str]) -> None:
    """A tree repeats some links (13.2.6.4.7, the adoption agency): each counts once here."""
    want = list(dict.fromkeys(links))
    assert list(dict.fromkeys(read_html(html.encode(), "utf-8").hrefs)) == want


def heritrix() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (
        json.loads(HERITRIX.read_text("utf-8")) if HERITRIX.exists() else []
    )
    return found


# Heritrix also extracts what a page needs to be shown. Images, media, forms, scripts and style
# sheets are not links to pages, so these cases have no links here.
NO_PAGES = re.compile(r"<(?:form|img|source|script)\b|property=\"og:")
HERITRIX_DIFFERENT = {
    "testLinkRel": ["https://www.example.org/canonical"],  # and next, and prev
    "testBadRelativeLinks": [  # the canonical form has no `;jsessionid=`
        "http://www.example.com/example.html?parameter=this:value"
    ],
    "testMultipleAttributesPerElement": ["http://www.archive.org/"],  # <a src> is not a link
    "testMetaRobots": [],
    "testRelNofollow": [  # a hint for ranking: not obeyed
        *(f"https://www.example.org/{name}" for name in ("normal", "nofollow", "both")),
        *(f"https://www.example.org/multi{number}" for number in (1, 2, 3)),
    ],
}


@needs_shared("html/heritrix_extract.json", "Heritrix")
@pytest.mark.parametrize("case", heritrix(), ids=lambda c: c["test"])
def test_heritrix(case: dict[str, Any]) -> None:
    links = read_page(
        case["html"].encode(),
        "text/html; charset=utf-8",
        canonicalize(case["base"]) or "",
    ).links
    if case["test"] in HERITRIX_DIFFERENT:
        assert links == HERITRIX_DIFFERENT[case["test"]]
    elif NO_PAGES.search(case["html"]):
        assert links == []
    else:
        want = case.get("want") or case["want_contains"]
        assert want
        assert sorted(links) == sorted(filter(None, map(canonicalize, want)))
