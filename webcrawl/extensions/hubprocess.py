"""This process among all hubs: what the other hubs ask of it, and commands for the whole crawl.

A command of OF_ALL is carried out by hub 0, for itself as in a crawl with one hub; then all others
obey. An answer says for which hubs it holds.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, cast

from msgspec import msgpack
from scrapy.crawler import Crawler

from webcrawl.base.wording import counted
from webcrawl.cluster.steering import OF_ALL
from webcrawl.cluster.whole import WholeCrawl
from webcrawl.crawl.crawl import crawl_of
from webcrawl.crawl.scrapy_private import reads_seeds
from webcrawl.frontier.buckets import hub_of
from webcrawl.hub.wire import Orders, SteeringError
from webcrawl.live.livecrawl import RefusalError
from webcrawl.parse.urls import canonicalize, host_of
from webcrawl.report.lines import hubs_text
from webcrawl.scope.hostrules import HostRule

if TYPE_CHECKING:
    from webcrawl.extensions.steering import SteeringExtension
    from webcrawl.hub.server import FrontierServer

logger = logging.getLogger(__name__)

# Characters of all entries that were added: one letter has them all (`cluster.peers.LETTER_BYTES`).
ENTRIES_MAX: Final = 3_000_000


class HubProcess:
    """`cluster.steering.Process` of a hub."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._stopping: asyncio.Task[None] | None = None
        self._hashed: tuple[Sequence[HostRule], str] = (), ""

    @property
    def is_closing(self) -> bool:
        return crawl_of(self._crawler).is_closing

    @property
    def elapsed_s(self) -> float:
        return crawl_of(self._crawler).elapsed_s

    @property
    def rules(self) -> str:
        rules = crawl_of(self._crawler).rules
        if rules is not None and rules.rules is not self._hashed[0]:
            digest = hashlib.sha256(msgpack.encode(rules.rules)).hexdigest()
            self._hashed = rules.rules, digest
        return self._hashed[1]

    def has_seeds(self) -> bool:
        engine, scheduler = self._crawler.engine, crawl_of(self._crawler).scheduler
        is_starting = engine is not None and reads_seeds(engine)
        return is_starting or (scheduler is not None and scheduler.holds_work())

    def stop(self) -> None:
        self._stopping = asyncio.ensure_future(self._crawler.stop_async())

    def wake(self) -> None:
        scheduler = crawl_of(self._crawler).scheduler
        if scheduler is not None:
            scheduler.wake()

    def give_back_all(self) -> None:
        scheduler = crawl_of(self._crawler).scheduler
        if scheduler is not None:
            scheduler.give_back(lambda host: True)

    async def explain(self, url: str) -> list[str]:
        explain = crawl_of(self._crawler).explain
        if canonicalize(url) != url or explain is None:
            raise SteeringError("this hub cannot explain it")
        if hub_of(host_of(url), self.whole.hubs) != self.whole.number:
            raise SteeringError("it is a URL of another hub")
        try:
            return await explain(url)
        except RefusalError as error:
            raise SteeringError(str(error)) from None

    @property
    def whole(self) -> WholeCrawl:
        whole = crawl_of(self._crawler).whole
        assert whole is not None
        return whole

    @property
    def _steering(self) -> SteeringExtension:
        """Carries commands out in this hub. SteeringError."""
        steering = crawl_of(self._crawler).steering
        if steering is None:
            raise SteeringError("this crawl cannot be steered")
        return cast("SteeringExtension", steering)

    # Commands

    async def do(self, command: str, arguments: Sequence[str], by: str) -> str:
        """Carry out a command of this hub's user, in all hubs or here. SteeringError.

        `arguments` of allow and deny are entries: no file is read at another hub.
        """
        if command in ("allow", "deny"):
            self._refuse_too_long(command, arguments)
        whole = self.whole
        if command == "status":
            return await self._status(by)
        if command not in OF_ALL:
            here = await self._steering.carry_out(command, arguments, by)
            return f"hub {whole.number} of {whole.hubs}: {here}"
        if whole.number == 0 or (command == "stop" and 0 in whole.away):
            return await self._do_in_all(command, arguments, by)
        return await whole.steering.ask(command, arguments)

    def _refuse_too_long(self, command: str, entries: Sequence[str]) -> None:
        orders = cast("FrontierServer", crawl_of(self._crawler).frontier).orders
        if sum(map(len, (*orders.allow, *orders.deny, *entries))) > ENTRIES_MAX:
            raise SteeringError(
                f"{command}: with those before, the entries have more than {ENTRIES_MAX:,}"
                f" characters: set them as SCOPE_{command.upper()} of all hubs"
            )

    async def _status(self, by: str) -> str:
        here = await self._steering.carry_out("status", (), by)
        whole, target = self.whole.views.whole(), self.whole.share.goal
        of_target = f" of {target:,}" if target else ""
        return (
            f"{hubs_text(whole)}: {whole.counters.crawled:,}{of_target} pages,"
            f" {max(whole.counters.pending, 0):,} URLs queued, {whole.pages_per_s:.1f} pages/s;"
            f" hub {whole.hub}: {here}"
        )

    async def _do_in_all(self, command: str, arguments: Sequence[str], by: str) -> str:
        """Carry out a command at this hub, and have all others obey."""
        whole = self.whole
        answer = await self._steering.carry_out(command, arguments, by)
        if command in ("target", "stop"):
            return f"{_hubs(whole.hubs, whole.away)}: {answer}"
        reached = await whole.steering.spread()
        if reached.unanswered:
            sent = counted(reached.unanswered, "request")
            answer += f"; at other hubs {sent} sent before still without an answer"
        if reached.missing:
            answer += "; each other hub obeys when it is there"
        return f"{_hubs(whole.hubs, reached.missing)}: {answer}"

    async def order(self, command: str, arguments: Sequence[str], by: str) -> str:
        return await self._steering.do(command, arguments, by)

    async def obey(self, added: Orders) -> int:
        try:
            unanswered = await self._steering.follow(added)
        except SteeringError as error:
            logger.error("steering: orders of hub 0 are not carried out: %s", error)
            raise
        self.wake()
        return unanswered


def _hubs(hubs: int, missing: Sequence[int]) -> str:
    """The hubs for which an answer holds."""
    if not missing:
        return f"all {hubs} hubs"
    done = [str(hub) for hub in range(hubs) if hub not in missing]
    return f"{counted(len(done), 'hub')} ({', '.join(done)}) of {hubs}"
