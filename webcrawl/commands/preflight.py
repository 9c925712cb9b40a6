"""One crawl by a command; of a broad spider settings, names and seeds are checked before it.

The exit code says how it went: 1 for a bad seed or an error, 2 for a setting that cannot be used
or a name that is misspelt.
"""

from __future__ import annotations

import argparse
import logging
import sys

from scrapy import Spider
from scrapy.commands import BaseRunSpiderCommand
from scrapy.crawler import Crawler
from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object

from webcrawl import openfiles
from webcrawl.config.build import processes_from, share_of
from webcrawl.config.check import check, problems_of
from webcrawl.config.fetch import limits_from
from webcrawl.config.names import check_names
from webcrawl.crawl.crawl import LeaseKeeper, crawl_of
from webcrawl.spiders.broad import project_root
from webcrawl.spiders.seeds import BadSeed, SeedSource

logger = logging.getLogger(__name__)


def run(command: BaseRunSpiderCommand, crawler: Crawler, opts: argparse.Namespace) -> None:
    """Crawl, and set the exit code of `command`."""
    names = check_names(crawler.settings, crawler.spidercls, opts.spargs)
    if problems := [*names.misspelt, *check(crawler.settings)]:
        command.exitcode = 2
        _say(crawler, *problems)
        return
    try:
        fit_open_files(crawler.settings)
    except openfiles.TooFewFilesError as error:
        command.exitcode = 2
        _say(crawler, str(error))
        return
    try:
        opts.spargs["seeds"] = _checked_seeds(opts.spargs.get("seeds", ""))
    except BadSeed as error:
        command.exitcode = 1
        _say(crawler, f"bad seed: {error}")
        return
    except KeyboardInterrupt:  # while it waited for standard input
        command.exitcode = 130
        return
    if _crawl(command, crawler, opts):
        _judge(command, crawler)


def run_plain(command: BaseRunSpiderCommand, crawler: Crawler, opts: argparse.Namespace) -> None:
    """Crawl with a spider that is not a broad one. The exit code of `command` is Scrapy's, and
    where the frontier is ours, as that of `run`.
    """
    if _crawl(command, crawler, opts) and issubclass(
        load_object(crawler.settings["SCHEDULER"]), LeaseKeeper
    ):
        _judge(command, crawler)


def _crawl(command: BaseRunSpiderCommand, crawler: Crawler, opts: argparse.Namespace) -> bool:
    """As Scrapy's commands do. Whether there was a crawl."""
    assert command.crawler_process
    command.crawler_process.crawl(crawler, **opts.spargs)
    command.crawler_process.start()
    if command.crawler_process.bootstrap_failed:
        command.exitcode = 1
    return not command.crawler_process.bootstrap_failed


def _judge(command: BaseRunSpiderCommand, crawler: Crawler) -> None:
    if problem := _problem_of(crawler):
        command.exitcode = 1
        _say(crawler, problem)


def misspelt(command: BaseRunSpiderCommand, spider: type[Spider]) -> bool:
    """Whether a spider that is not a broad one is refused, with a line for each name and value."""
    assert command.settings
    settings = command.settings.copy()
    spider.update_settings(settings)
    lines = problems_of(settings, spider)
    for line in lines:
        print(line, file=sys.stderr)
        command.exitcode = 2
    return bool(lines)


def fit_open_files(settings: BaseSettings) -> None:
    """Cut what is asked for at a time to what the limit of open files allows, with a warning.

    Each process has a limit of its own. TooFewFilesError where it is too low.
    """
    names = ("CONCURRENT_REQUESTS", "CONCURRENT_ADMISSIONS")
    limit = openfiles.raise_limit()
    connections = openfiles.plan_for(limit).connections(
        disk=settings["FRONTIER_STORE"] == "disk",
        keep_alive=limits_from(settings).keep_alive_s > 0,
    )
    if connections < openfiles.CONNECTIONS_MIN:
        raise openfiles.TooFewFilesError(limit)
    wanted = [settings.getint(name) for name in names]
    processes = processes_from(settings)
    most = [max(share_of(settings, name, n) for n in (1, min(2, processes))) for name in names]
    part = connections / sum(most)
    if part >= 1:
        return
    used = [max(int(count * part), processes) for count in wanted]
    for name, count in zip(names, used, strict=True):
        settings.set(name, count, settings.getpriority(name) or 0)
    logger.warning(
        "The limit of open files is %d (ulimit -Hn): CONCURRENT_REQUESTS is %d in place of %d, "
        "CONCURRENT_ADMISSIONS %d in place of %d",
        *(limit, used[0], wanted[0], used[1], wanted[1]),
    )


def _checked_seeds(spec: str) -> SeedSource:
    """The seeds, of which one at least is known to be usable. The spider reads on from there."""
    source = SeedSource(spec, project_root())
    source.check()
    return source


def _problem_of(crawler: Crawler) -> str:
    """What was wrong with a crawl that has ended; "" for nothing."""
    reason = crawler.stats.get_value("finish_reason", "")
    problem = crawl_of(crawler).fatal_error  # maybe at its end, which another had begun
    if reason in ("no_answer", "outage"):
        return str(problem or reason)
    if problem or reason.endswith("error"):
        return f"the crawl ended by an error: {problem or reason}"
    return f"bad seed: {_shortfall(crawler)}" if reason == "bad_seed" else ""


def _shortfall(crawler: Crawler) -> str:
    """How far a crawl came whose frontier emptied too early."""
    target = crawler.settings.getint("CLOSESPIDER_PAGECOUNT")
    crawled = crawler.stats.get_value("webcrawl/crawled", 0)
    if target:
        return f"the frontier emptied after {crawled} of {target} pages"
    return "no seed is in scope: look at SCOPE_SUFFIXES, SCOPE_ALLOW and SCOPE_DENY"


def _say(crawler: Crawler, *lines: str) -> None:
    """Say what is wrong: on standard error always, and in the log where that is a file."""
    for line in lines:
        print(line, file=sys.stderr)
        if crawler.settings.get("LOG_FILE"):
            logger.error("%s", line)
