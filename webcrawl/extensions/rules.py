"""Reads the file of RULES again when it changes, and hands the new rules to the frontier.

Runs in the first process; the frontier hands them on to the workers. Polls the file on a thread. A
file is read once it has been the same for one poll, so that half a file is not taken for a whole
one. A mistake in it is one line, and the rules before stay in force.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from time import monotonic
from typing import Self

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured

from webcrawl.base.wording import counted
from webcrawl.config import rulesfile
from webcrawl.config.build import leads_crawl, rules_path
from webcrawl.config.rulesfile import RulesError
from webcrawl.crawl.crawl import crawl_of
from webcrawl.frontier.store import StoreError
from webcrawl.hub.server import FrontierServer
from webcrawl.scope.hostrules import HostRule, Values
from webcrawl.signals import crawl_closing

logger = logging.getLogger(__name__)

POLL_S = 0.5
_NAMED_MAX = 10  # targets named in one line of the log

Stamp = tuple[int, ...] | None  # None: no file


class RulesWatch:
    """Scrapy extension. Follows the file at `path`."""

    def __init__(self, crawler: Crawler, path: Path) -> None:
        self._crawler = crawler
        self._path = path
        self._read: Stamp = ()  # of the file as it was read last
        self._task: asyncio.Task[None] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        path = rules_path(crawler.settings)
        if path is None or not leads_crawl(crawler):
            raise NotConfigured
        extension = cls(crawler, path)
        crawler.signals.connect(extension.spider_opened, signals.spider_opened)
        crawler.signals.connect(extension.crawl_closing, crawl_closing)
        crawler.signals.connect(extension.crawl_closing, signals.spider_closed)
        return extension

    def spider_opened(self) -> None:
        rules = crawl_of(self._crawler).rules
        if rules is None:  # SCHEDULER is not ours
            return
        logger.info("RULES: %s: %s", self._path.name, counted(len(rules.rules), "rule"))
        _log_unobeyed(rules.rules)
        self._task = asyncio.create_task(self._follow())

    def crawl_closing(self) -> None:
        """A signal handler: the last change was followed."""
        if self._task is not None:
            self._task.cancel()

    async def _follow(self) -> None:
        before: Stamp = ()
        while True:
            await asyncio.sleep(POLL_S)
            stamp = await asyncio.to_thread(_stamp, self._path)
            if stamp == before and stamp != self._read:
                try:
                    await self._reload()
                except RulesError as error:
                    logger.error("%s; the rules before stay in force", error)
                except StoreError:  # the pump logs it and ends the crawl
                    return
                except Exception:  # or no later change would be followed, without a word
                    self._crawler.stats.inc_value("webcrawl/errors/rules")
                    logger.exception("RULES: %s cannot be followed", self._path)
                self._read = stamp
            before = stamp

    async def _reload(self) -> None:
        """Follow the file as it is now. RulesError, StoreError."""
        rules = await asyncio.to_thread(rulesfile.load, self._path)
        crawl = crawl_of(self._crawler)
        assert crawl.rules is not None
        assert isinstance(crawl.frontier, FrontierServer)
        in_force, before = crawl.rules.rules, crawl.rules.of
        if rules is in_force:  # the first poll
            return
        await crawl.frontier.set_rules(rules, monotonic())
        logger.info(
            "RULES: %s read again: %s (%s)",
            *(self._path.name, counted(len(rules), "rule"), changes(in_force, rules)),
        )
        _log_unobeyed(rules)
        if crawl.scheduler is not None:
            crawl.scheduler.give_back(crawl.rules.change_since(before))


def changes(before: Iterable[HostRule], now: Iterable[HostRule]) -> str:
    """How many rules are new, changed and gone, by their targets: "1 new, 2 gone"."""
    old, new = _by_targets(before), _by_targets(now)
    counts = {
        "new": len(new.keys() - old.keys()),
        "changed": sum(new[each] != old[each] for each in new.keys() & old.keys()),
        "gone": len(old.keys() - new.keys()),
    }
    return ", ".join(f"{n} {what}" for what, n in counts.items() if n) or "no change"


def _by_targets(rules: Iterable[HostRule]) -> dict[tuple[tuple[str, ...], ...], list[Values]]:
    by_targets: dict[tuple[tuple[str, ...], ...], list[Values]] = defaultdict(list)
    for rule in rules:
        by_targets[rule.hosts, rule.domains, rule.suffixes].append(rule.values)
    return by_targets


def _stamp(path: Path) -> Stamp:
    try:
        return rulesfile.stamp(path)
    except OSError:
        return None


def _log_unobeyed(rules: Sequence[HostRule]) -> None:
    """Log the hosts whose robots.txt is not obeyed."""
    targets = rulesfile.unobeyed(rules)
    if targets:
        more = f" and {len(targets) - _NAMED_MAX} more" if len(targets) > _NAMED_MAX else ""
        names = ", ".join(targets[:_NAMED_MAX])
        logger.warning("RULES: robots.txt is not obeyed for %s%s", names, more)
