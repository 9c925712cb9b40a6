"""Runs one crawl for a command. Before a broad spider's crawl, checks settings, names and seeds.

The exit code is 1 for a bad seed or an error, 2 for a setting that cannot be used or a misspelt
name, and 130 for Ctrl-C during the check.
"""

from __future__ import annotations

import argparse
import logging
import sys

from scrapy import Spider
from scrapy.commands import BaseRunSpiderCommand
from scrapy.crawler import Crawler
from scrapy.settings import BaseSettings

from webcrawl import openfiles
from webcrawl.config.build import processes_from, share_of
from webcrawl.config.check import check_live, problems_of
from webcrawl.config.earlier import prepare_earlier
from webcrawl.config.fetch import ProxyError, limits_from, proxy_from
from webcrawl.config.kinds import FREE_PORT, SettingError
from webcrawl.config.table import read
from webcrawl.crawl.crawl import crawl_of, has_our_scheduler
from webcrawl.fetch.proxy import problem_of
from webcrawl.live.listening import bind_loopback
from webcrawl.spiders.broad import project_root
from webcrawl.spiders.seeds import BadSeed, SeedSource

logger = logging.getLogger(__name__)


def run(command: BaseRunSpiderCommand, crawler: Crawler, opts: argparse.Namespace) -> None:
    """Check, crawl with a broad spider, and set the exit code of `command`."""
    problems = problems_of(crawler.settings, crawler.spidercls, opts.spargs, is_broad=True)
    if problems:
        command.exitcode = 2
        _report(crawler, *problems)
        return
    try:
        check_live(crawler.settings)
        fit_open_files(crawler.settings)
        _try_port(crawler.settings)
        _try_proxy(crawler.settings)
        crawl_of(crawler).earlier_folder = prepare_earlier(crawler.settings)
    except KeyboardInterrupt:  # an index of DEDUP_INDEX takes minutes
        command.exitcode = 130
        return
    except (openfiles.TooFewFilesError, SettingError) as error:
        command.exitcode = 2
        _report(crawler, str(error))
        return
    if crawler.settings.get("CLUSTER") and not crawler.settings.get("JOBDIR"):
        _fetch(command, crawler, opts)
        return
    try:
        opts.spargs["seeds"] = _checked_seeds(opts.spargs.get("seeds", ""))
    except BadSeed as error:
        command.exitcode = 1
        _report(crawler, f"bad seed: {error}")
        return
    except KeyboardInterrupt:  # while the check waits for standard input
        command.exitcode = 130
        return
    if crawler.settings.get("CLUSTER"):
        from webcrawl.config import joining  # noqa: PLC0415  (only with CLUSTER nats-py is loaded)

        command.exitcode = joining.claim(crawler, opts.spargs)
        if command.exitcode:
            return
    if _crawl(command, crawler, opts):
        _set_exit_code(command, crawler)


def _fetch(command: BaseRunSpiderCommand, crawler: Crawler, opts: argparse.Namespace) -> None:
    """Crawl for a hub on another machine, and set the exit code of `command`."""
    from webcrawl.config import joining  # noqa: PLC0415  (only a fetcher loads nats-py)

    joined = joining.join(crawler)
    if isinstance(joined, int):
        command.exitcode = joined
        return
    opts.spargs = joined
    if _crawl(command, crawler, opts):
        joining.begin_again_if_changed(crawler)
        _set_exit_code(command, crawler)


def run_plain(command: BaseRunSpiderCommand, crawler: Crawler, opts: argparse.Namespace) -> None:
    """Crawl with a spider that is not a broad one.

    The exit code of `command` is Scrapy's; with our frontier, it is that of `run`.
    """
    if _crawl(command, crawler, opts) and has_our_scheduler(crawler.settings):
        _set_exit_code(command, crawler)


def _crawl(command: BaseRunSpiderCommand, crawler: Crawler, opts: argparse.Namespace) -> bool:
    """Crawl as Scrapy's commands do. False if the crawl could not start."""
    assert command.crawler_process
    crawl_of(crawler).is_checked = True
    command.crawler_process.crawl(crawler, **opts.spargs)
    command.crawler_process.start()
    if command.crawler_process.bootstrap_failed:
        command.exitcode = 1
    return not command.crawler_process.bootstrap_failed


