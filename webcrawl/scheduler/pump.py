"""The pump: the one task that moves leases between the frontier and Scrapy's engine.

In each turn it hands new links and finished leases to the frontier, fills the window of acquired
leases, starts admissions, and wakes the engine. When the engine is closing, the pump takes no new
lease and ends the fetches under way.

Invariants: pages leased and not released are at most `concurrency`; nothing is leased while the
crawl is paused, while our own network is out, or while no socket is left. In an outage no lease
waits here that another process may fetch.
"""

from __future__ import annotations

import asyncio
import logging
import math
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable

from scrapy import Request
from scrapy.crawler import Crawler

from webcrawl.admission.outage import MANY
from webcrawl.admission.runner import Admissions, broken
from webcrawl.base import openfiles
from webcrawl.config.build import CLOSE_GRACE_S
from webcrawl.crawl import scrapy_private
from webcrawl.crawl.crawl import crawl_of, end_crawl, set_fatal_error
from webcrawl.crawl.page_fetch import PageFetch
from webcrawl.frontier.base import TARGET_MET, Frontier
from webcrawl.frontier.lease import Dropped, Fetched, Lane, Lease, Outcome, Returned, Step
from webcrawl.frontier.outbox import Outbox
from webcrawl.frontier.store import StoreError
from webcrawl.scheduler.target import SlowPages
from webcrawl.signals import crawl_closing, fetches_cut

logger = logging.getLogger(__name__)

_STAGES = {
    Step.RESOLVE: "dns",
    Step.ROBOTS: "robots",
    Step.HEAD: "head",
    Step.SITEMAP: "robots",  # files beside the pages
    Step.REQUISITE: "robots",
}
_POLL_S = 0.25  # longest pause between two turns: each checks whether the engine is closing
# How long a thread that runs Python code, as for a large robots.txt, makes the event loop wait at
# each turn. With Python's default, 5 ms, hosts got 1.5 times fewer pages beside such a thread.
_SWITCH_S = 0.0005
_LOOKS_S = 1.0  # interval of the looks for leases without a Request in the engine, and for outages
_NO_SOCKET_S = 0.5  # pause after a request found no socket
_WARN_S = 60.0  # least time between two warnings of missing sockets


