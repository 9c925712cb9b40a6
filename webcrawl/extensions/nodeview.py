"""What this node tells the other nodes of itself, beside its counts (`cluster.views`)."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from scrapy.crawler import Crawler

from webcrawl.cluster.views import NodeView, machine_name
from webcrawl.config.build import processes_from, warc_folder
from webcrawl.crawl.crawl import crawl_of
from webcrawl.frontier.store import StoreError
from webcrawl.live.diskuse import free_bytes
from webcrawl.live.processstat import process_stats
from webcrawl.report.lines import done_since, per_second

if TYPE_CHECKING:  # only a crawl with CLUSTER loads it
    from webcrawl.cluster.running import RunningNode


class NodeDescription:
    """Of one node. Rates are over the time since the call before."""

    def __init__(self, crawler: Crawler, node: RunningNode) -> None:
        settings = crawler.settings
        self._crawl = crawl_of(crawler)
        self._node = node
        self._name = machine_name()
        self._processes = processes_from(settings)
        self._warc_dir = warc_folder(settings)
        self._before = (time.monotonic(), 0, 0)
        self._hosts: dict[str, int] = {}
        self._counting: asyncio.Task[None] | None = None

    def make(self) -> NodeView:
        """1 ms. Hosts by state are those of the call before: a heartbeat waits for no shard."""
        now, crawl = time.monotonic(), self._crawl
        pages, size_bytes = done_since(crawl.brought, self._node.frontier.counters)
        before, pages_before, bytes_before = self._before
        self._before = (now, pages, size_bytes)
        if self._counting is None or self._counting.done():
            self._counting = asyncio.create_task(self._count_hosts())
        free = free_bytes(self._warc_dir)
        return NodeView(
            name=self._name,
            state=crawl.state,
            elapsed_s=round(crawl.elapsed_s, 3),
            processes=self._processes,
            pages_per_s=round(max(per_second(pages - pages_before, now - before), 0.0), 2),
            mbps=round(max(per_second(8e-6 * (size_bytes - bytes_before), now - before), 0.0), 3),
            unapplied=self._node.unapplied,
            fresh=self._node.frontier.fresh,
            free_bytes=-1 if free is None else free,
            rss_bytes=sum(stat.rss_bytes for stat in process_stats(crawl.workers).values()),
            hosts=self._hosts,
        )

    async def _count_hosts(self) -> None:
        try:
            self._hosts = (await self._node.frontier.overview(time.monotonic(), 0)).hosts
        except StoreError:  # a shard is closed, or has failed: its node ends, and says so
            pass
