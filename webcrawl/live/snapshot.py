"""A stand-in with the simple parts of the snapshot."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from scrapy.crawler import Crawler

from webcrawl import __version__
from webcrawl.crawl.crawl import crawl_of
from webcrawl.report.lines import named_counts


async def snapshot(crawler: Crawler) -> dict[str, Any]:
    crawl, stats = crawl_of(crawler), crawler.stats
    assert crawl.counters is not None
    is_paused = crawl.steering is not None and crawl.steering.is_paused
    return {
        "spider": crawler.spider.name if crawler.spider else "",
        "version": __version__,
        "state": "paused" if is_paused else "running",
        "time": datetime.now(UTC).isoformat(),
        "elapsed_s": stats.get_value("webcrawl/elapsed_s", 0.0),
        "target": crawler.settings.getint("CLOSESPIDER_PAGECOUNT"),
        "counts": named_counts(crawl.counters),
        "pages_per_s": stats.get_value("webcrawl/pages_per_s", 0.0),
        "mbps": stats.get_value("webcrawl/mbps", 0.0),
        "drops": dict(crawl.counters.dropped),
        "kept": dict(crawl.counters.kept),
    }
