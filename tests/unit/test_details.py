"""What the crawl log says of an answer."""

from __future__ import annotations

import json
from dataclasses import replace

from tests.cases import each_of
from webcrawl.crawllog.details import details_of
from webcrawl.fetch.exchange import Exchange


def exchange_of(content_type: bytes) -> Exchange:
    headers = [(b"content-type", content_type)]
    return Exchange("GET", "http://a.test/", b"", b"", 200, "1.1", headers, "192.0.2.1")


def media_type_of(content_type: bytes) -> str:
    return str(json.loads(details_of(exchange_of(content_type)))["media_type"])


def test_a_media_type_is_without_parameters_in_lower_case() -> None:
    assert media_type_of(b"Text/HTML; charset=utf-8") == "text/html"


def test_a_long_media_type_is_cut() -> None:
    """A header has up to 32 KB, and JSON takes six bytes for a control character."""
    assert media_type_of(b"text/" + b"\x01" * 30_000) == "text/" + "\x01" * 250


@each_of(
    ("truncated", "decode_problem", "expected"),
    [
        ("", "", None),
        ("", "damaged gzip", None),
        ("disconnect", "damaged gzip", "disconnect"),
        ("length", "", "length"),
        ("", "too large gzip", "length"),
        ("time", "too large br, unknown coding x", "length"),
    ],
)
def test_a_body_that_is_cut_is_marked(
    truncated: str, decode_problem: str, expected: str | None
) -> None:
    exchange = exchange_of(b"text/html")
    cut = replace(exchange, truncated=truncated, decode_problem=decode_problem)
    assert json.loads(details_of(cut)).get("truncated") == expected
