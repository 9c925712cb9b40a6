"""Which URL is best: the crawl's orderings.

An ordering gives each link a priority within its host's queue and each host a rank among the
hosts that are ready; lower is earlier, and equals go first in, first out. Names are the values
of FRONTIER_ORDER.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from webcrawl.frontier.caps import Counts
from webcrawl.frontier.lease import Link
from webcrawl.parse.domains import registered_domain
from webcrawl.parse.urls import level_of


class Ordering(ABC):
    """Policy of one crawl. All methods are O(1)."""

    def __init__(self) -> None:
        self.pages: Counts = {}  # so far, by registered domain, for those who count them

    @abstractmethod
    def priority(self, link: Link) -> int:
        """Place of `link` in its host's queue."""

    def rank(self, host: str, priority: int) -> int:
        """Place of `host`, whose best link has `priority`, among the ready hosts."""
        return priority

    def visited(self, host: str) -> None:  # noqa: B027  (most orderings do not care)
        """A page of `host` was fetched."""


class Level(Ordering):
    """The lowest level first: 1 plus the words of the path, 10 at most (reference 1)."""

    def priority(self, link: Link) -> int:
        return level_of(link.url)


class Depth(Ordering):
    """The fewest link hops from a seed first: breadth first."""

    def priority(self, link: Link) -> int:
        return link.depth


class LeastVisited(Ordering):
    """Hosts whose registered domain has the fewest pages so far first (reference 3).

    One integer a registered domain fetched from.
    """

    def priority(self, link: Link) -> int:
        return 0

    def rank(self, host: str, priority: int) -> int:
        return self.pages.get(registered_domain(host), 0)

    def visited(self, host: str) -> None:
        domain = registered_domain(host)
        self.pages[domain] = self.pages.get(domain, 0) + 1


ORDERINGS: dict[str, type[Ordering]] = {
    "level": Level,
    "depth": Depth,
    "least-visited": LeastVisited,
}
