"""The frontier in memory: all state is lost when the process ends.

The docstring of `MemoryStore` gives its memory per URL; nothing is freed before the end. For crawls
of more than some ten million URLs use the frontier on disk (`frontier.disk`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from webcrawl.crawllog.files import CrawlLog, new_crawl_id
from webcrawl.frontier.addresses import Addresses
from webcrawl.frontier.base import Frontier, Policy
from webcrawl.frontier.caps import Caps
from webcrawl.frontier.core import CrawlState
from webcrawl.frontier.lease import Lane, Lease, Link, Outcome
from webcrawl.frontier.mailbox import Abroad, Mail, Packed
from webcrawl.frontier.orderings import Ordering
from webcrawl.frontier.overview import Overview
from webcrawl.frontier.queue import HeapQueue, HostQueue
from webcrawl.frontier.store import MemoryStore
from webcrawl.items import Original
from webcrawl.scope.hostrules import HostRule


class MemoryFrontier(Frontier):
    """FRONTIER_STORE "memory". Every call is done when it returns; no call waits."""

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        ordering: Ordering | None = None,
        caps: Caps | None = None,
        log_folder: Path | None = None,
        utc_s: float = 0.0,
        abroad: Abroad | None = None,
        addresses: Addresses | None = None,
    ) -> None:
        """`log_folder`: of the crawl log. `utc_s` plus monotonic time is UTC. LogError.

        `abroad`: this is one of several shards, and these are the others. `addresses`: the IP
        addresses, if others ask them too.
        """
        store = MemoryStore(HeapQueue if ordering and ordering.moves_links else HostQueue)
        self.crawl_id = new_crawl_id()
        self.log = CrawlLog(log_folder, self.crawl_id) if log_folder is not None else None
        self._state = CrawlState(
            *(store, policy),
            ordering=ordering,
            caps=caps,
            log=self.log,
            utc_s=utc_s,
            abroad=abroad,
            addresses=addresses,
        )
        self.counters = self._state.counters
        self.failed_seeds = self._state.failed_seeds

    def __repr__(self) -> str:
        return f"<MemoryFrontier {self._state!r}>"

    async def put(self, links: Iterable[Link], now: float, *, force: bool = False) -> int:
        return self._state.put(links, now, force=force)

    async def acquire(self, now: float, limit: int, lane: Lane = Lane.PAGES) -> list[Lease]:
        return self._state.acquire(now, limit, lane)

    async def release(self, done: Sequence[tuple[Lease, Outcome]], now: float) -> None:
        self._state.release(done, now)

    async def content_seen(self, content: bytes, original: Original) -> Original | None:
        return self._state.content_seen(content, original)

    async def set_rules(self, rules: Sequence[HostRule], now: float) -> None:
        self._state.set_rules(rules, now)

    async def receive(self, sender: int, first: int, mail: Sequence[Mail], now: float) -> int:
        """See `CrawlState.receive`, as for the calls below."""
        return self._state.receive(sender, first, mail, now)

    async def receive_each(
        self, batches: Iterable[tuple[int, int, Sequence[Mail]]], now: float
    ) -> None:
        self._state.receive_each(batches, now)

    async def packed(self, shard: int, after: int, limit: int, limit_bytes: int) -> Packed:
        return self._state.packed(shard, after, limit, limit_bytes)

    async def unsent(self, shard: int, after: int, limit: int) -> list[Mail]:
        return self._state.unsent(shard, after, limit)

    async def sent(self, shard: int, upto: int) -> None:
        self._state.sent(shard, upto)

    @property
    def outbox(self) -> Mapping[int, tuple[int, int]]:
        return self._state.outbox

    @property
    def inbox(self) -> Mapping[int, int]:
        return self._state.inbox

    @property
    def fresh(self) -> int:
        return self._state.fresh

    def next_at(self, lane: Lane = Lane.PAGES) -> float:
        return self._state.next_at(lane)

    @property
    def supply(self) -> int:
        return self._state.supply

    async def overview(self, now: float, limit: int) -> Overview:
        return self._state.overview(now, limit)

    def is_finished(self) -> bool:
        return self._state.is_finished()

    async def close(self) -> None:
        """Finish the crawl log. No other state outlives the process."""
        if self.log is not None:
            await asyncio.to_thread(self.log.close)

    def audit(self) -> None:
        """Assert the invariants. O(hosts): for tests and debugging."""
        self._state.audit()
