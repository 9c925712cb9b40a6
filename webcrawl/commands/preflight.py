"""Runs one crawl for a command. Before it, checks settings and names; of a broad spider seeds too.

The exit code is 1 for a bad seed or an error, 2 for a setting that cannot be used or a misspelt
name, and 130 for Ctrl-C during the check, or twice. A spider that is not a broad one runs as in
plain Scrapy if its settings are usable. Its exit code also reports errors of the frontier.
"""

from __future__ import annotations

import argparse
import atexit
import logging
import os
import signal
import sys
from contextlib import suppress
from textwrap import fill
from typing import TYPE_CHECKING, NoReturn

from scrapy import Spider
from scrapy.commands import BaseRunSpiderCommand, ScrapyHelpFormatter
from scrapy.crawler import Crawler
from scrapy.settings import BaseSettings

from webcrawl.base import openfiles
from webcrawl.base.wording import INTERRUPTED, SettingError, by_reason, counted
from webcrawl.config.build import processes_from, share_of
from webcrawl.config.check import problems_of, try_store
from webcrawl.config.earlier import prepare_earlier
from webcrawl.config.fetch import limits_from, try_proxy
from webcrawl.config.kinds import FREE_PORT
from webcrawl.config.scrapysown import end_if_any, unreadable, unusable
from webcrawl.config.table import MOST_USED, TABLE, read
from webcrawl.crawl.crawl import crawl_of, has_our_scheduler
from webcrawl.live.listening import bind_loopback
from webcrawl.report.lines import LEGEND
from webcrawl.spiders.broad import BroadSpider, project_root
from webcrawl.spiders.seeds import BadSeed, SeedSource

if TYPE_CHECKING:
    _Base = BaseRunSpiderCommand
else:
    _Base = object

logger = logging.getLogger(__name__)

EXIT_CODES = (
    "0  no URL is left, the target is met, or Ctrl-C stopped the crawl",
    "1  a bad seed or an error, named by the last line on standard error",
    "2  a setting that cannot be used, or a misspelt name",
    "130  Ctrl-C twice, or at once",
)
CUT = "stopped twice, or as it began: the end is as after a kill, without summary and report"
_WIDTH = 76  # without the two spaces that the formatter puts before each line
_INDENT = 22  # to the column where the options' help begins


