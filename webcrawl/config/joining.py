"""Makes a process a fetcher: one with CLUSTER and without JOBDIR (docs/cluster.md)."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from scrapy.crawler import Crawler

from webcrawl import __version__
from webcrawl.config import hub as config
from webcrawl.crawl.crawl import Assignment, crawl_of
from webcrawl.hub.bus import Bus, Refused
from webcrawl.hub.fetching import CHANGED
from webcrawl.hub.joining import CrawlEndedError, open_bus, wait_for_brief
from webcrawl.hub.packets import Brief


def join(crawler: Crawler) -> dict[str, Any] | int:
    """Wait for the hub, and make `crawler` one of its fetchers: the arguments of its spider.

    Else the exit code: 0 if the crawl has ended, 2 if this machine cannot fetch for it.
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
    return brief.arguments | {"seeds": ""}


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
