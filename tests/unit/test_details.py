"""What the crawl log says of an answer."""

from __future__ import annotations

import json

from webcrawl.crawllog.details import details_of
from webcrawl.fetch.exchange import Exchange


def media_type_of(content_type: bytes) -> str:
    headers = [(b"content-type", content_type)]
    exchange = Exchange("GET", "http://a.test/", b"", b"", 200, "1.1", headers, "192.0.2.1")
    return str(json.loads(details_of(exchange))["media_type"])


def test_a_media_type_is_without_parameters_in_lower_case() -> None:
    assert media_type_of(b"Text/HTML; charset=utf-8") == "text/html"


def test_a_long_media_type_is_cut() -> None:
    """A header has up to 32 KB, and JSON takes six bytes for a control character."""
    assert media_type_of(b"text/" + b"\x01" * 30_000) == "text/" + "\x01" * 250
