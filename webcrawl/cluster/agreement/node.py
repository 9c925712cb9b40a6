"""One node of a crawl: a round with the bus each HEARTBEAT_S, and what it may do until the next.

Puts `registry`, `members` and `shards` in their order; decides nothing itself. A round counts only
as a whole. Its order is a part of the promise that no two nodes use one shard:
- the heartbeat comes before the look at the shards. If another node takes a shard after that look,
  it has seen this heartbeat or will: it does not take this node for silent;
- a heartbeat says that an epoch was seen only if the shard was parked before;
- the look at the members comes after that at the shards: a node is judged by what it did after the
  record had changed;
- a shard is begun only after the era is confirmed: all of this was in one KV.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from webcrawl.cluster.agreement.members import STALE_S, Members, State
from webcrawl.cluster.agreement.nodefile import NodeStore
from webcrawl.cluster.agreement.registry import Registry
from webcrawl.cluster.agreement.shards import Event, Shards
from webcrawl.cluster.bus import Bus, Refused
from webcrawl.cluster.views import NodeView

# How long a node that is refused waits for the others to join. Else one with wrong settings, which
# starts with others, would replace theirs; and dead nodes would refuse one with new settings.
_PATIENCE_S = STALE_S


class Node:
    """This machine's part of the crawl.

    longest_fetch_s -- from a lease to the end of its request, at most
    on_event -- called for each shard to use or to park, before the next step of the round
    before_joining -- called when nothing else is in the way; returns what is, "" if nothing
    """

    def __init__(
        self,
        bus: Bus,
        store: NodeStore,
        settings: Mapping[str, str],
        shards: int,
        *,
        longest_fetch_s: float,
        clock: Callable[[], float],
        on_event: Callable[[Event], None] = lambda event: None,
    ) -> None:
        self._store = store
        self.registry = Registry(bus, store, settings, shards, clock)
        self.members = Members(bus, store, clock)
        self.shards = Shards(bus, store, self.members, shards, longest_fetch_s, clock)
        self.view = NodeView()  # for the next heartbeat
        self.state: State = "joining"
        self._clock = clock
        self.on_event = on_event
        self.before_joining: Callable[[], Awaitable[str]] | None = None
        self.waits_for = ""  # why the node has not joined yet, for the user
        self._seen_since = float("inf")  # since when other nodes can see this one
        self._refusal = ""  # by the crawl's settings, and since when
        self._refused_at = float("inf")

    def __repr__(self) -> str:
        return f"<Node {self.members.node}, {self.state}: {self.shards!r}>"

    def may_ask(self, now: float) -> bool:
        """Whether the node may send requests: for the shards that it holds (`Shards.held`)."""
        return self.state != "left" and self.members.may_ask(now)

    @property
    def has_shards(self) -> bool:
        """Whether this node has begun shards in an earlier run, or in this one."""
        return self.shards.has_begun

    @property
    def has_crawl(self) -> bool:
        """Whether JOBDIR belongs to a crawl: this node has joined it, now or in an earlier run."""
        return bool(self._store.content.crawl)

    def forget_crawl(self) -> None:
        """Let JOBDIR be used for another crawl: this one has nothing in it."""
        self._store.keep(crawl="", shards=0)

    def has_carried_out(self, end: int) -> bool:
        """Whether this node has ended by the end of this number (`note_end`)."""
        return self._store.content.ended == end

    def note_end(self, end: int) -> None:
        self._store.keep(ended=end)

    async def round(self) -> bool:
        """One round. BusError: it counts as none. Refused: this node must end, exit code 2.

        False: the node has not joined yet, has claimed shards, or the KV was lost in between:
        another round at once is right. Call it each HEARTBEAT_S, and do not call it while one runs.
        """
        began_at = self._clock()
        if self.state == "joining":
            return await self._join()
        crawl = await self.registry.check()
        self.shards.note_era(crawl)
        if not await self.members.beat(self.state, self.shards.epochs(), crawl.era, self.view):
            return False
        for event in await self.shards.look(crawl):
            self.on_event(event)
        claimed = 0
        if self.state == "running" and self.shards.are_free:
            await self.members.look()
            claimed = await self.shards.claim(crawl, self._seen_since)
            is_sure = await self.registry.confirm(crawl.era)
        else:  # at once: a slow bus must not take STALE_S for two rounds
            is_sure = await self._look_and_confirm(crawl.era)
        if not is_sure:
            return False
        self.members.met(began_at)
        if self.state in ("running", "leaving"):  # leaving: a move may have failed
            for event in self.shards.decide(crawl):
                self.on_event(event)
        return not claimed

    async def _look_and_confirm(self, era: str) -> bool:
        """Read the heartbeats, after the shards' records, and confirm the era. BusError.

        What a heartbeat says stays true, so it may come from after the confirmation.
        """
        look, confirm = await asyncio.gather(
            self.members.look(), self.registry.confirm(era), return_exceptions=True
        )  # both have ended: none acts in a later round
        for result in (look, confirm):
            if isinstance(result, BaseException):
                raise result
        return confirm is True

    async def _join(self) -> bool:
        if not await self.members.beat("joining", [], self.registry.era, self.view):
            await self.members.look()
            self.waits_for = "an earlier process of this node, which may run still, to be silent"
            return False
        self._seen_since = min(self._seen_since, self._clock())
        await self.members.look()
        others = [name for name in self.members.alive() if name != self.members.node]
        is_alone = not others or self._clock() > self._refused_at + _PATIENCE_S
        try:
            crawl = await self.registry.join(is_alone=is_alone)
        except Refused as error:
            if is_alone or any(map(self.members.has_joined, others)):
                raise
            if str(error) != self._refusal:
                self._refusal, self._refused_at = str(error), self._clock()
            self.waits_for = f"a heartbeat of {', '.join(others)}"
            return False
        self.waits_for = "other nodes that know the crawl" if crawl is None else ""
        if crawl is not None and self.before_joining is not None:
            self.waits_for = await self.before_joining()
        if self.waits_for:
            return False
        self.state = "running"
        return False

    async def settle(self) -> None:
        """After a loss of the KV, if no node holds addresses: its shards are what is missing.

        Else nothing would end that time (`Tenancies` does), and no shard could move. BusError.
        """
        crawl = self.registry.crawl
        if crawl is not None and crawl.is_rebuilt and self.shards.is_sure(crawl):
            await self.registry.settle(crawl.era)

    async def leave(self) -> None:
        """All requests have ended and all folders are closed: tell the others. BusError."""
        self.state = "left"
        self.shards.stopped_all()
        await self.members.beat("left", self.shards.epochs(), self.registry.era, self.view)
