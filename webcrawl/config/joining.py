"""Makes a process a fetcher, or one of several hubs, before its crawl (docs/cluster.md).

With CLUSTER and without JOBDIR it is a fetcher.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from scrapy.crawler import Crawler

from webcrawl import __version__
from webcrawl.base.wording import INTERRUPTED, SettingError
from webcrawl.cluster.bus import Bus, Refused
from webcrawl.cluster.claims import (
    Claim,
    ClaimError,
    claim_number,
    claimant_of,
    read_claim,
    write_claim,
)
from webcrawl.cluster.fetching import CHANGED
from webcrawl.cluster.joining import CrawlEndedError, answered, open_bus, wait_for_brief
from webcrawl.cluster.packets import Brief
from webcrawl.cluster.records import CrawlRecord
from webcrawl.config import cluster as config
from webcrawl.config.build import hubs_from, job_folder
from webcrawl.crawl.crawl import Assignment, crawl_of
from webcrawl.frontier.disk.database import is_begun
from webcrawl.frontier.disk.frontier import FOLDER, JobFolder
from webcrawl.frontier.disk.identity import new_crawl_id
from webcrawl.frontier.store import StoreError


def join(crawler: Crawler) -> dict[str, Any] | int:
    """Wait for the hub, and make `crawler` one of its fetchers: the arguments of its spider.

    Else the exit code: 0 if the crawl has ended, 2 if this machine cannot fetch for it.
    """
    try:
        # In a loop of its own: Scrapy has made another one, for the crawl.
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            brief = runner.run(_ask(config.bus_from(crawler.settings)))
    except KeyboardInterrupt:
        return INTERRUPTED
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


def claim(crawler: Crawler, arguments: dict[str, Any]) -> int:
    """Let this process be one of several hubs: the one of its JOBDIR, or one without an owner.

    `arguments` are those of the spider. Returns the exit code if it cannot be one, else 0. The only
    hub of a crawl claims nothing.
    """
    jobdir = job_folder(crawler.settings)
    assert jobdir is not None
    try:
        if hubs_from(crawler.settings) == 1 and read_claim(jobdir) is None:
            return 0
        job = JobFolder(jobdir)
        try:
            crawl_of(crawler).claim = _claim(crawler, jobdir, arguments)
        finally:
            job.close()
    except KeyboardInterrupt:
        return INTERRUPTED
    except (StoreError, ClaimError) as error:
        print(f"JOBDIR: {error}", file=sys.stderr, flush=True)
        return 1
    except (Refused, SettingError) as error:
        _say(str(error))
        return 2
    return 0


def _claim(crawler: Crawler, jobdir: Path, arguments: dict[str, Any]) -> Claim:
    hubs = hubs_from(crawler.settings)
    ours = read_claim(jobdir)
    if ours is None and is_begun(jobdir / FOLDER):
        ours = Claim("", 0, 1)
    if ours is None:
        wanted = config.record_of(crawler, arguments, new_crawl_id())
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            bus = config.bus_from(crawler.settings)
            ours = runner.run(_claim_on_bus(bus, wanted, claimant_of(jobdir)))
        write_claim(jobdir, ours)
    if ours.hubs != hubs:
        raise SettingError("CLUSTER_HUBS", hubs, f"{ours.hubs}, with which JOBDIR was begun")
    return ours


async def _claim_on_bus(bus: Bus, wanted: CrawlRecord, claimant: str) -> Claim:
    await open_bus(bus, _say)
    try:
        return await answered(lambda: claim_number(bus, wanted, claimant), _say)
    finally:
        await bus.close()


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
