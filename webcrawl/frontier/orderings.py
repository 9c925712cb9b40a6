"""Which URL is best: the crawl's orderings.

An ordering gives each link a priority within its host's queue and each host a rank among the
hosts that are ready; lower is earlier, and equals go first in, first out. Names are the values
of FRONTIER_ORDER.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import fsum, isclose, log2
from typing import Any

from webcrawl.frontier.caps import Counts
from webcrawl.frontier.lease import Link
from webcrawl.frontier.store import Credits, Store
from webcrawl.parse.domains import registered_domain
from webcrawl.parse.urls import level_of

Move = tuple[int, int, int]  # priority, number, better priority

TAX = 0.1  # the virtual page's part of what a page spends
_MOST, _LEAST = 24, 104  # powers of two between which cash is told apart


class Ordering(ABC):
    """Policy of one crawl. All methods are O(1), or O(links of a page)."""

    moves_links = False  # whether links get better while they wait

    def open(self, store: Store) -> None:  # noqa: B027  (most orderings keep nothing)
        """Go on with what `store` has, or begin. Called once, before anything else."""

    def numbers(self) -> dict[str, Any]:
        """What `open` is to find in `store.numbers["ordering"]`, as JSON has it."""
        return {}

    @abstractmethod
    def enter(self, link: Link, number: int, cash: float | None) -> int:
        """Priority of `link`, which gets in line as `number`: new, or for another try.

        `cash` is what the page it is on gives it; None where it is not from a page.
        """

    def rank(self, host: str, priority: int) -> int:
        """Place of `host`, whose best link has `priority`, among the ready hosts."""
        return priority

    def visited(self, host: str) -> None:  # noqa: B027  (most orderings do not care)
        """A page of `host` was fetched."""

    # For orderings by cash

    def spend(self, page: Link, links: Sequence[Link]) -> tuple[Sequence[Link], float | None]:
        """`page` was fetched: its outlinks, each once, and the cash that it gives to each.

        None is no cash, ever: then nobody calls `pay`.
        """
        return links, None

    def pay(self, link: Link, cash: float) -> Move | None:
        """A page gives `cash` to `link`, a known one: where that moves it to, if it does."""
        return None

    def forfeit(self, link: Link) -> None:  # noqa: B027
        """`link` will not be fetched."""

    def audit(self) -> None:  # noqa: B027
        """Assert the invariants. O(pending links): for tests and debugging."""


class Level(Ordering):
    """The lowest level first: 1 plus the words of the path, 10 at most."""

    def enter(self, link: Link, number: int, cash: float | None) -> int:
        return level_of(link.url)


class Depth(Ordering):
    """The fewest link hops from a seed first: breadth first."""

    def enter(self, link: Link, number: int, cash: float | None) -> int:
        return link.depth


class LeastVisited(Ordering):
    """Hosts whose registered domain has the fewest pages so far first.

    One integer a registered domain fetched from.
    """

    def open(self, store: Store) -> None:
        self._pages: Counts = store.counts("pages")

    def enter(self, link: Link, number: int, cash: float | None) -> int:
        return 0

    def rank(self, host: str, priority: int) -> int:
        return self._pages.get(registered_domain(host), 0)

    def visited(self, host: str) -> None:
        domain = registered_domain(host)
        self._pages[domain] = self._pages.get(domain, 0) + 1


class Opic(Ordering):
    """The most cash first (Abiteboul, Preda, Cobena, "Adaptive On-Line Page Importance
    Computation", WWW 2003), in a crawl that fetches each page once.

    A seed begins with a cash of 1. A page that is fetched gives 90 % of its cash in equal shares to
    its distinct outlinks, known or not. The rest goes to the virtual page, and so does what nobody
    takes: shares of links that were fetched before or are refused, cash of URLs that are dropped.
    The virtual page gives all it has to the URLs in line, in equal shares, at each fetch.

    Its gifts are one addition to what it has given to each so far: a credit knows how much that was
    when its URL came in. Cash is neither made nor lost on the way: what the URLs in line and the
    virtual page have is what came in with the seeds (`audit`).

    Deviation: the order is by the cash that came from pages. Gifts count when a page spends, not where
    it stands in line: they are equal, and would put URLs that wait for long before better ones.

    A link to a URL in line costs a look-up and a write. It moves when its cash has doubled.
    """

    moves_links = True

    def __init__(self) -> None:
        self._given = 0.0  # by the virtual page to each URL, since the crawl began
        self._virtual = 0.0  # cash of the virtual page
        self._made = 0.0  # cash of all seeds
        self._in_line = 0  # URLs with a credit: in line or leased

    def open(self, store: Store) -> None:
        self._credits: Credits = store.credits()
        numbers = store.numbers.get("ordering")
        if numbers:
            self._given, self._virtual, self._made = numbers["cash"]
            self._in_line = numbers["in_line"]

    def numbers(self) -> dict[str, Any]:
        cash = (self._given, self._virtual, self._made)
        return {"cash": cash, "in_line": self._in_line}

    def enter(self, link: Link, number: int, cash: float | None) -> int:
        credit = self._credits.get(link.url) if link.retries else None
        if credit is not None:
            received, given_before, _ = credit
        else:
            received = self._make(link) if cash is None else self._take(cash)
            given_before = self._given
            self._in_line += 1
        self._credits[link.url] = received, given_before, number
        return _priority(received)

    def spend(self, page: Link, links: Sequence[Link]) -> tuple[Sequence[Link], float]:
        self._give()
        cash = self._collect(page)
        distinct = tuple({link.url: link for link in links}.values())
        return distinct, (1 - TAX) * cash / max(len(distinct), 1)

    def pay(self, link: Link, cash: float) -> Move | None:
        credit = self._credits.get(link.url)
        if credit is None:  # it was fetched, or refused
            return None
        received, given_before, number = credit
        self._credits[link.url] = received + self._take(cash), given_before, number
        priority, better = _priority(received), _priority(received + cash)
        return (priority, number, better) if better < priority else None

    def forfeit(self, link: Link) -> None:
        self._collect(link)

    def audit(self) -> None:
        held = [received + self._given - before for received, before, _ in self._credits.values()]
        assert len(held) == self._in_line
        cash = fsum(held) + self._virtual
        assert isclose(cash, self._made, rel_tol=1e-9), f"{cash} of {self._made}"

    def _collect(self, link: Link) -> float:
        """What `link` has goes to the virtual page; how much it was."""
        credit = self._credits.pop(link.url, None)
        if credit is None:
            return 0.0
        received, given_before, _ = credit
        cash = received + self._given - given_before
        self._virtual += cash
        self._in_line -= 1
        return cash

    def _make(self, link: Link) -> float:
        """Cash for what comes in beside the pages' links: a seed, or a user's own Request, which
        gets the mean of the URLs in line. Links of a page too large for one batch get none."""
        if link.via:
            return 0.0
        cash = 1.0 if link.depth == 0 else self._made / max(self._in_line, 1)
        self._made += cash
        return cash

    def _take(self, cash: float) -> float:
        """A share of the page that was spent last, from the virtual page, who has it till then."""
        self._virtual -= cash
        return cash

    def _give(self) -> None:
        """The virtual page is fetched, so to speak. What rounding leaves stays with it."""
        if self._in_line:
            given = self._given + self._virtual / self._in_line
            self._virtual -= (given - self._given) * self._in_line
            self._given = given


def _priority(cash: float) -> int:
    """One more each time that cash is halved. A seed's cash is in the middle of its priority."""
    power = log2(cash) if cash > 0 else -_LEAST
    return round(_MOST - min(max(power, -_LEAST), _MOST))


ORDERINGS: dict[str, type[Ordering]] = {
    "level": Level,
    "depth": Depth,
    "least-visited": LeastVisited,
    "opic": Opic,
}
