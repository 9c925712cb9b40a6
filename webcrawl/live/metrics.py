"""A stand-in with one metric."""

from __future__ import annotations

from typing import Any


def exposition(snapshot: dict[str, Any]) -> bytes:
    return b"webcrawl_pages_total %d\n" % snapshot["counts"]["crawled"]
