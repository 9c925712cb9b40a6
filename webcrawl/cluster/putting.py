"""Puts the links of a node without a shard (its seeds) into a shard of another node.

There may be more nodes than shards, and all shards may be claimed before a late node joins. Its
links have no frontier then that could keep them until they are sent, so it waits for the answer of
the node that keeps them. If the answer is lost they are put again: URLs that were put are known.

What arrives is tested as mail is. Memory: one message of ROWS_MAX links.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from webcrawl.cluster.agreement.node import Node
from webcrawl.cluster.bus import Bus, BusError
from webcrawl.cluster.mail.messages import ROWS_MAX, Batch, Refused, pack, read, unpack, write
from webcrawl.frontier.lease import Link
from webcrawl.frontier.mailbox import FoundLink

_ANSWER_S: Final = 10.0
_REFUSED: Final = b""  # the answer of a node that can put nothing now

Put = Callable[[list[Link], bool], Awaitable[int]]


class Putting:
    """Both sides of this node. `put`: into its own shards."""

    def __init__(self, bus: Bus, node: Node, shards: int, put: Put) -> None:
        self._bus = bus
        self._node = node
        self._shards = shards
        self._put = put

    async def open(self) -> None:
        await self._bus.answer(_subject(self._node.members.node), self._on_batch)

    @property
    def owner(self) -> str:
        """A node that has a shard, "" if none is known or this node may get one itself."""
        node, shards = self._node, self._node.shards.map
        if node.state != "running" or len(shards) < self._shards:
            return ""
        owners = {record.node for record in shards.values()}
        if node.members.node in owners:
            return ""
        return next((name for name in sorted(owners) if node.members.is_alive(name)), "")

    async def send(self, links: Sequence[Link], *, force: bool) -> tuple[int, int]:
        """Put the first of `links` elsewhere: how many those are, and how many were new. BusError.

        A user's own Request (a link with a payload) does not leave its node.
        """
        crawl, owner = self._node.registry.crawl, self.owner
        if crawl is None or not owner:
            raise BusError("no node has a shard for these links")
        some = links[:ROWS_MAX]
        rows = [FoundLink(link, None, force) for link in some if not link.payload]
        if not rows:
            return len(some), 0
        data, count = pack(rows)
        if count < len(rows):
            some = some[:count]  # those without a payload are at most as many
            rows = [FoundLink(link, None, force) for link in some if not link.payload]
            if not rows:
                return len(some), 0
            data, count = pack(rows)
        batch = Batch(crawl.id, 0, 0, 0, 0, 0, first=1, count=count, data=data)
        answer = await self._bus.request(_subject(owner), write(batch), _ANSWER_S)
        if not answer.isdigit():
            raise BusError(f"node {owner} puts no links now")
        return len(some), int(answer)

    async def _on_batch(self, data: bytes) -> bytes:
        crawl = self._node.registry.crawl
        try:
            batch = read(data)
            if crawl is None or not isinstance(batch, Batch) or batch.crawl != crawl.id:
                return _REFUSED
            rows = [row for row in unpack(batch) if isinstance(row, FoundLink)]
        except Refused:
            return _REFUSED
        if not self._node.shards.held or not rows:
            return _REFUSED
        return b"%d" % await self._put([row.link for row in rows], rows[0].force)


def _subject(node: str) -> str:
    return f"put.{node}"
