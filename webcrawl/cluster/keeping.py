"""Keeps the IP addresses of a node while it runs: takes them and gives them back, in a task.

`tenancy` decides; this class calls it when something is due or wanted, and writes the counts of
MAX_PAGES_PER_IP again after a loss of the KV.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from webcrawl.cluster.agreement.node import Node
from webcrawl.cluster.agreement.tenancy import Tenancies
from webcrawl.cluster.bus import BusError
from webcrawl.cluster.frontier import ClusterFrontier
from webcrawl.frontier.core import CrawlState
from webcrawl.frontier.store import StoreError

logger = logging.getLogger(__name__)


class Keeping:
    """The task. Memory: the numbers of this node's shards.

    on_problem -- called with the error if the node must end
    """

    def __init__(
        self,
        tenancies: Tenancies,
        node: Node,
        frontier: ClusterFrontier,
        *,
        on_problem: Callable[[Exception], None],
    ) -> None:
        self._on_problem = on_problem
        self._tenancies = tenancies
        self._node = node
        self._frontier = frontier
        self._tasks: list[asyncio.Task[None]] = []
        self._recounting: asyncio.Task[None] | None = None
        self._recounted: tuple[str, frozenset[int]] = ("", frozenset())  # era, shards

    async def open(self) -> None:
        """The bus is open, and the node has joined. BusError."""
        await self._tenancies.open()
        self._tasks.append(asyncio.create_task(self._run()))

    async def close(self) -> None:
        """End the task. The addresses stay the node's until `leave`."""
        if self._recounting is not None:
            self._tasks.append(self._recounting)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def leave(self) -> None:
        """All requests have ended: give the addresses back, as far as the bus is there."""
        await self._tenancies.close()

    def note(self) -> None:
        """After each round with the bus."""
        self._tenancies.note()

    def drop(self, shard: int) -> None:
        """`shard` is closed on this node."""
        self._tenancies.drop(shard)

    async def _run(self) -> None:
        try:
            while True:
                await self._tenancies.work()
                self._recount_if_lost()
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._tenancies.wait_s):
                        await self._tenancies.wake.wait()
                self._tenancies.wake.clear()
        except Exception as error:
            if not isinstance(error, BusError | StoreError):  # ours: no address would be taken
                logger.exception("The keeping of IP addresses failed")
            self._on_problem(error)

    def _recount_if_lost(self) -> None:
        """With MAX_PAGES_PER_IP, after a loss of the KV: write the counts of our shards again."""
        crawl, task = self._node.registry.crawl, self._recounting
        if crawl is None or not crawl.losses or not self._tenancies.has_cap:
            return
        shards = frozenset(self._frontier.shards)
        if self._recounted != (crawl.era, shards) and (task is None or task.done()):
            self._recounting = asyncio.create_task(self._recount(crawl.era, shards))

    async def _recount(self, era: str, shards: frozenset[int]) -> None:
        try:
            for number in shards & self._node.shards.held.keys():
                frontier = self._frontier.shards.get(number)
                if frontier is not None:
                    pages = await frontier.call(CrawlState.pages_by_address, moves=False)
                    await self._tenancies.recount(number, pages)
        except (BusError, KeyError) as error:  # again with the next work
            logger.debug("The counts of addresses were not written: %s", error)
        else:
            self._recounted = (era, shards)