def _set_exit_code(command: BaseRunSpiderCommand, crawler: Crawler) -> None:
    if crawl_of(crawler).is_refused:
        command.exitcode = 2
        _report(crawler, crawl_of(crawler).fatal_error)
    elif problem := _problem_of(crawler):
        command.exitcode = 1
        _report(crawler, problem)


def has_mistakes(command: BaseRunSpiderCommand, spider: type[Spider]) -> bool:
    """Whether settings of a spider that is not a broad one have mistakes; prints a line each."""
    assert command.settings
    settings = command.settings.copy()
    spider.update_settings(settings)
    lines = problems_of(settings, spider)
    for line in lines:
        print(line, file=sys.stderr)
        command.exitcode = 2
    return bool(lines)


def fit_open_files(settings: BaseSettings) -> None:
    """Cut concurrency to the limit of open files, with a warning.

    Each process has its own limit. TooFewFilesError if the limit is too low for a crawl.
    """
    limit = openfiles.raise_limit()
    connections = openfiles.plan_for(limit).connections(
        disk=settings["FRONTIER_STORE"] == "disk",
        keep_alive=limits_from(settings).keep_alive_s > 0,
    )
    if connections < openfiles.CONNECTIONS_MIN:
        raise openfiles.TooFewFilesError(limit)
    name = "CONCURRENT_REQUESTS"
    wanted, processes = settings.getint(name), processes_from(settings)
    most = max(share_of(settings, n) for n in (1, min(2, processes)))
    part = connections / (2 * most)  # as many admissions as pages
    if part >= 1:
        return
    used = max(int(wanted * part), processes)
    settings.set(name, used, settings.getpriority(name) or 0)
    logger.warning(
        "The limit of open files is %d (ulimit -Hn): CONCURRENT_REQUESTS is %d in place of %d",
        *(limit, used, wanted),
    )


def _try_port(settings: BaseSettings) -> None:
    """SettingError if the port of LIVE is in use."""
    port = read(settings, "LIVE", int)
    if port <= FREE_PORT:
        return
    try:
        bind_loopback(port).close()
    except OSError as error:
        reason = f"{error.strerror}; 1 takes any free port"
        raise SettingError("LIVE", settings["LIVE"], reason) from None


def _try_proxy(settings: BaseSettings) -> None:
    """SettingError if the proxy cannot be used now."""
    proxy = proxy_from(settings)
    if proxy is not None and (problem := problem_of(proxy)):
        raise ProxyError(f"{proxy}: {problem}")


def _checked_seeds(spec: str) -> SeedSource:
    """The seeds, read up to a usable one. The spider reads the rest. BadSeed without one."""
    source = SeedSource(spec, project_root())
    source.check()
    return source


def _problem_of(crawler: Crawler) -> str:
    """The problem of a crawl that has ended; "" without one."""
    reason = crawler.stats.get_value("finish_reason", "")
    problem = crawl_of(crawler).fatal_error  # it may have come after another reason to end
    if reason in ("no_answer", "outage", "disk_free_min"):
        return str(problem or reason)
    if problem or reason.endswith("error"):
        return f"the crawl ended by an error: {problem or reason}"
    return f"bad seed: {_shortfall(crawler)}" if reason == "bad_seed" else ""


def _shortfall(crawler: Crawler) -> str:
    """The reason why the URLs ran out too early, or were none."""
    frontier = crawl_of(crawler).frontier
    has_seeds = crawler.stats.get_value("webcrawl/seeds/accepted", 1)
    if frontier is not None and frontier.goal and (has_seeds or frontier.crawled):
        return f"the frontier emptied after {frontier.crawled} of {frontier.goal} pages"
    return (
        "no seed is in scope: look at SCOPE_SUFFIXES, SCOPE_ALLOW, SCOPE_DENY, ALLOW_PORTS,"
        " allowed_domains"
    )


def _report(crawler: Crawler, *lines: str) -> None:
    """Print problems on standard error, and also log them if the log is a file."""
    for line in lines:
        print(line, file=sys.stderr)
        if crawler.settings.get("LOG_FILE"):
            logger.error("%s", line)
