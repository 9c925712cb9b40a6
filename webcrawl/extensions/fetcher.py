"""A process that fetches for a hub on another machine (docs/hubs.md).

`scrapy crawl broad -s CLUSTER=...` without a JOBDIR: `join` waits for the hub, and takes its
settings. Then the process crawls as a worker does, with a frontier on the bus.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator
from typing import Any, cast

from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider

from webcrawl import __version__, scrapy_private
from webcrawl.config import hub as config
from webcrawl.crawl.crawl import Assignment, crawl_of
from webcrawl.extensions.worker import WorkerMiddleware
from webcrawl.hub.bus import Bus, Refused
from webcrawl.hub.fetching import CHANGED, HubFrontier
from webcrawl.hub.joining import CrawlEndedError, open_bus, wait_for_brief
from webcrawl.hub.packets import Brief

logger = logging.getLogger(__name__)


def join(crawler: Crawler, opts: argparse.Namespace) -> int | None:
    """Wait for the hub, and make `crawler` one of its fetchers.

    None, or the exit code: 0 if the crawl has ended, 2 if this machine cannot fetch for it.
    """
    try:
        # In a loop of its own: Scrapy has made another one, for the crawl.
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            brief = runner.run(_ask(config.bus_from(crawler.settings)))
    except KeyboardInterrupt:
        return 130
    except (CrawlEndedError, Refused) as end:
        _say(str(end))
        return 2 if isinstance(end, Refused) else 0
    problems = config.follow(crawler.settings, brief)
    if brief.spider != crawler.spidercls.name:
        problems.append(f"the crawl {brief.crawl} is crawled with scrapy crawl {brief.spider}")
    if problems:
        _say(*problems)
        return 2
    crawl = crawl_of(crawler)
    crawl.assignment = Assignment(
        descriptor=-1,
        rules=[] if brief.has_rules else None,
        earlier_folder=crawl.earlier_folder,
        domains=brief.domains,
        brief=brief,
    )
    opts.spargs = brief.arguments | {"seeds": ""}
    return None


async def _ask(bus: Bus) -> Brief:
    await open_bus(bus, _say)
    try:
        return await wait_for_brief(bus, config.new_name(), __version__, _say)
    finally:
        await bus.close()


def _say(*lines: str) -> None:
    for line in lines:
        named = line if line.startswith("CLUSTER") else f"CLUSTER: {line}"
        print(named, file=sys.stderr, flush=True)


def begin_again_if_changed(crawler: Crawler) -> None:
    """Run the same command again in place of this process, if the hub has other settings now."""
    if crawler.stats.get_value("finish_reason", "") == CHANGED:
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


class FetcherMiddleware(WorkerMiddleware):
    """Spider middleware of a fetcher. In place of the spider's `start` it waits for the end."""

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        frontier, scheduler = self._hub, crawl_of(self._crawler).scheduler
        assert scheduler is not None
        frontier.on_ready = scheduler.wake
        frontier.is_closing = lambda: scrapy_private.is_closing(self._crawler.engine)
        await open_bus(frontier.bus, logger.warning)
        raise CloseSpider(await frontier.wait_for_end())
        yield

    async def spider_closed(self, reason: str) -> None:  # type: ignore[override]
        """A signal handler: send the last message, with this process's stats."""
        self._hub.exit(reason, self._crawler.stats.get_stats())
        await self._hub.leave()
        await self._hub.bus.close()

    @property
    def _hub(self) -> HubFrontier:
        return cast("HubFrontier", crawl_of(self._crawler).frontier)