class Pump:
    """Moves leases in both directions, in one task.

    concurrency -- pages under way at most, and as many admissions, half of them of requisites
    """

    def __init__(
        self,
        crawler: Crawler,
        frontier: Frontier,
        admissions: Admissions,
        outbox: Outbox,
        *,
        concurrency: int,
    ) -> None:
        self.outbox = outbox
        self.under_way: set[PageFetch] = set()
        self._slow = SlowPages(cuts_max=concurrency)
        self.problem = ""  # why the frontier failed
        self.on_orphan: Callable[[PageFetch, Outcome], None] = self.end
        self._crawler = crawler
        self._frontier = frontier
        self._admissions = admissions
        self._gate = crawl_of(crawler).gate
        self._outage = admissions.outage
        self._outage.changed = self._outage_changed
        self._outage.give_up = self._give_up
        self._concurrency = concurrency
        self._window: deque[Lease] = deque()
        self._epoch = 0  # leases that were asked for in an earlier epoch are given back
        self._admitting: dict[Lease, asyncio.Task[None]] = {}
        self._requisites: set[Lease] = set()  # those of its leases that are of that lane
        self._stages = frontier.counters.stage_under_way
        self._pages_counted = 0  # this process's part of `stage_under_way`
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._suspicion: asyncio.Task[bool] | None = None  # of an outage
        self._closing_at = 0.0  # when closing began; 0.0 before
        self._fetches_counted = 0  # this process's part of `counters.under_way`
        self._outage_counted_s = 0.0  # its part of `counters.outage_s`
        self._no_socket_until = 0.0  # no lease is taken before this time
        self._warned_at = -math.inf  # when the last warning of missing sockets was logged
        self._looks_at = 0.0  # when to look for orphans and for an outage next

    def start(self) -> None:
        sys.setswitchinterval(_SWITCH_S)
        self._task = asyncio.create_task(self._run())

    def wake(self) -> None:
        """Make the pump run its next turn now."""
        self._changed.set()

    @property
    def is_closing(self) -> bool:
        return self._closing_at > 0

    @property
    def is_cut(self) -> bool:
        """Whether the crawl is closing, and CLOSE_GRACE_S is over."""
        return self.is_closing and time.monotonic() >= self._closing_at + CLOSE_GRACE_S

    @property
    def had_outage(self) -> bool:
        """Whether our own network was out in this run, as far as it is counted."""
        return self._outage_counted_s > 0

    @property
    def failures(self) -> list[tuple[str, str]]:
        """Hosts that did not answer, and the reasons, from the outage detection."""
        return self._outage.failures

    def next_lease(self) -> Lease | None:
        """The next lease whose Request may be sent now."""
        if not self._window or self._gate.is_shut or self._outage.is_on:
            return None
        return self._window.popleft()

    def leased_urls(self) -> set[str]:
        """The URLs of leases whose requests are begun, sent or not."""
        pages = {page_fetch.lease.url for page_fetch in self.under_way}
        return pages | {lease.url for lease in self._admitting}

    def give_back_window(self) -> None:
        """Give all leases back whose request is not begun, also those that are on their way here.

        The frontier judges their URLs again before it leases them again.
        """
        self._epoch += 1
        self._release_unused([*self._window, *self._frontier.withdraw()])
        self._window.clear()
        self._changed.set()

    def _release_unused(self, leases: Iterable[Lease]) -> None:
        for lease in leases:
            self.outbox.release(lease, Returned())

    def end(self, page_fetch: PageFetch, outcome: Outcome) -> None:
        """Release the lease of `page_fetch`."""
        self.under_way.discard(page_fetch)
        if isinstance(outcome, Fetched):
            self._slow.answered(outcome.took_s)
        self._give_back(page_fetch.lease, outcome)

    def _give_back(self, lease: Lease, outcome: Outcome) -> None:
        self.outbox.release(lease, outcome)
        if isinstance(outcome, Returned) and outcome.reason == "no_socket":
            self._pause()
        self._changed.set()

    def _pause(self) -> None:
        """Take no lease for _NO_SOCKET_S seconds: other sockets may be closed meanwhile."""
        now = time.monotonic()
        self._no_socket_until = now + _NO_SOCKET_S
        if now >= self._warned_at + _WARN_S:
            self._warned_at = now
            logger.warning(
                "No socket left for a request, of %d open files: its URL is queued again. "
                "Raise the limit (ulimit -n), or lower CONCURRENT_REQUESTS",
                openfiles.plan().limit,
            )

    def _outage_changed(self) -> None:
        if self._outage.is_on and self._frontier.shared:  # other processes may have a network
            self.give_back_window()
        self.wake()

    def _give_up(self) -> None:
        """The outage lasts too long: end the crawl, and keep all its URLs queued."""
        logger.error("The outage has lasted for six hours: the crawl ends")
        end_crawl(self._crawler, "outage")

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while True:
                self._changed.clear()
                timer = loop.call_later(await self._turn(), self._changed.set)
                await self._changed.wait()
                timer.cancel()
        except Exception as error:
            self._report(error)
            end_crawl(self._crawler, "frontier_error")
            await asyncio.sleep(0)  # until the engine is closing
            self._crawler.signals.send_catch_log(fetches_cut)  # their leases cannot be released

    async def _turn(self) -> float:
        """One turn of the pump; seconds until there may be more to do."""
        now = time.monotonic()
        await self.outbox.deliver(now)
        if self.outbox:  # the rest of a large page, or new entries
            self._changed.set()
            await asyncio.sleep(0)
        engine = self._crawler.engine
        if scrapy_private.is_closing(engine):
            self._count_under_way(len(self.under_way), self._admissions.client.active)
            self._wind_down(now)
            return _POLL_S
        if self._frontier.is_met:
            end_crawl(self._crawler, TARGET_MET)
            await asyncio.sleep(0)
            return 0.0
        if now >= self._looks_at:
            self._looks_at = now + _LOOKS_S
            self._look_for_outage(now)
            self._drop_orphans(scrapy_private.requests_under_way(engine))
        self._count_outage()
        wait_s = _POLL_S
        if now >= self._no_socket_until and not (self._outage.is_on or self._gate.is_shut):
            wait_s = min(wait_s, await self._refill(now), await self._admit(now))
            if self._frontier.has_requisites:
                wait_s = min(wait_s, await self._admit(now, Lane.REQUISITES))
        self._count_under_way(len(self.under_way), self._admissions.client.active)
        if self._window or self._frontier.is_finished():
            scrapy_private.wake(engine)
        return wait_s

    async def _refill(self, now: float) -> float:
        """Fill the window; seconds until a host may be ready for it."""
        room = max(self._concurrency - len(self.under_way) - len(self._window), 0)
        if self._frontier.has_spare and (urls := self._slow.cut(self.under_way, now)):
            self._crawler.signals.send_catch_log(fetches_cut, urls=urls)
        if room == 0:
            return _POLL_S
        epoch = self._epoch
        leases = await self._frontier.acquire(now, room)
        if epoch == self._epoch:
            self._window.extend(leases)
        else:
            self._release_unused(leases)
        return _POLL_S if len(leases) == room else self._frontier.next_at() - now

    async def _admit(self, now: float, lane: Lane = Lane.ADMISSIONS) -> float:
        """Start admissions of `lane`; seconds until a host may be ready for one."""
        if lane is Lane.REQUISITES:
            room = max(self._concurrency // 2, 1) - len(self._requisites)
        else:
            room = self._concurrency - len(self._admitting)
        if room <= 0:
            return _POLL_S
        ready_at = self._frontier.next_at(lane)
        if ready_at > now:  # no host is ready: saves the call
            return ready_at - now
        epoch = self._epoch
        leases = await self._frontier.acquire(now, room, lane)
        if epoch != self._epoch:
            self._release_unused(leases)
            return 0.0
        loop = asyncio.get_running_loop()
        for lease in leases:
            self._admitting[lease] = loop.create_task(self._run_admission(lease))
        if lane is Lane.REQUISITES:
            self._requisites.update(leases)
        return _POLL_S if len(leases) == room else self._frontier.next_at(lane) - now

    def _count_outage(self) -> None:
        """Update the counter of the seconds that our network was out."""
        outage_s = self._outage.seconds
        self._frontier.counters.outage_s += outage_s - self._outage_counted_s
        self._outage_counted_s = outage_s

    def _count_under_way(self, pages: int, others: int) -> None:
        """Update this process's part of the counters of fetches under way."""
        fetches = pages + others
        self._frontier.counters.under_way += fetches - self._fetches_counted
        self._fetches_counted = fetches
        self._stages["page"] += pages - self._pages_counted
        self._pages_counted = pages

    async def _run_admission(self, lease: Lease) -> None:
        outcome: Outcome = Returned()  # if a look-up is cancelled
        stage, began_at = _STAGES[lease.step], time.monotonic()
        self._stages[stage] += 1
        try:
            outcome = await self._admissions.run(lease)
        except asyncio.CancelledError:
            if lease.step is not Step.RESOLVE:  # the server may have been asked until now
                outcome = Returned(now := time.monotonic(), now)
            raise
        except Exception:
            logger.exception("Error in the admission of %s", lease.url or lease.host)
            outcome = broken(lease, time.monotonic())
        finally:
            del self._admitting[lease]
            if self._requisites:
                self._requisites.discard(lease)
            self._stages[stage] -= 1
            self._frontier.counters.count_stage(stage, time.monotonic() - began_at)
            self._give_back(lease, outcome)

    def _look_for_outage(self, now: float) -> None:
        """Let a page fetch that is under way count as failed if all servers are silent."""
        if self._outage.is_on or self._gate.is_shut or len(self.under_way) < MANY:
            return
        if self._outage.is_silent(now):
            waiting = next(iter(self.under_way)).lease
            look = self._outage.is_ours_for_server(waiting.host, waiting.address, waiting.url)
            self._suspicion = asyncio.create_task(look)

    def _drop_orphans(self, in_engine: set[Request]) -> None:
        """Give back the leases of Requests that a middleware has replaced by another."""
        now = time.monotonic()
        for orphan in [each for each in self.under_way if each.request not in in_engine]:
            self.on_orphan(orphan, Dropped("replaced", now, now))

    # The end

    def _wind_down(self, now: float) -> None:
        """The engine is closing: take no new lease, and cut fetches after CLOSE_GRACE_S."""
        if not self.is_closing:
            self._closing_at = now
            crawl_of(self._crawler).is_closing = True
            self._crawler.signals.send_catch_log(crawl_closing)
            self._count_outage()
            self._outage.close()
            self._gate.end()
            self.give_back_window()
            self._cancel_admissions()
        if self._frontier.is_met or self.is_cut:
            self._crawler.signals.send_catch_log(fetches_cut)
        if self.is_cut:
            self.outbox.give_back_large()
            self._wake_page_fetches()

    def _wake_page_fetches(self) -> None:
        """Wake page fetches that wait for their items, if no item is left in the pipelines."""
        if not scrapy_private.has_items_in_pipelines(self._crawler.engine):
            for page_fetch in self.under_way:
                page_fetch.wake()

    def _cancel_admissions(self) -> None:
        for lease, task in self._admitting.items():
            if lease not in self._admissions.answers:
                task.cancel()

    async def end_admissions(self) -> None:
        """Cut off those that are not answered; return once the others are done."""
        self._wind_down(time.monotonic())  # none begins from now on
        self._cancel_admissions()
        self._crawler.signals.send_catch_log(fetches_cut)  # sitemaps are not read any more
        await asyncio.gather(*self._admitting.values(), return_exceptions=True)

    async def close(self) -> None:
        """Stop, hand all links and leases over, then close the frontier and the admissions."""
        for each in (self._task, self._suspicion):
            if each is not None:
                each.cancel()
        await self.end_admissions()
        self._count_under_way(0, 0)
        try:
            while self.outbox:
                if self.is_cut:
                    self.outbox.give_back_large()
                await self.outbox.deliver(time.monotonic())
                await asyncio.sleep(0)
            await self._frontier.close()
        except Exception as error:
            self._report(error)
        await self._admissions.close()

    def _report(self, error: Exception) -> None:
        """Log the first failure of the frontier: a full disk in one line, a bug with traceback."""
        if not self.problem:
            self.problem = str(error)
            set_fatal_error(self._crawler, self.problem)
            ours = None if isinstance(error, StoreError) else error
            logger.error("The frontier failed: %s", error, exc_info=ours)
