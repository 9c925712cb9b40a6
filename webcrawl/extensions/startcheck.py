"""Checks before every crawl: settings, the crawler's own parts, and a contact.

`scrapy crawl` and `runspider` have already refused what cannot be used, and a Scrapy that lacks a
name of `scrapy_private`, in one line each. If another command starts the crawl, such as Scrapy's
own `crawl` in a project without COMMANDS_MODULE, this module refuses it with these lines and exit
code 2; if a script starts it, by an exception.
"""

from __future__ import annotations

import logging
import sys
from typing import Self

from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings

from webcrawl.base.wording import SettingError
from webcrawl.config.build import is_debugging, is_worker
from webcrawl.config.check import contact_warning, domain_warnings, problems_of, warnings_of
from webcrawl.config.names import check_names
from webcrawl.config.table import TABLE
from webcrawl.crawl.crawl import crawl_of
from webcrawl.crawl.scrapy_private import problem

logger = logging.getLogger(__name__)


class StartCheck:
    """Runs the checks when Scrapy makes it, before the spider opens. Does nothing afterwards."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if line := problem():
            raise RuntimeError(line)
        if is_worker(crawler):  # the first process has run the checks
            raise NotConfigured
        _apply_user_agent(crawler)
        _, arguments = getattr(crawler.spider, "crawl_arguments", ((), {}))
        if not crawl_of(crawler).is_checked:
            _refuse(problems_of(crawler.settings, crawler.spidercls, arguments))
        doubtful = check_names(crawler.settings, crawler.spidercls, arguments).doubtful
        no_contact = [] if is_debugging(crawler) else contact_warning(crawler.settings)
        warnings = [] if is_debugging(crawler) else warnings_of(crawler.settings)
        for line in [*doubtful, *domain_warnings(crawler), *warnings, *no_contact]:
            logger.warning("%s", line)
        if no_contact and _hides_warnings(crawler.settings):
            print(*no_contact, sep="\n", file=sys.stderr)
        return cls()


def _refuse(problems: list[str]) -> None:
    if problems and "scrapy.cmdline" in sys.modules:
        print(*problems, sep="\n", file=sys.stderr)
        raise SystemExit(2)
    if problems:
        raise ValueError("; ".join(problems))


def _hides_warnings(settings: BaseSettings) -> bool:
    """Whether the settings of the log hide warnings from the user's terminal."""
    level = settings["LOG_LEVEL"]
    number = level if isinstance(level, int) else logging.getLevelNamesMapping().get(level, 0)
    return bool(
        settings["LOG_FILE"] or not settings.getbool("LOG_ENABLED") or number > logging.WARNING
    )


def _apply_user_agent(crawler: Crawler) -> None:
    """A spider's `user_agent` overrides USER_AGENT, as in Scrapy's UserAgentMiddleware."""
    agent = getattr(crawler.spider, "user_agent", None)
    if agent is None:
        return
    kind = TABLE["USER_AGENT"]
    if not kind.fits(agent):
        raise SettingError("user_agent", agent, kind.allowed)
    crawler.settings.set("USER_AGENT", agent, max(SETTINGS_PRIORITIES.values()))
