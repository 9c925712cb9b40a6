"""`python -m tests.crawl.revisited crawl broad ...`: a crawl whose pages are visited again.

It stands in for a frontier that plans visits: VISITS is a file with a `Visit` for each URL, which
the lease of its page gets. VISITED gets the outcome of each page that is fetched.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Self

import msgspec
from scrapy import signals
from scrapy.cmdline import execute
from scrapy.crawler import Crawler

from tests.crawl.crawling import Result, crawl
from webcrawl import settings
from webcrawl.crawl.crawl import crawl_of
from webcrawl.fetch.conditions import Validators
from webcrawl.frontier.lease import (
    Capture,
    Fetched,
    Lane,
    Lease,
    Outcome,
    Step,
    Visit,
    Visited,
)


class Visits:
    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        visits = json.loads(Path(crawler.settings["VISITS"]).read_text())
        self._visits = {url: _visit(**visit) for url, visit in visits.items()}

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        visits = cls(crawler)
        crawler.signals.connect(visits.spider_opened, signals.spider_opened)
        return visits

    def spider_opened(self) -> None:
        frontier: Any = crawl_of(self._crawler).frontier
        frontier.local._state._backlog._is_recrawl = False  # it ends, though RECRAWL is on
        acquire, release = frontier.acquire, frontier.release
        path = Path(self._crawler.settings["VISITED"])

        async def acquire_each(now: float, limit: int, lane: Lane = Lane.PAGES) -> list[Lease]:
            leases: list[Lease] = await acquire(now, limit, lane)
            for lease in leases:
                if visit := self._visits.get(lease.url):
                    msgspec.structs.force_setattr(lease, "visit", visit)
            return leases

        async def release_each(done: list[tuple[Lease, Outcome]], now: float) -> None:
            note(done)
            await release(done, now)

        def note(done: list[tuple[Lease, Outcome]]) -> None:
            with path.open("a") as file:
                for lease, outcome in done:
                    if lease.step is Step.PAGE and isinstance(outcome, Fetched):
                        seen = outcome.visited and _seen(outcome.visited)
                        line = {"url": lease.url, "status": outcome.status, "visited": seen}
                        file.write(json.dumps(line) + "\n")

        frontier.acquire, frontier.release = acquire_each, release_each


def _visit(etag: str, last_modified: str, *, is_conditional: bool, **capture: Any) -> Visit:
    return Visit(Capture(Validators(etag, last_modified), **capture), is_conditional)


def _seen(visited: Visited) -> dict[str, Any]:
    seen = msgspec.structs.asdict(visited)
    capture = msgspec.structs.asdict(seen.pop("capture"))
    return capture.pop("validators")._asdict() | capture | seen  # type: ignore[no-any-return]


def revisit(
    folder: Path, seed: str, visits: dict[str, dict[str, Any]], **arguments: Any
) -> tuple[Result, dict[str, dict[str, Any]]]:
    """Run a crawl to its end; the outcome of each URL, with what it saw."""
    folder.mkdir(exist_ok=True)
    (folder / "visits.json").write_text(json.dumps(visits))
    (folder / "visited.jsonl").write_text("")
    chosen = {
        "VISITS": folder / "visits.json",
        "VISITED": folder / "visited.jsonl",
        "ALLOW_PRIVATE_ADDRESSES": 1,
        "DOWNLOAD_DELAY": 0,
        "IP_DELAY": 0,
        "RECRAWL": "fixed",
        "FEEDS": json.dumps({str(folder / "items.jsonl"): {"format": "jsonlines"}}),
    }
    program = ("tests.crawl.revisited",)
    result = crawl(folder, seed, program=program, **chosen | arguments)
    lines = map(json.loads, (folder / "visited.jsonl").read_text().splitlines())
    return result, {line["url"]: line for line in lines}


if __name__ == "__main__":
    settings.EXTENSIONS["tests.crawl.revisited.Visits"] = 1000
    execute(["scrapy", *sys.argv[1:]])
