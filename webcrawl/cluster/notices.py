"""Lines for the user of one node: what it waits for, and what the other nodes do.

Each line comes once when its matter begins, again each AGAIN_S while it lasts, and once when it is
over. Knows no bus.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Mapping
from math import inf
from typing import Final

from webcrawl.cluster.agreement.members import Members
from webcrawl.cluster.agreement.records import ShardRecord

logger = logging.getLogger(__name__)

AGAIN_S: Final = 600.0
AGAIN_AT_START_S: Final = 30.0
HELD_BACK_S: Final = 5.0  # a start or a move takes a round or two
LOST_S: Final = 15.0  # until a warning: nodes that have lost the bus too write what they know
_SHOWN: Final = 8  # shards or nodes named in a line


class Repeated:
    """A line that is logged when its text changes, and each `again_s` while it does not."""

    def __init__(self, again_s: float = AGAIN_S, level: int = logging.WARNING) -> None:
        self._again_s = again_s
        self._level = level
        self._last = ""
        self._at = float("-inf")

    def say(self, text: str, now: float) -> bool:
        """Log `text`, unless it was lately; "": there is nothing to say. Whether it was logged."""
        if not text:
            self._last, self._at = "", float("-inf")
            return False
        if text == self._last and now < self._at + self._again_s:
            return False
        self._last, self._at = text, now
        logger.log(self._level, "%s", text)
        return True


class Notices:
    """The lines about other nodes. Memory: the names of the nodes."""

    def __init__(self, members: Members) -> None:
        self._members = members
        self._alive: set[str] = set()
        self._missing = Repeated()
        self._without = Repeated(level=logging.INFO)
        self._none_at = inf  # since when this node has no shard, though all are claimed
        self._held_back = Repeated(level=logging.INFO)
        self._held_back_at = inf  # since when
        self._lost_at = inf  # since when shards are missing
        self._is_warned = False

    def nodes(self) -> None:
        """Log which nodes have come or gone since the last call."""
        alive = set(self._members.running())
        for name in sorted(alive - self._alive):
            logger.info("Node %s is there", self.named(name))
        for name in sorted(self._alive - alive):
            if self._members.has_left(name):
                logger.info("Node %s has left: its shards pause until it is back", self.named(name))
            elif self._members.is_leaving(name):
                logger.info("Node %s leaves for good: its shards move to others", self.named(name))
            else:
                logger.warning("Node %s is silent: its shards pause until it is back", name)
        self._alive = alive

    def waits(self, shards: Mapping[int, ShardRecord], now: float, *, is_idle: bool) -> None:
        """Log which shards a node waits for that has nothing to do, if their nodes do not run.

        Call it after `has_none`. A node without a shard has nothing to do, but perhaps its seeds.
        """
        is_idle = is_idle or now > self._none_at + LOST_S
        gone: defaultdict[str, list[int]] = defaultdict(list)
        alive = {*self._members.alive()}
        for shard, record in shards.items():
            if record.node not in alive:
                gone[record.node].append(shard)
        text = ""
        if gone and is_idle:
            whose = "; ".join(
                f"{_numbers(numbers)} of node {self.named(name)}"
                for name, numbers in sorted(gone.items())[:_SHOWN]
            )
            text = (
                f"Nothing is left to do here: the crawl waits for {whose}. Start"
                f" {'each' if len(gone) > 1 else 'it'} again with its JOBDIR, or end this node"
                " with Ctrl-C"
            )
            if not alive & {record.node for record in shards.values()}:
                text += ". If these nodes are no more, a new crawl needs another CLUSTER_NAME"
        self._missing.say(text, now)

    def has_none(self, own: Collection[int], is_claimed: bool, now: float) -> None:
        """Log that this node has no shard, once all are on other nodes."""
        self._none_at = min(self._none_at, now) if is_claimed and not own else inf
        text = "This node has no shard: all are on other nodes" if self._none_at < inf else ""
        self._without.say(text, now)

    def held_back(self, waits: Mapping[int, str], now: float) -> None:
        """Log which shards of this node it may not use yet, and why."""
        self._held_back_at = min(self._held_back_at, now) if waits else inf
        by_reason: defaultdict[str, list[int]] = defaultdict(list)
        for shard, why in waits.items():
            by_reason[why].append(shard)
        text = ""
        if now > self._held_back_at + HELD_BACK_S:
            text = "This node may not use all of its shards yet: " + "; ".join(
                f"{_numbers(numbers)}: {why}" for why, numbers in sorted(by_reason.items())
            )
        self._held_back.say(text, now)

    def lost(
        self, shards: Mapping[int, ShardRecord], total: int, now: float, *, losses: int
    ) -> None:
        """Warn once: the bus was wiped before all shards were claimed, or while their nodes were
        dead.

        Only their nodes know them. If there are none, nobody can tell, and none is begun empty.
        """
        missing = [number for number in range(total) if number not in shards]
        if not (losses and missing):
            self._lost_at = inf
            return
        self._lost_at = min(self._lost_at, now)
        if now > self._lost_at + LOST_S and not self._is_warned:
            self._is_warned = True
            logger.warning(
                "The bus has lost its records, and no node that runs knows the shards %s: the crawl"
                " waits for their nodes. Start these; if there never were any, stop all nodes, and"
                " start them with other JOBDIRs and another CLUSTER_NAME",
                ", ".join(map(str, missing)),
            )

    def named(self, node: str) -> str:
        """The node, and its machine if that is known."""
        record = self._members.record(node)
        host = record.view.name if record is not None else ""
        return f"{node} ({host})" if host else node


def _numbers(shards: list[int]) -> str:
    shown = ", ".join(map(str, sorted(shards)[:_SHOWN]))
    more = len(shards) - _SHOWN
    return f"shard{'s' * (len(shards) > 1)} {shown}" + (f" and {more} more" if more > 0 else "")
