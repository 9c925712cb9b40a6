"""The crawl in numbers: the funnel of the stats lines and all that the summary prints.

Plain integers that the crawl's parts add to and that one reporter reads, from any thread. Every
one of them is mirrored to Scrapy's stats under `webcrawl/<name>` (docs/stats.md).

Invariant, at any time: extracted >= host_passed >= ip_passed >= robots_passed >= crawled. A URL
moves through these in that order and is counted once in each, whatever its retries.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(slots=True)
class Counters:
    """All counts since the crawl began."""

    pending: int = 0  # Q: URLs waiting in the frontier (goes up and down)
    under_way: int = 0  # fetches under way now, robots.txt among them
    earlier_s: float = 0.0  # how long earlier runs of this crawl took
    extracted: int = 0  # E: URLs taken from the queue, refused by a cap or not
    host_passed: int = 0  # H: of these, passed the host test
    lookups: int = 0  # names asked of DNS
    resolved: int = 0  # D: hosts looked up with success
    ip_passed: int = 0  # I: URLs that passed the IP test
    robots_attempted: int = 0  # robots.txt asked for, one an origin and expiry
    robots_passed: int = 0  # R: URLs that robots.txt allows
    crawled: int = 0  # C: URLs answered with a valid HTTP code
    links: int = 0  # L: links found in pages
    page_bytes: int = 0  # on the wire, answers to pages
    robots_bytes: int = 0  # on the wire, answers to robots.txt and HEAD
    fetch_s: float = 0.0  # sum over the pages of request to last byte
    html_pages: int = 0  # kept: 2xx with a wanted type
    html_bytes: int = 0  # their size, codings removed
    codes: Counter[str] = field(default_factory=Counter)  # "2xx" ... "5xx", "other"
    dropped: Counter[str] = field(default_factory=Counter)  # URLs not fetched, by reason
    failed: Counter[str] = field(default_factory=Counter)  # fetches that failed, by reason
    retried: Counter[str] = field(default_factory=Counter)  # tries again, by reason
    robots: Counter[str] = field(default_factory=Counter)  # robots.txt answers: 2xx, 4xx, ...
    kept: Counter[str] = field(default_factory=Counter)  # URLs for a later try (up and down)
    outage_s: float = 0.0  # spent waiting for our own network

    def count_code(self, status: int) -> None:
        """Count the final answer to one URL."""
        self.crawled += 1
        family = status // 100
        self.codes[f"{family}xx" if 2 <= family <= 5 else "other"] += 1

    def to_dict(self) -> dict[str, Any]:
        """What a store keeps for the next run, as JSON has it."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        # Copied in one step, since another thread may count on.
        return {k: dict(v) if isinstance(v, Counter) else v for k, v in values.items()}

    def restore(self, values: dict[str, Any]) -> None:
        """Go on from what `to_dict` gave; what is under way is not, any more."""
        for each in fields(self):
            if each.name in values and each.name != "under_way":
                value = values[each.name]
                setattr(self, each.name, Counter(value) if isinstance(value, dict) else value)

    def add(self, changed: dict[str, Any]) -> None:
        """Add what `differences` gave: another process has counted it."""
        for name, value in changed.items():
            if isinstance(value, dict):
                getattr(self, name).update(value)  # a Counter's update adds
            else:
                setattr(self, name, getattr(self, name) + value)


def differences(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """What has changed from one `to_dict` to a later one, by name."""
    changed: dict[str, Any] = {}
    for name, value in now.items():
        was = before[name]
        if value == was:
            continue
        if isinstance(value, dict):
            changed[name] = {key: n - was.get(key, 0) for key, n in value.items()}
        else:
            changed[name] = value - was
    return changed
