"""What a node needs of the process that crawls for it. `extensions.cluster` implements it.

One object in place of callbacks: a node gets it with `RunningNode.start`, once the spider is open,
and has `NoProcess` until then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from webcrawl.cluster.views import NodeView, machine_name

logger = logging.getLogger(__name__)


class Process(Protocol):
    """The first process of a node. All calls come from its event loop, and none blocks."""

    def has_seeds(self) -> bool:
        """Whether seeds are still read, or anything else is not in a shard yet."""

    def describe(self) -> NodeView:
        """The node's view without its counts, for its heartbeat."""

    def allow_until(self, at: float) -> None:
        """After each round: until when the other processes may send requests."""

    def wake(self) -> None:
        """A shard may have leases sooner than it has said."""

    def give_back(self, matches: Callable[[str], bool]) -> None:
        """Give back the leases of hosts that match, as far as their requests are not sent."""

    def stop(self) -> None:
        """The crawl is to end in all nodes before it is finished. Called once."""

    def leave(self) -> None:
        """All shards of a node that leaves are on other nodes: end. Called once."""

    def fail(self, problem: str) -> None:
        """The node must end, with this line."""


class NoProcess:
    """Before the spider is open: nothing is leased, and the spider has seeds."""

    def has_seeds(self) -> bool:
        return True

    def describe(self) -> NodeView:
        return NodeView(name=machine_name())

    def allow_until(self, at: float) -> None: ...

    def wake(self) -> None: ...

    def give_back(self, matches: Callable[[str], bool]) -> None: ...

    def stop(self) -> None: ...

    def leave(self) -> None: ...

    def fail(self, problem: str) -> None:
        logger.error("%s", problem)
