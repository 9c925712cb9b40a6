"""What a running crawl does now, as one JSON object: for the live page, `scrapy top` and metrics.

docs/watching.md explains the numbers. With several processes, and with fetchers on other machines,
it is the whole crawl; with several hubs this hub, and the whole crawl in `whole`. Only a process
with a frontier makes snapshots. Nothing is measured for it while nobody asks, except counts that
cost 0.2 µs each.
"""

from __future__ import annotations

import os
import time
from typing import Any, Final

from scrapy.crawler import Crawler

from webcrawl import __version__
from webcrawl.base.wording import utc_now
from webcrawl.config.build import job_folder, processes_from, processors, warc_folder
from webcrawl.config.table import read
from webcrawl.crawl.crawl import crawl_of
from webcrawl.frontier.base import Frontier
from webcrawl.frontier.counters import STAGES, Counters
from webcrawl.frontier.overview import Overview, QueuedHost, SlowHost
from webcrawl.frontier.store import StoreError
from webcrawl.live.limit import Load, limited_by
from webcrawl.live.machine import DiskUse, process_stats
from webcrawl.live.rates import Rates
from webcrawl.parse.urls import MAX_LEVEL
from webcrawl.report.lines import named_counts, whole_values

HOSTS_MAX: Final = 20  # in each list of hosts
_SETTINGS: Final = ("CONCURRENT_REQUESTS", "FRONTIER_ACTIVE_HOSTS")


class Snapshots:
    """Makes the snapshots of one crawl."""

    def __init__(self, crawler: Crawler) -> None:
        settings = crawler.settings
        self._crawler = crawler
        self._crawl = crawl_of(crawler)
        self._rates = Rates()
        self._disk = DiskUse(warc_folder(settings), job_folder(settings))
        self._processes = processes_from(settings)
        self._limits = [read(settings, name, int) for name in _SETTINGS]
        self._delays_s = [read(settings, name, float) for name in ("DOWNLOAD_DELAY", "IP_DELAY")]

    async def take(self) -> dict[str, Any]:
        """The crawl now, as JSON values. StoreError if it has no frontier.

        Rates are over the time since the last calls (`live.rates`). Cost: 0.5 ms, and 0.5 µs per
        active host.
        """
        frontier, local, crawl = self._crawl.frontier, self._crawl.local, self._crawl
        if frontier is None or local is None:
            raise StoreError("this crawl has no frontier of ours")
        disk = await self._disk.measure()
        try:
            overview = await local.overview(time.monotonic(), HOSTS_MAX)
        except StoreError:  # the crawl ends; its log has the reason
            overview = Overview()
        counters, elapsed_s = frontier.counters, crawl.elapsed_s
        stats = process_stats(crawl.workers)
        self._rates.add(counters, elapsed_s, stats)
        target = frontier.goal
        pages_per_s = self._rates.pages_per_s
        whole = self._whole()
        speed = whole["pages_per_s"] if whole else pages_per_s  # to the target
        left = max(target - frontier.crawled, 0)
        return {
            "crawl": crawl.crawl_id,
            "spider": self._crawler.spider.name if self._crawler.spider else "",
            "version": __version__,
            "pid": os.getpid(),
            "processes": self._processes,
            "state": crawl.state,
            "time": utc_now("milliseconds"),
            "elapsed_s": round(elapsed_s, 3),
            "target": target,
            "target_left_s": round(left / speed, 1) if target and speed else None,
            "counts": named_counts(counters),
            "pages_per_s": round(pages_per_s, 2),
            "mbps": round(self._rates.mbps, 3),
            "stages": self._stages(counters),
            "limited_by": limited_by(self._load(frontier, overview))._asdict(),
            "hosts": overview.hosts,
            "drops": _some(counters.dropped),
            "kept": _some(counters.kept),
            "levels": levels(counters),
            "largest_queues": [_rounded(each, "ready_in_s") for each in overview.largest],
            "slowest_hosts": [_rounded(each, "mean_ms") for each in overview.slowest],
            "rss_bytes": {name: stat.rss_bytes for name, stat in stats.items()},
            "busy": {name: round(share, 3) for name, share in self._rates.busy.items()},
            "disk": disk,
            **({"whole": whole} if whole else {}),
        }

    def _whole(self) -> dict[str, Any]:
        """The crawl of all hubs; empty if there is one. All other fields are of this hub."""
        if (whole := self._crawl.totals) is None:
            return {}
        figures = {
            "drops": _some(whole.counters.dropped),
            "kept": _some(whole.counters.kept),
            "levels": levels(whole.counters),
        }
        return whole_values(whole) | figures

    def _stages(self, counters: Counters) -> list[dict[str, Any]]:
        requests_max, _ = self._limits
        stages = []
        for name in STAGES:
            per_s, mean_ms = self._rates.stage(name)
            stages.append(
                {
                    "name": name,
                    "under_way": counters.stage_under_way[name],
                    "limit": requests_max if name != "archive" else 0,
                    "per_s": round(per_s, 2),
                    "mean_ms": round(mean_ms, 2),
                }
            )
        return stages

    def _load(self, frontier: Frontier, overview: Overview) -> Load:
        counters, admissions = frontier.counters, self._crawl.admissions
        requests_max, active_max = self._limits
        delay_s, ip_delay_s = self._delays_s
        return Load(
            state=self._crawl.state,
            outage_s=admissions.outage.seconds if admissions is not None else 0.0,
            queued=counters.pending,
            kept=counters.kept.total(),
            is_short=frontier.is_short,
            hosts=overview.hosts,
            under_way=counters.stage_under_way,
            requests_max=requests_max,
            active_max=active_max,
            busy=self._rates.busy,
            waited=self._rates.waited,
            processors=processors(),
            delay_s=delay_s,
            ip_delay_s=ip_delay_s,
        )


def levels(counters: Counters) -> dict[str, list[int]]:
    """URLs by level, 1 to MAX_LEVEL."""
    counts = counters.levels
    return {
        name: [counts[f"{name}/{level}"] for level in range(1, MAX_LEVEL + 1)]
        for name in ("found", "ended")
    }


def _rounded(host: QueuedHost | SlowHost, name: str) -> dict[str, Any]:
    """The fields of `host`, the field `name` to a tenth."""
    return host._asdict() | {name: round(getattr(host, name), 1)}


def _some(counts: dict[str, int]) -> dict[str, int]:
    """The counts that are not 0, the most frequent first."""
    some = [(name, count) for name, count in dict(counts).items() if count]
    return dict(sorted(some, key=lambda each: -each[1]))
