"""Scrapy's scheduler interface on the frontier.

Scrapy asks synchronously; the frontier answers asynchronously and in batches. Between them is a
small window of acquired leases, which the pump refills (`scheduler.pump`). Only the pump and
`put_seeds` call the frontier.

Invariants: pages leased and not released are at most this process's share of CONCURRENT_REQUESTS,
so Scrapy's downloader is never full.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Self

from msgspec.structs import replace
from scrapy import Request, Spider, signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider
from scrapy.settings import BaseSettings
from scrapy.utils.defer import deferred_from_coro
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from webcrawl.admission.sitemaps import Sitemaps
from webcrawl.base.wording import by_reason
from webcrawl.config import build
from webcrawl.config.components import losses
from webcrawl.config.ignored import unused
from webcrawl.config.table import read
from webcrawl.crawl.crawl import BUDGETS, crawl_of, refuse, report_error, set_fatal_error
from webcrawl.crawl.outcomes import failed, replaced, replaced_by
from webcrawl.crawl.page_fetch import PageFetch, page_fetch_of, strip
from webcrawl.crawl.requisites import Requisites
from webcrawl.crawl.spidermiddleware import PageFetchMiddleware
from webcrawl.crawl.user_requests import UserRequests, is_of_the_web, is_plain
from webcrawl.fetch.exchange import REASONS, Exchange
from webcrawl.fetch.retryafter import asked_to_wait_s
from webcrawl.frontier.base import Frontier, Policy
from webcrawl.frontier.candidates import FAILURES_MAX
from webcrawl.frontier.counters import Counters
from webcrawl.frontier.lease import Dropped, Failed, Fetched, Link, Outcome, Returned
from webcrawl.frontier.outbox import Outbox, urls_at_a_time
from webcrawl.frontier.outlinks import Outlinks
from webcrawl.frontier.store import StoreError
from webcrawl.hub.client import ClientFrontier
from webcrawl.items import Page
from webcrawl.parse.urls import canonicalize, host_of
from webcrawl.scheduler.controls import Controls
from webcrawl.scheduler.opening import open_frontier, rules_of
from webcrawl.scheduler.pump import Pump
from webcrawl.signals import exchange_recorded

logger = logging.getLogger(__name__)


class Scheduler(BaseScheduler):
    """Hands out a Request per lease, and turns each Request's end into an outcome.

    `SCHEDULER` setting.
    """

    def __init__(
        self,
        crawler: Crawler,
        frontier: Frontier,
        outlinks: Outlinks,
        policy: Policy,
        pump: Pump,
        controls: Controls,
        *,
        follow: bool,
        obeys_noarchive: bool = False,
    ) -> None:
        self._crawler = crawler
        self.frontier = frontier
        self._outlinks = outlinks
        self._policy = policy
        self._users = UserRequests(
            crawler,
            policy.retry_times,
            keep=build.is_debugging(crawler),  # `scrapy shell` sets the callback later
            are_plain=bool(crawler.settings.get("CLUSTER")),
        )
        self._gate = crawl_of(crawler).gate
        self._pump = pump
        self._pump.on_orphan = self.finish
        self.controls = controls
        self.holds = 0  # commands under way, during which the crawl does not end by itself
        self._follow = follow
        self._obeys_noarchive = obeys_noarchive
        self._slices = asyncio.Lock()  # for one slice of one large page per turn of the event loop
        self._crawled_before = self._robots_before = 0  # by earlier runs

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = crawler.settings
        crawl = crawl_of(crawler)
        crawl.scope = scope = build.scope_from(settings, build.domains_of(crawler))
        crawl.rules = rules = rules_of(crawler)
        frontier, orders, problem = open_frontier(crawler, scope, rules)
        follow = read(settings, "FOLLOW_LINKS", bool)
        outlinks = build.outlinks_from(settings, frontier.counters.dropped, scope, rules)
        outlinks.requisites = frontier.counters.requisites
        # Only a spider that makes pages of all URLs can do something with those of a sitemap, and
        # with the files that a page shows.
        spider: Any = crawler.spider
        makes_pages = hasattr(type(spider), "large_bodies")
        outlinks.reads_sitemaps &= makes_pages and not build.is_debugging(crawler)
        sitemaps = requisites = None
        if makes_pages:
            requisites = Requisites(crawler, outlinks, spider.bodies, spider.large_bodies).outcome
        if outlinks.reads_sitemaps:
            guesses = build.guesses_sitemaps(settings)
            counts = frontier.counters.sitemaps
            sitemaps = Sitemaps(outlinks, counts, spider.large_bodies, guesses=guesses)
        admissions = build.admissions_from(
            settings,
            rules=rules,
            outlink=outlinks.of_redirect if follow else lambda url, link: None,
            record=_recorder(crawler, frontier.counters),
            denied=scope.denied,
            gate=crawl.gate,
            sitemaps=sitemaps,
            requisite=requisites,
            waits=not build.is_debugging(crawler),  # a person wants the error at once
        )
        pump = Pump(
            crawler,
            frontier,
            admissions,
            Outbox(frontier, outlinks.url_cache),
            concurrency=build.share_of(settings),
        )
        pump.problem = problem
        scheduler = cls(
            crawler,
            frontier,
            outlinks,
            build.policy_from(settings),
            pump,
            Controls(crawl.gate, scope, pump, orders),
            follow=follow,
            obeys_noarchive=settings.getbool("OBEY_NOARCHIVE"),
        )
        if isinstance(frontier, ClientFrontier):
            frontier.on_orders = scheduler.controls.carry_out
            frontier.on_allowed = scheduler.controls.allow_until
            frontier.give_back = scheduler.controls.give_back
            if outlinks.url_cache is not None:
                frontier.on_renewed = outlinks.url_cache.clear
            crawl.gate.hub_of = frontier.hub_of
        crawler.signals.connect(scheduler.spider_opened, signals.spider_opened)
        crawler.signals.connect(scheduler.spider_idle, signals.spider_idle)
        crawl.scheduler, crawl.admissions = scheduler, admissions
        crawl.frontier = None if problem else frontier
        return scheduler

    @property
    def counters(self) -> Counters:
        return self.frontier.counters

    @property
    def problem(self) -> str:
        """Why the frontier could not be opened, or failed; "" if it works."""
        return self._pump.problem

    def wake(self) -> None:
        """Make the pump run its next turn now."""
        self._pump.wake()

    def give_back(self, has_changed: Callable[[str], bool]) -> None:
        """Give back the leases of hosts whose rules have changed, unless their request is sent."""
        self.controls.give_back(has_changed)

    async def end_admissions(self) -> None:
        """Cut off the admissions that are not answered; return once the others are done."""
        await self._pump.end_admissions()

    # Scrapy's interface

    def open(self, spider: Spider) -> None:
        """Log warnings. `spider_opened` starts the pump."""
        if self.problem:
            return
        settings = self._crawler.settings
        if build.is_debugging(self._crawler):
            _log_wait(settings)
            return
        local = self.frontier.local
        if local is None:  # the first process says it for all
            return
        for line in [*losses(settings), *unused(settings)]:
            logger.warning("%s", line)
        if settings.get("JOBDIR") and settings["FRONTIER_STORE"] == "memory":
            logger.warning("JOBDIR: this crawl cannot be resumed, FRONTIER_STORE is 'memory'")
        for warning in local.warnings:
            logger.warning("JOBDIR: %s", warning)
        if local.resumed:
            counters = self.counters
            logger.info("Resumes with %d URLs, after %d pages", counters.pending, counters.crawled)

    def close(self, reason: str) -> Deferred[None]:
        silent = self.counters.robots.total() == self._robots_before or reason == "no_answer"
        silent = silent and reason not in BUDGETS
        if silent and self._is_unanswered():
            self._log_unanswered()
        elif reason == "outage":
            set_fatal_error(self._crawler, "our own network was out for more than six hours")
        self._log_urls_left()
        return deferred_from_coro(self._pump.close())

    def has_pending_requests(self) -> bool:
        return self.holds_work() or not self.frontier.is_finished()

    def holds_work(self) -> bool:
        """Whether the crawl must go on, whatever the frontier has."""
        here = self._pump.outbox or self._users or self.holds or self.controls.is_paused
        return bool(here)

    def puts_large(self) -> bool:
        """Whether the links of a large page that has ended are not all put."""
        return self._pump.outbox.has_large

    def next_request(self) -> Request | None:
        while (lease := self._pump.next_lease()) is not None:
            page_fetch = PageFetch(lease, time.monotonic())
            self._pump.under_way.add(page_fetch)
            try:
                return self._request(page_fetch)
            except Exception:  # a user's Request of an earlier run; the code has changed since
                logger.exception("The request of %s cannot be restored", page_fetch.lease.url)
                self.finish(page_fetch, Dropped("unreadable"))
        return None if self._gate.is_shut else self._users.take_aside()

    def enqueue_request(self, request: Request) -> bool:
        """Queue a user's own Request. False if it is out of scope, not a URL, or a duplicate.

        The frontier drops duplicates of links later.
        """
        request = self._as_users(request)
        url = canonicalize(request.url) if is_of_the_web(request) else ""
        if url is None or (url and self._outlinks.refuses(url, host_of(url))):
            return False
        by_url = bool(url) and is_plain(request)  # the URL-seen test finds its duplicates
        if not by_url and self._users.is_seen(request):
            return False
        if url:
            force = request.dont_filter or not by_url
            link = self._users.link(request, url)
            if self.frontier.shared and self._users.keeps(link):
                self._refuse(request, link)
                return False
            self._pump.outbox.put(link, force=force)
            self._pump.wake()
        else:
            self._users.put_aside(request)
        return True

    def _as_users(self, request: Request) -> Request:
        """`request` without the lease of another Request that it was made from.

        It was made from another if a middleware returned it in place of that one, or if a callback
        copied the meta of that one.
        """
        before = replaced_by(request, self._crawler.engine)
        page_fetch = page_fetch_of(before or request)
        if request.errback == self._errback:
            request.errback = page_fetch.errback if page_fetch is not None else None
        if page_fetch is not None and before is not None:
            self.finish(page_fetch, replaced(before))
        return strip(request)

    def _refuse(self, request: Request, link: Link) -> None:
        """Drop a user's Request that cannot be pickled: another process may lease it."""
        if not self.counters.dropped["unserialisable"]:
            logger.error("CRAWL_PROCESSES: %s cannot be pickled, and is dropped", request)
        self.counters.dropped["unserialisable"] += 1
        self._users.ended(link)

    # Called by the spider and for page fetches

    async def put_seeds(self, urls: Iterable[str]) -> tuple[int, int]:
        """Put canonical URLs as seeds: how many were new, and how many in scope."""
        seeds = self._outlinks.of_seeds(urls)
        try:
            accepted = await self.frontier.put(seeds, time.monotonic())
        except StoreError:  # the pump logs it and ends the crawl
            self._pump.wake()
            raise CloseSpider("frontier_error") from None
        self._pump.wake()
        return accepted, len(seeds)

    async def page_found(self, page_fetch: PageFetch, page: Page) -> bool:
        """The spider yielded `page`: keep its outlinks until the page fetch ends.

        Yields to the event loop between slices, since a page may have 750,000 links. False if the
        crawl must end before all are kept: then the next run fetches the page again.
        """
        link, counters = page_fetch.link, self.counters
        counters.links += page.links_found
        page_fetch.page = page
        if page.status in self._policy.retry_codes and page.exchange is not None:
            again_s = asked_to_wait_s(page.exchange)
            page.superseded = self._policy.asks_again(page.status, link.retries, again_s)
        if 200 <= page.status < 300 and not page.wall:
            counters.html_pages += 1
            counters.html_bytes += page.size_bytes
        if page.requisites and not (page.noarchive and self._obeys_noarchive):
            page_fetch.requisites += tuple(self._outlinks.of_requisites(page.requisites, link))
        if not self._follow or page.near_duplicate_of:
            return True
        if page.redirect_to:
            moved = self._outlinks.of_redirect(page.redirect_to, link)
            if moved is not None:
                page_fetch.links.append(moved)
        step = urls_at_a_time(page.links)
        page_fetch.links += self._outlinks.of_page(page.links[:step], link)
        for start in range(step, len(page.links), step):
            async with self._slices:
                await asyncio.sleep(0)
                if self._pump.is_cut:
                    page_fetch.unarchived = True
                    return False
                urls = page.links[start : start + step]
                page_fetch.links += self._outlinks.of_page(urls, link)
        return True

    def leads_on(self, link: Link) -> bool:
        """Whether DEPTH_LIMIT, or a rule's, lets the links of the page of `link` be followed."""
        return self._policy.refuses_way(replace(link, depth=link.depth + 1)) != "depth"

    def finish(self, page_fetch: PageFetch, outcome: Outcome) -> None:
        """Release the lease of `page_fetch` with `outcome`. Only the first call counts."""
        if page_fetch.done:
            return
        page_fetch.end()
        if isinstance(outcome, Fetched):
            counters = self.frontier.counters
            counters.page_bytes += outcome.size_bytes
            counters.fetch_s += outcome.took_s
            counters.count_stage("page", outcome.took_s)
        link = page_fetch.link
        if link.payload and not self.comes_again(link, outcome):
            self._users.ended(link)
        self._pump.end(page_fetch, outcome)

    def comes_again(self, link: Link, outcome: Outcome) -> bool:
        """Whether a user's own Request will be tried again after `outcome`."""
        match outcome:
            case Returned():
                return True
            case Failed(reason):
                return self._policy.tries_again(reason, link.retries)
            case Fetched(status):
                return self._policy.asks_again(status, link.retries, outcome.retry_after_s)
        return False

    def spider_opened(self) -> None:
        """A signal handler. The first moment at which a crawl can be ended with CloseSpider."""
        crawl_of(self._crawler).began_at = time.monotonic()
        self._crawled_before = self.counters.crawled
        self._robots_before = self.counters.robots.total()
        if self.problem:
            refuse(self._crawler, "frontier_error", self.problem)
        if problem := PageFetchMiddleware.hidden_in(self._crawler):
            refuse(self._crawler, "settings_error", problem)
        self._pump.start()

    def spider_idle(self) -> None:
        """A signal handler: no URL is left. If the target is not met, the end is bad_seed."""
        if self._is_unanswered():
            raise CloseSpider("no_answer")
        if self.frontier.crawled < self.frontier.goal:
            raise CloseSpider("bad_seed")

    def _is_unanswered(self) -> bool:
        """Whether no page was answered in this run, and at least one failed, or none in any run.

        False in a worker: only the first process has all counts. With several hubs: whether no hub
        has had an answer in any run, and one failed here.
        """
        if self.frontier.local is None:
            return False
        if build.hubs_from(self._crawler.settings) > 1 and self.frontier.crawled:
            return False
        seeds = self.frontier.local.failed_seeds
        failures = seeds or self._pump.had_outage or self.counters.kept.total()
        earlier = not self.counters.crawled and any(map(self.counters.dropped.get, REASONS))
        return bool(failures or earlier) and self.counters.crawled == self._crawled_before

    def _log_unanswered(self) -> None:
        """Make a run without any answered page an error, even if a user stopped it."""
        local = self.frontier.local
        seeds = (local and local.failed_seeds) or self._pump.failures[:FAILURES_MAX]
        named = ", ".join(f"{name} ({reason})" for name, reason in seeds)
        failed = f"the first seeds that failed: {named}"
        if not named:  # in earlier runs
            failed = f"dropped: {by_reason(self.counters.dropped)}"
        problem = f"not one page was answered in this run; {failed}"
        report_error(self._crawler, problem)

    def _log_urls_left(self) -> None:
        """Log how many URLs are kept or still queued, and whether the next run has them."""
        left = max(self.counters.pending, 0)
        if not left or build.is_worker(self._crawler) or self.problem:
            return
        jobdir = self._crawler.settings.get("JOBDIR")
        kept = by_reason(self.counters.kept)
        what = f"URLs that are left: {left}, of which kept for a later try: {kept}"
        if jobdir:
            logger.info("%s; the same command resumes with them", what)
        else:
            logger.warning("%s; they are lost with this run, which has no JOBDIR", what)

    def _request(self, page_fetch: PageFetch) -> Request:
        """The Request for a lease: a new one, or the user's own."""
        lease, link = page_fetch.lease, page_fetch.link
        if not link.payload:
            meta = {"depth": link.depth, "verbatim_url": True}  # the URL is canonical
            request = Request(lease.url, errback=self._errback, meta=meta, dont_filter=True)
        else:
            request = self._users.request(link)
            request.meta["depth"] = link.depth
            page_fetch.errback, request.errback = request.errback, self._errback
        return page_fetch.bind(request)

    def _errback(self, failure: Failure) -> Any:
        """A Request ended without an answer. For a page this is only counted.

        A user's own Request calls its errback, unless it will be tried again. Without an errback
        Scrapy logs the failure.
        """
        request: Request = failure.request  # type: ignore[attr-defined]
        page_fetch = page_fetch_of(request)
        if page_fetch is None:
            return None
        outcome = failed(page_fetch.lease, request, failure.value, time.monotonic())
        link = page_fetch.link
        if not link.payload:
            self.finish(page_fetch, outcome)
            return None
        again = self.comes_again(link, outcome)
        if isinstance(outcome, Failed) and not again:
            outcome = replace(outcome, final=True)
        self.finish(page_fetch, outcome)
        if again:
            return None
        return page_fetch.errback(failure) if page_fetch.errback is not None else failure


def _recorder(crawler: Crawler, counters: Counters) -> Callable[[Exchange], Awaitable[None]]:
    """Counts an admission's exchange, and sends it to the archive if it is a robots.txt.

    Deviation: answers to HEAD are not archived. A capture without a body would come before the page
    in an archive's index.
    """

    async def record(exchange: Exchange) -> None:
        counters.robots_bytes += exchange.size_bytes
        if exchange.method != "HEAD":
            await crawler.signals.send_catch_log_async(exchange_recorded, exchange=exchange)

    return record


def _log_wait(settings: BaseSettings) -> None:
    """Tell the user of a debugging command why the page takes a while."""
    if read(settings, "ROBOTSTXT_OBEY", bool):
        logger.info(
            "robots.txt is asked first, and the page %g s later (-s DOWNLOAD_DELAY=...), or when"
            " robots.txt says. Nothing is archived",
            read(settings, "DOWNLOAD_DELAY", float),
        )