class _HelpFormatter(ScrapyHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Scrapy's, which keeps the line breaks of the sections below."""


def add_epilog(parser: argparse.ArgumentParser) -> None:
    """Add the most used settings, the legend of the stats lines and the exit codes to `--help`."""
    parser.formatter_class = _HelpFormatter
    parser.description = fill(parser.description or "", _WIDTH + 2)
    settings = [*map(_setting, MOST_USED), "docs/settings.md has all of them."]
    for title, lines in (
        ("most used settings", settings),
        ("stats lines", LEGEND),
        ("exit codes", EXIT_CODES),
    ):
        parser.add_argument_group(title, "\n".join(lines))


def _setting(name: str) -> str:
    """A setting, its use and what is allowed, laid out as argparse lays out an option."""
    use = f"{MOST_USED[name].replace('`', '')} ({TABLE[name].allowed})"
    column = " " * _INDENT
    return (
        name.ljust(_INDENT)
        + fill(use, _WIDTH, initial_indent=column, subsequent_indent=column).lstrip()
    )


class CheckedCommand(_Base):
    """Mixin of Scrapy's commands that run a spider."""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        add_epilog(parser)

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        assert self.settings is not None
        given = dict(each.split("=", 1) for each in opts.set if "=" in each)
        end_if_any(unreadable(self.settings, given))
        super().process_options(args, opts)
        end_if_any(unusable(self.settings))

    def crawl_with(self, spider: type[Spider], opts: argparse.Namespace) -> None:
        """Check, crawl, and set the exit code."""
        assert self.settings is not None
        end_if_any(unreadable(self.settings, spider.custom_settings or {}))
        crawler = self._create_crawler(spider)
        end = _check(crawler, opts)
        self.exitcode = self._crawl(crawler, opts) if end is None else end

    def _crawl(self, crawler: Crawler, opts: argparse.Namespace) -> int:
        """Crawl as Scrapy's commands do; the exit code."""
        assert self.crawler_process
        crawl = crawl_of(crawler)
        crawl.is_checked = True
        if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # nohup ignores it
            signal.signal(signal.SIGHUP, _hang_up)
        self.crawler_process.crawl(crawler, **opts.spargs)
        self.crawler_process.start()
        if self.crawler_process.bootstrap_failed:
            return 1
        if crawl.assignment is not None:
            from webcrawl.config import joining  # noqa: PLC0415  (only a fetcher loads nats-py)

            joining.begin_again_if_changed(crawler)
        if has_our_scheduler(crawler.settings):
            if crawl.is_refused:
                return _refuse(crawler, 2, crawl.fatal_error)
            if problem := _problem_of(crawler):
                return _refuse(crawler, 1, problem)
            if "finish_reason" not in crawler.stats.get_stats():
                _exit(_refuse(crawler, INTERRUPTED, CUT))
        return 0


def _check(crawler: Crawler, opts: argparse.Namespace) -> int | None:
    """Check what can be known before the crawl. The exit code if there is none to run.

    Changes the spider's arguments: `seeds` is a list whose first one is read already; those of a
    fetcher come from its hub.
    """
    settings, spider = crawler.settings, crawler.spidercls
    is_broad = issubclass(spider, BroadSpider)
    if problems := problems_of(settings, spider, opts.spargs, is_broad=is_broad):
        return _refuse(crawler, 2, *problems)
    in_cluster = bool(settings.get("CLUSTER"))
    is_fetcher = in_cluster and not settings.get("JOBDIR")
    try:
        try_store(settings)
        if not is_broad:
            return None
        fit_open_files(settings)
        _try_port(settings)
        try_proxy(settings)
        crawl_of(crawler).earlier_folder = prepare_earlier(settings)
        if not is_fetcher:
            seeds = SeedSource(opts.spargs.get("seeds", ""), project_root())
            seeds.check()  # reads up to a usable one; the spider reads the rest
            opts.spargs["seeds"] = seeds
    except KeyboardInterrupt:  # an index of DEDUP_INDEX takes minutes; standard input may not come
        return INTERRUPTED
    except BadSeed as error:
        return _refuse(crawler, 1, f"bad seed: {error}")
    except (openfiles.TooFewFilesError, SettingError) as error:
        return _refuse(crawler, 2, str(error))
    if not in_cluster:
        return None
    from webcrawl.config import joining  # noqa: PLC0415  (only with CLUSTER nats-py is loaded)

    if not is_fetcher:
        return joining.claim(crawler, opts.spargs) or None
    joined = joining.join(crawler)
    if isinstance(joined, int):
        return joined
    opts.spargs = joined
    return None


def _hang_up(*_: object) -> None:
    """Handle SIGHUP as SIGTERM, but once: the shell and the terminal may send one each."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.raise_signal(signal.SIGTERM)


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


def _problem_of(crawler: Crawler) -> str:
    """The problem of a crawl that has ended; "" without one."""
    reason = crawler.stats.get_value("finish_reason", "")
    problem = crawl_of(crawler).fatal_error  # it may have come after another reason to end
    if reason in ("no_answer", "outage", "disk_free_min"):
        return str(problem or reason)
    if problem or reason.endswith("error"):
        return f"the crawl ended by an error: {problem or reason}"
    if reason == "bad_seed":
        return f"bad seed: {_shortfall(crawler)}"
    if unsent := crawl_of(crawler).unsent:  # the user did not wait
        files = counted(unsent, "file")
        return f"{files} not sent to ARCHIVE_STORE: the same command sends them"
    return ""


def _shortfall(crawler: Crawler) -> str:
    """The reason why the URLs ran out too early, or were none."""
    frontier = crawl_of(crawler).frontier
    has_seeds = crawler.stats.get_value("webcrawl/seeds/accepted", 1)
    if frontier is not None and frontier.goal and (has_seeds or frontier.crawled):
        return f"the frontier emptied after {frontier.crawled} of {frontier.goal} pages"
    dropped = by_reason(frontier.counters.dropped) if frontier is not None else "all"
    names = "SCOPE_SUFFIXES, SCOPE_ALLOW, SCOPE_DENY, ALLOW_PORTS, allowed_domains"
    return f"no seed is in scope: dropped {dropped}: look at {names}"


def _refuse(crawler: Crawler, exit_code: int, *problems: str) -> int:
    """Print problems on standard error, and also log them if the log is a file. `exit_code`."""
    for line in problems:
        print(line, file=sys.stderr)
        if crawler.settings.get("LOG_FILE"):
            logger.error("%s", line)
    return exit_code


def _exit(exit_code: int) -> NoReturn:
    """End the process with threads at work: one that is in RocksDB would abort Python's own end."""
    atexit._run_exitfuncs()  # removes temporary folders
    with suppress(OSError):
        sys.stdout.flush()
    os._exit(exit_code)
