"""HTML: the cases of html5lib for attributes, encodings and trees, and Heritrix's for links."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from webcrawl.parse.charset import sniff
from webcrawl.parse.links import _text, read_html
from webcrawl.parse.markup import attributes_of, tags
from webcrawl.parse.page import read_page
from webcrawl.parse.urls import canonicalize

CASES = Path(__file__).parents[2].parent / "shared" / "cases" / "html"

pytestmark = pytest.mark.skipif(not CASES.is_dir(), reason="no ../shared/cases/html")


def cases(name: str) -> list[dict[str, Any]]:
    path = CASES / name
    return json.loads(path.read_text("utf-8")) if path.exists() else []


@pytest.mark.parametrize("case", cases("html5lib_attrs.json"), ids=lambda c: c["test"])
def test_attributes(case: dict[str, Any]) -> None:
    """WHATWG HTML, 13.2.5.32 to 13.2.5.40 and 13.2.5.72 to 13.2.5.80, in a tag of interest."""
    page = re.sub(f"(?i)<{re.escape(case['tag'])}", "<meta", case["html"], count=1).encode()
    _, _, attributes = next(tags(page))
    assert {
        name.decode().replace("\0", "\ufffd"): _text(value, "utf-8")
        for name, value in attributes_of(attributes).items()
    } == case["attrs"]


@pytest.mark.parametrize("case", cases("html5lib_encoding.json"), ids=lambda c: c["body_hex"][:40])
def test_encodings(case: dict[str, Any]) -> None:
    """WHATWG HTML, 13.2.3.2."""
    assert sniff(bytes.fromhex(case["body_hex"])) == case["encoding"].lower()


@pytest.mark.parametrize("case", cases("html5lib_tree_links.json"), ids=lambda c: c["html"][:40])
def test_trees(case: dict[str, Any]) -> None:
    """A tree repeats some links (13.2.6.4.7, the adoption agency): each counts once here."""
    want = list(dict.fromkeys(value for _, _, value in case["links"]))
    assert list(dict.fromkeys(read_html(case["html"].encode(), "utf-8").hrefs)) == want


# Heritrix takes all that a page needs to be shown; images, media, forms, scripts and style sheets
# are no links to pages, so these cases have none here.
NO_PAGES = re.compile(r"<(?:form|img|source|script)\b|property=\"og:")
HERITRIX_DIFFERENT = {
    "testLinkRel": ["https://www.example.org/canonical"],  # and next, and prev
    "testBadRelativeLinks": [  # `;jsessionid=` goes in the canonical form
        "http://www.example.com/example.html?parameter=this:value"
    ],
    "testMultipleAttributesPerElement": ["http://www.archive.org/"],  # <a src> is no link
    "testMetaRobots": [],
}


@pytest.mark.parametrize("case", cases("heritrix_extract.json"), ids=lambda c: c["test"])
def test_heritrix(case: dict[str, Any]) -> None:
    links = read_page(
        case["html"].encode(),
        "text/html; charset=utf-8",
        canonicalize(case["base"]) or "",
        follow_rel_nofollow=case["test"] != "testRelNofollow",
    ).links
    if case["test"] in HERITRIX_DIFFERENT:
        assert links == HERITRIX_DIFFERENT[case["test"]]
    elif NO_PAGES.search(case["html"]):
        assert links == []
    else:
        want = case.get("want") or case["want_contains"]
        assert want
        assert sorted(links) == sorted(filter(None, map(canonicalize, want)))
