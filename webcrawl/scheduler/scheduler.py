"""Scrapy's scheduler interface on the frontier.

Scrapy asks synchronously; the frontier answers asynchronously and in batches. Between them stands a
small window of acquired leases. One task, the pump, refills it, gives finished leases back, puts
the links that were enqueued, and starts admissions. Besides it only `put_seeds` calls the frontier.

Invariants: pages leased and not released are at most this process's share of CONCURRENT_REQUESTS,
so Scrapy's downloader is never full. With CLOSESPIDER_PAGECOUNT only answers that have a place of
the target reach the spider (`scheduler.target`).
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Iterable
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

from webcrawl import openfiles
from webcrawl.admission.outage import Outage
from webcrawl.admission.runner import Admissions, broken
from webcrawl.config import build
from webcrawl.config.ignored import unused
from webcrawl.crawl.crawl import crawl_of, set_fatal_error
from webcrawl.crawl.outcomes import failed, replaced, replaced_by
from webcrawl.crawl.page_fetch import PageFetch, page_fetch_of, strip
from webcrawl.crawl.spidermiddleware import PageFetchMiddleware
from webcrawl.crawl.user_requests import UserRequests, is_of_the_web, is_plain
from webcrawl.fetch.exchange import Exchange
from webcrawl.frontier.base import TARGET_MET, Frontier, Policy
from webcrawl.frontier.candidates import FAILURES_MAX
from webcrawl.frontier.counters import Counters
from webcrawl.frontier.lease import Dropped, Failed, Fetched, Lane, Lease, Link, Outcome, Returned
from webcrawl.frontier.memory import MemoryFrontier
from webcrawl.frontier.outbox import Outbox, urls_at_a_time
from webcrawl.frontier.outlinks import Outlinks
from webcrawl.frontier.store import StoreError
from webcrawl.items import Page
from webcrawl.parse.urls import canonicalize, host_of
from webcrawl.report.lines import by_reason
from webcrawl.scheduler.target import Target
from webcrawl.signals import crawl_closing, exchange_recorded, fetches_cut

logger = logging.getLogger(__name__)

_LOOK_S = 0.25  # the pump's longest sleep, after which it looks whether the engine is closing
_ORPHANS_S = 1.0  # interval of the search for leases without a Request in the engine
_NO_SOCKET_S = 0.5  # pause after a request found no socket
_WARN_S = 60.0  # at most one warning of that in so many seconds


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
        *,
        concurrency: int,
        admissions_max: int,
        target: int,
        follow: bool,
        grace_s: float,
    ) -> None:
        self._crawler = crawler
        self.frontier = frontier
        self._outlinks = outlinks
        self._policy = policy
        self._users = UserRequests(
            crawler,
            policy.retry_times,
            keep=build.is_debugging(crawler),  # `scrapy shell` sets the callback later
        )
        self._concurrency = concurrency
        self._admissions_max = admissions_max
        self._target = target
        self._follow = follow
        self._grace_s = grace_s
        self.problem = ""  # why the frontier could not be opened, or failed
        self._admissions: Admissions
        self._outage: Outage
        self._outage_s = 0.0  # seconds of outage that are counted already
        self._window: deque[Lease] = deque()
        self._page_fetches: set[PageFetch] = set()
        self._admitting: set[asyncio.Task[None]] = set()
        self._outbox = Outbox(frontier, outlinks.url_cache)
        self._under_way = 0
        self._goal = Target(frontier, self._outbox.placed, cuts_max=concurrency)
        self._changed = asyncio.Event()
        self._pump_task: asyncio.Task[None] | None = None
        self._end_task: asyncio.Task[None] | None = None
        self._crawled_before = self._robots_before = 0  # by earlier runs
        self._closing_at = 0.0
        self._no_socket_until = 0.0  # no lease is taken before
        self._warned_at = -math.inf  # when the last warning of that was logged
        self._orphans_at = 0.0  # when to search for orphans next

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = crawler.settings
        problem = ""
        try:
            frontier = build.frontier_from(settings)
        except StoreError as error:
            frontier, problem = MemoryFrontier(), str(error)
        scheduler = cls(
            crawler,
            frontier,
            build.outlinks_from(settings, frontier.counters.dropped),
            build.policy_from(settings),
            concurrency=build.share_of(settings, "CONCURRENT_REQUESTS"),
            admissions_max=build.share_of(settings, "CONCURRENT_ADMISSIONS"),
            target=settings.getint("CLOSESPIDER_PAGECOUNT"),
            follow=settings.getbool("FOLLOW_LINKS"),
            grace_s=settings.getfloat("CLOSE_GRACE"),
        )
        scheduler.problem = problem
        scheduler._admissions = build.admissions_from(
            settings, outlink=scheduler.redirect, record=scheduler.recorded
        )
        scheduler._outage = outage = scheduler._admissions.outage
        outage.changed = scheduler.wake
        outage.give_up = scheduler.give_up
        crawler.signals.connect(scheduler.spider_opened, signals.spider_opened)
        crawler.signals.connect(scheduler.spider_idle, signals.spider_idle)
        crawl = crawl_of(crawler)
        crawl.scheduler, crawl.admissions = scheduler, scheduler._admissions
        crawl.frontier = None if problem else frontier
        return scheduler

    @property
    def counters(self) -> Counters:
        return self.frontier.counters

    # Scrapy's interface

    def open(self, spider: Spider) -> None:
        """Log warnings about the settings and the frontier. `spider_opened` starts the pump."""
        if self.problem:
            return
        settings = self._crawler.settings
        if build.is_debugging(self._crawler):
            _say_wait(settings)
            return
        for line in unused(settings):
            logger.warning("%s", line)
        if settings.get("JOBDIR") and settings["FRONTIER_STORE"] == "memory":
            logger.warning("JOBDIR: this crawl cannot be resumed, FRONTIER_STORE is 'memory'")
        for warning in self.frontier.warnings:
            logger.warning("JOBDIR: %s", warning)
        if self.frontier.resumed:
            counters = self.counters
            logger.info("Resumes with %d URLs, after %d pages", counters.pending, counters.crawled)

    def close(self, reason: str) -> Deferred[None]:
        silent = self.counters.robots.total() == self._robots_before or reason == "no_answer"
        if silent and self._is_unanswered():
            self._say_unanswered()
        elif reason == "outage":
            set_fatal_error(self._crawler, "our own network was out for longer than OUTAGE_TIMEOUT")
        self._say_left()
        return deferred_from_coro(self._close())

    def has_pending_requests(self) -> bool:
        here = self._outbox or self._users
        return bool(here) or not self.frontier.is_finished()

    def next_request(self) -> Request | None:
        while self._window and not self._outage.is_on:
            page_fetch = PageFetch(self._window.popleft(), time.monotonic())
            self._page_fetches.add(page_fetch)
            try:
                return self._request(page_fetch)
            except Exception:  # a user's Request of an earlier run; the code has changed since
                logger.exception("The request of %s cannot be restored", page_fetch.lease.url)
                self.finish(page_fetch, Dropped("unreadable"))
        return self._users.take_aside()

    def enqueue_request(self, request: Request) -> bool:
        """Take a user's own Request; False if it is out of scope, not a URL, or a duplicate.

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
            self._outbox.put(link, force=force)
            self._changed.set()
        else:
            self._users.put_aside(request)
        return True

    def _as_users(self, request: Request) -> Request:
        """`request` without the lease of another one that it was made of.

        A middleware puts it in the place of that one, or a callback copied that one's meta.
        """
        before = replaced_by(request, self._crawler.engine)
        page_fetch = page_fetch_of(before or request)
        if request.errback == self._errback:
            request.errback = page_fetch.errback if page_fetch is not None else None
        if page_fetch is not None and before is not None:
            self.finish(page_fetch, replaced(request))
        return strip(request)

    def _refuse(self, request: Request, link: Link) -> None:
        """Drop a user's Request that cannot be pickled: another process may lease it."""
        if not self.counters.dropped["unserialisable"]:
            logger.error("CRAWL_PROCESSES: %s cannot be pickled, and is dropped", request)
        self.counters.dropped["unserialisable"] += 1
        self._users.ended(link)

    # Called by the spider and for page fetches

    async def put_seeds(self, urls: Iterable[str]) -> int:
        """Put canonical URLs as seeds; the number of those that were new and in scope."""
        try:
            accepted = await self.frontier.put(self._outlinks.of_seeds(urls), time.monotonic())
        except StoreError:  # the pump logs it and ends the crawl
            self._changed.set()
            raise CloseSpider("frontier_error") from None
        self._changed.set()
        return accepted

    async def page_found(self, page_fetch: PageFetch, page: Page) -> None:
        """The spider yielded `page`: keep its outlinks until the page fetch ends.

        Yields to the event loop between slices, since a page may have 750,000 links.
        """
        link = page_fetch.lease.link
        assert link is not None
        counters = self.counters
        counters.links += page.links_found
        page_fetch.duplicate_of = page.duplicate_of
        if 200 <= page.status < 300:
            counters.html_pages += 1
            counters.html_bytes += page.size_bytes
        if not self._follow:
            return
        if page.redirect_to:
            moved = self.redirect(page.redirect_to, link)
            if moved is not None:
                page_fetch.links.append(moved)
        step = urls_at_a_time(page.links)
        page_fetch.links += self._outlinks.of_page(page.links[:step], link)
        for start in range(step, len(page.links), step):
            await asyncio.sleep(0)
            urls = page.links[start : start + step]
            page_fetch.links += self._outlinks.of_page(urls, link)

    def redirect(self, url: str, link: Link) -> Link | None:
        """The link that a redirect from `link` to the canonical `url` makes, if it is in scope."""
        return self._outlinks.of_redirect(url, link) if self._follow else None

    def finish(self, page_fetch: PageFetch, outcome: Outcome) -> None:
        """Give the lease of `page_fetch` back; only the first call counts."""
        if page_fetch.done:
            return
        page_fetch.end()
        self._page_fetches.discard(page_fetch)
        if isinstance(outcome, Fetched):
            self.counters.page_bytes += outcome.size_bytes
            self.counters.fetch_s += outcome.took_s
        link = page_fetch.lease.link
        assert link is not None
        if link.payload and not self.comes_again(link, outcome):
            self._users.ended(link)
        was_cut = self._goal.ended(page_fetch)
        if was_cut and isinstance(outcome, Returned) and not self._closing_at:
            self._goal.held_back.append((page_fetch.lease, outcome))
            self._changed.set()
            return
        self._give_back(page_fetch.lease, outcome)

    def _give_back(self, lease: Lease, outcome: Outcome) -> None:
        self._outbox.release(lease, outcome)
        if isinstance(outcome, Returned) and outcome.reason == "no_socket":
            self._pause()
        self._changed.set()

    def _pause(self) -> None:
        """Take no lease for a moment, in which other sockets may be closed."""
        now = time.monotonic()
        self._no_socket_until = now + _NO_SOCKET_S
        if now >= self._warned_at + _WARN_S:
            self._warned_at = now
            logger.warning(
                "No socket left for a request, of %d open files: its URL is queued again. "
                "Raise the limit (ulimit -n), or lower CONCURRENT_REQUESTS",
                openfiles.plan().limit,
            )

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

    def counts(self, page_fetch: PageFetch) -> bool:
        """Whether the answer to `page_fetch` has a place of the target, or gets one now."""
        return self._goal.counts(page_fetch, time.monotonic())

    async def wait_to_count(self, page_fetch: PageFetch) -> bool:
        """Wait until the answer to `page_fetch` counts; False if it will not."""
        while not self.counts(page_fetch):
            if self._closing_at:
                return False
            await self._goal.wait()
        return True

    async def recorded(self, exchange: Exchange) -> None:
        """Count an admission's exchange, and send it to the archive if it is a robots.txt.

        Deviation: answers to HEAD are not archived. A capture without a body would come before the
        page in an archive's index.
        """
        self.counters.robots_bytes += len(exchange.head) + len(exchange.body)
        if exchange.method != "HEAD":
            await self._crawler.signals.send_catch_log_async(exchange_recorded, exchange=exchange)

    def spider_opened(self) -> None:
        """A signal handler. The first moment at which a crawl can be ended with CloseSpider."""
        self._crawled_before = self.counters.crawled
        self._robots_before = self.counters.robots.total()
        if self.problem:
            set_fatal_error(self._crawler, f"JOBDIR: {self.problem}")
            logger.error("JOBDIR: %s", self.problem)
            raise CloseSpider("frontier_error")
        if problem := PageFetchMiddleware.missing_in(self._crawler):  # the broad spider refuses it
            logger.warning("%s", problem)
        if problem := PageFetchMiddleware.hidden_in(self._crawler):
            set_fatal_error(self._crawler, problem)
            logger.error("%s", problem)
            raise CloseSpider("settings_error")
        self._pump_task = asyncio.create_task(self._pump())

    def spider_idle(self) -> None:
        """A signal handler: no URL is left. Before the target is met that is a bad seed."""
        if self._is_unanswered():
            raise CloseSpider("no_answer")
        if self.counters.crawled < self._target:
            raise CloseSpider("bad_seed")

    def _is_unanswered(self) -> bool:
        """Whether no page was answered in this run, and at least one failed.

        False in a worker: only the main process has all counts.
        """
        if build.is_worker(self._crawler.settings):
            return False
        failures = self.frontier.failed_seeds or self._outage_s or self.counters.kept.total()
        return bool(failures) and self.counters.crawled == self._crawled_before

    def _say_unanswered(self) -> None:
        """Make a run without any answered page an error, also one that a user stopped."""
        seeds = [*self.frontier.failed_seeds] or self._outage.failures[:FAILURES_MAX]
        failed = ", ".join(f"{name} ({reason})" for name, reason in seeds)
        problem = f"not one page was answered in this run; the first seeds that failed: {failed}"
        set_fatal_error(self._crawler, problem)
        logger.error("%s", problem)

    def _say_left(self) -> None:
        """Log what becomes of the URLs that are kept or still queued."""
        left = max(self.counters.pending, 0)
        if not left or build.is_worker(self._crawler.settings) or self.problem:
            return
        jobdir = self._crawler.settings.get("JOBDIR")
        kept = by_reason(self.counters.kept)
        what = f"URLs that are left: {left}, of which kept for a later try: {kept}"
        if jobdir:
            logger.info("%s; the same command goes on with them", what)
        else:
            logger.warning("%s; they are lost with this run, which has no JOBDIR", what)

    # The pump

    def wake(self) -> None:
        """Have the pump turn now."""
        self._changed.set()

    def give_up(self) -> None:
        """The network does not come back: end the crawl, and keep all its URLs queued."""
        logger.error("The network does not come back: the crawl ends")
        self._close_spider("outage")

    async def _pump(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while True:
                self._changed.clear()
                timer = loop.call_later(await self._turn(), self._changed.set)
                await self._changed.wait()
                timer.cancel()
        except Exception as error:
            self._report(error)
            self._close_spider("frontier_error")
            await asyncio.sleep(0)  # until the engine is closing
            self._crawler.signals.send_catch_log(fetches_cut)  # their leases cannot be released

    async def _turn(self) -> float:
        """One turn of the pump; seconds until there may be more to do."""
        now = time.monotonic()
        await self._outbox.deliver(now)
        if self._outbox:  # the rest of a large page, or new entries
            self._changed.set()
            await asyncio.sleep(0)
        slot = self._crawler.engine._slot
        if slot is None or slot.closing is not None:
            self._wind_down(now)
            return _LOOK_S
        if self._target and self.frontier.is_met:
            self._close_spider(TARGET_MET)
            await asyncio.sleep(0)
            return 0.0
        if now >= self._orphans_at:
            self._orphans_at = now + _ORPHANS_S
            self._drop_orphans(slot.inprogress)
        self._count_outage()
        if not self._page_fetches and not self._window:
            self._give_held_back()
        wait_s = _LOOK_S
        if now >= self._no_socket_until and not self._outage.is_on:
            wait_s = min(wait_s, await self._refill(now), await self._admit(now))
        self._count_under_way(len(self._page_fetches) + self._admissions.client.active)
        if self._window or self.frontier.is_finished():
            self._wake_engine()
        return wait_s

    async def _refill(self, now: float) -> float:
        """Fill the window; seconds until a host may be ready for it."""
        room = max(self._concurrency - len(self._page_fetches) - len(self._window), 0)
        slow = self._goal.slow(self._page_fetches, now) if self.frontier.is_short else []
        if room == 0 and slow:
            urls = self._goal.cut(slow)
            self._crawler.signals.send_catch_log(fetches_cut, urls=urls)
        if room == 0 and not self._goal.is_waited_for:
            return _LOOK_S
        spare = len(slow) + len(self._goal.held_back)
        leases = await self.frontier.acquire_pages(now, room, spare)
        self._window.extend(leases)
        self._goal.wake(everyone=bool(self._closing_at))
        return _LOOK_S if len(leases) == room else self.frontier.next_at() - now

    def _give_held_back(self) -> None:
        for lease, outcome in self._goal.take_held_back():
            self._outbox.release(lease, outcome)

    async def _admit(self, now: float) -> float:
        """Start admissions; seconds until a host may be ready for one."""
        room = self._admissions_max - len(self._admitting)
        if room <= 0:
            return _LOOK_S
        ready_at = self.frontier.next_at(Lane.ADMISSIONS)
        if ready_at > now:  # so there are none, without a call
            return ready_at - now
        leases = await self.frontier.acquire(now, room, Lane.ADMISSIONS)
        for lease in leases:
            task = asyncio.create_task(self._run_admission(lease))
            self._admitting.add(task)
            task.add_done_callback(self._admitting.discard)
        return _LOOK_S if len(leases) == room else self.frontier.next_at(Lane.ADMISSIONS) - now

    def _count_outage(self) -> None:
        """Update the counter of the seconds that our network was out."""
        outage_s = self._outage.seconds
        self.counters.outage_s += outage_s - self._outage_s
        self._outage_s = outage_s

    def _count_under_way(self, fetches: int) -> None:
        """Update this process's part of the counter of fetches under way."""
        self.counters.under_way += fetches - self._under_way
        self._under_way = fetches

    async def _run_admission(self, lease: Lease) -> None:
        outcome: Outcome = Returned()  # if it is cancelled
        try:
            outcome = await self._admissions.run(lease)
        except Exception:
            logger.exception("Error in the admission of %s", lease.url or lease.host)
            outcome = broken(lease, time.monotonic())
        finally:
            self._give_back(lease, outcome)

    def _drop_orphans(self, in_engine: set[Request]) -> None:
        """Give back the leases of Requests that a middleware has replaced by another."""
        for page_fetch in [
            page_fetch for page_fetch in self._page_fetches if page_fetch.request not in in_engine
        ]:
            self.finish(page_fetch, Dropped("replaced", *(time.monotonic(),) * 2))

    # The end

    def _wind_down(self, now: float) -> None:
        """The engine is closing: take no new lease, and cut fetches after CLOSE_GRACE."""
        if not self._closing_at:
            self._closing_at = now
            self._crawler.signals.send_catch_log(crawl_closing)
            self._count_outage()
            self._outage.close()
            for lease in self._window:
                self._outbox.release(lease, Returned())
            self._window.clear()
            self._give_held_back()
            for task in self._admitting:
                task.cancel()
        self._goal.wake(everyone=True)
        if self.frontier.is_met or now >= self._closing_at + self._grace_s:
            self._crawler.signals.send_catch_log(fetches_cut)
        if now >= self._closing_at + self._grace_s:
            self._settle_page_fetches()

    def _settle_page_fetches(self) -> None:
        """Wake page fetches that wait for items, if no item is left in the pipelines."""
        slot = self._crawler.engine.scraper.slot
        if slot is None or not slot.itemproc_size:
            for page_fetch in self._page_fetches:
                page_fetch.settle()

    async def _close(self) -> None:
        if self._pump_task is not None:
            self._pump_task.cancel()
        for task in self._admitting:
            task.cancel()
        await asyncio.gather(*self._admitting, return_exceptions=True)
        self._count_under_way(0)
        self._wind_down(time.monotonic())
        try:
            while self._outbox:
                await self._outbox.deliver(time.monotonic())
            await self.frontier.close()
        except Exception as error:
            self._report(error)
        await self._admissions.close()

    def _report(self, error: Exception) -> None:
        """Log once why the frontier failed: a full disk in one line, our own fault in full."""
        if not self.problem:
            self.problem = str(error)
            set_fatal_error(self._crawler, self.problem)
            ours = None if isinstance(error, StoreError) else error
            logger.error("The frontier failed: %s", error, exc_info=ours)

    # Scrapy's engine

    def _wake_engine(self) -> None:
        """Have the engine ask again now; after a None it would wait for its 5 s heartbeat."""
        slot = self._crawler.engine._slot
        if slot is not None:
            slot.nextcall.schedule()

    def _close_spider(self, reason: str) -> None:
        if self._end_task is None:
            coro = self._crawler.engine.close_spider_async(reason=reason)
            self._end_task = asyncio.create_task(coro)

    def _request(self, page_fetch: PageFetch) -> Request:
        """The Request for a lease: a new one, or the user's own."""
        lease, link = page_fetch.lease, page_fetch.lease.link
        assert link is not None
        if not link.payload:
            meta = {"depth": link.depth, "verbatim_url": True}  # the URL is canonical
            request = Request(lease.url, errback=self._errback, meta=meta, dont_filter=True)
        else:
            request = self._users.request(link)
            request.meta["depth"] = link.depth
            page_fetch.errback, request.errback = request.errback, self._errback
        return page_fetch.made(request)

    def _errback(self, failure: Failure) -> Any:
        """A Request ended without an answer. For a page that is counted and no more.

        A user's own Request calls its errback, unless it will be tried again. Without an errback
        Scrapy logs the failure.
        """
        request: Request = failure.request  # type: ignore[attr-defined]
        page_fetch = page_fetch_of(request)
        if page_fetch is None:
            return None
        outcome = failed(page_fetch.lease, request, failure.value, time.monotonic())
        link = page_fetch.lease.link
        assert link is not None
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


def _say_wait(settings: BaseSettings) -> None:
    """Tell the user of a debugging command why it takes a moment."""
    if settings.getbool("ROBOTSTXT_OBEY"):
        logger.info(
            "robots.txt is asked first, and the page %g s later (-s DOWNLOAD_DELAY=...), or when"
            " robots.txt says. Nothing is archived",
            settings.getfloat("DOWNLOAD_DELAY"),
        )
