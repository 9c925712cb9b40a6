"""The crawl's orderings (FRONTIER_ORDER): which URL is best.

An ordering gives each link a priority in its host's queue and each host a rank among the ready
hosts. Lower is earlier; equals are first in, first out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import fsum, isclose, log2
from typing import Any

from webcrawl.frontier.caps import Counts
from webcrawl.frontier.disk.seenrows import Credits
from webcrawl.frontier.disk.store import Store
from webcrawl.frontier.lease import FIRST_KEPT, REQUISITE, Link
from webcrawl.parse.domains import registered_domain
from webcrawl.parse.urls import level_of

Move = tuple[int, int, int]  # priority, number, better priority

TAX = 0.1  # the part of a page's cash that goes to the virtual page
_LATEST = 4  # by `language`: see there
_APART = 2
_MOSTLY = 0.5
_MOST, _LEAST = 24, 104  # priorities distinguish cash from 2^-_LEAST to less than 2^_MOST


class Ordering(ABC):
    """The order of one crawl. All methods are O(1), or O(links of a page)."""

    moves_links = False  # whether `pay` may move queued links
    shown_from = 1  # as what users see the lowest priority, which is 1

    def open(self, store: Store) -> None:  # noqa: B027  (most orderings keep nothing)
        """Continue from the state in `store`, or begin. Called once, before any other method."""

    def numbers(self) -> dict[str, Any]:
        """JSON values that the next run's `open` finds in `store.numbers["ordering"]`."""
        return {}

    @abstractmethod
    def enter(self, link: Link, number: int, cash: float | None) -> int:
        """Priority of `link`, which is queued as `number`: a new link, or a retry.

        A whole number, 1 or more and less than `lease.FIRST_KEPT`, as it is part of a key on disk.
        Lower is earlier; 0 is that of a page that is visited again.
        `cash` is the cash from the page with the link; None if the link is not from a page.
        """

    def rank(self, host: str, priority: int) -> int:
        """Rank of `host`, whose best link has `priority`, among the ready hosts."""
        return priority

    def is_wanted(self, host: str) -> bool:
        """Whether pages of `host` are as good as any: else other hosts are admitted beside it."""
        return True

    def visited(self, host: str) -> None:  # noqa: B027  (most orderings ignore it)
        """A page of `host` was fetched."""

    # For orderings by cash

    def spend(self, page: Link, links: Sequence[Link]) -> tuple[Sequence[Link], float | None]:
        """`page` was fetched: (its outlinks, each once; the cash for each of them).

        An ordering without cash returns None as the cash, and `pay` is never called.
        """
        return links, None

    def worth(self, page: Link) -> float:
        """The importance of `page`, which is leased."""
        return 1.0

    def spend_again(
        self, links: Sequence[Link], worth: float
    ) -> tuple[Sequence[Link], float | None]:
        """As `spend`, for a page of importance `worth` that was visited again."""
        return links, None

    def pay(self, link: Link, cash: float) -> Move | None:
        """A page gives `cash` to the known `link`. Returns its move in the queue, if it moves."""
        return None

    def forfeit(self, link: Link) -> None:  # noqa: B027
        """`link` is not fetched, or stops moving: it gives up its cash."""

    def send(self, cash: float) -> None:  # noqa: B027
        """A page gives `cash` to a link to a host of another hub."""

    def receive(self, cash: float) -> None:  # noqa: B027
        """A page of another hub gives `cash` to a link that is put next."""

    def audit(self) -> None:  # noqa: B027
        """Assert the invariants. O(pending links): for tests and debugging."""


class Level(Ordering):
    """The lowest level first: 1 plus the words of the path, 10 at most."""

    def enter(self, link: Link, number: int, cash: float | None) -> int:
        return level_of(link.url)


class Depth(Ordering):
    """The fewest link hops from a seed first: breadth first."""

    shown_from = 0

    def enter(self, link: Link, number: int, cash: float | None) -> int:
        return link.depth + 1


class LeastVisited(Ordering):
    """Hosts whose registered domain has the fewest fetched pages first.

    Memory: one integer per registered domain with a fetched page.
    """

    shown_from = 0

    def open(self, store: Store) -> None:
        self._pages: Counts = store.counts("pages")

    def enter(self, link: Link, number: int, cash: float | None) -> int:
        return 1

    def rank(self, host: str, priority: int) -> int:
        return self._pages.get(registered_domain(host), 0)

    def visited(self, host: str) -> None:
        domain = registered_domain(host)
        self._pages[domain] = self._pages.get(domain, 0) + 1


class Language(Level):
    """The hosts with the largest share of pages in LANGUAGES first; within a host as `level`.

    A host has a turn: the number of pages that the crawl has when the host is due, in the order of
    turns. After each page of a host that is now, if all pages of the host are wanted, and up to
    _LATEST times the present number if none is: so such a host is asked when no better one is
    ready, or when the crawl has grown so much. The turns of new hosts are _APART pages apart: while
    others have wanted pages, every second page is of a new host, and each has its turn.

    Memory: nothing per host, but a row of 8 bytes in the store.
    """

    def open(self, store: Store) -> None:
        self._hosts = store.languages
        self._turns: Counts = store.counts("turns")
        numbers = store.numbers.get("ordering") or {}
        self._pages: int = numbers.get("pages", 0)
        self._newest: int = numbers.get("newest", 0)  # the turn of the newest host

    def numbers(self) -> dict[str, Any]:
        return {"pages": self._pages, "newest": self._newest}

    def enter(self, link: Link, number: int, cash: float | None) -> int:
        if not self._turns.get(link.host, 0):
            self._newest = max(self._newest, self._pages) + _APART
            self._turns[link.host] = min(self._newest, FIRST_KEPT - 1)
        return super().enter(link, number, cash)

    def rank(self, host: str, priority: int) -> int:
        return self._turns.get(host, 0)

    def is_wanted(self, host: str) -> bool:
        return self._hosts.share(host) > _MOSTLY

    def visited(self, host: str) -> None:
        self._pages += 1
        later = (_LATEST - 1) * (1 - self._hosts.share(host))
        self._turns[host] = min(self._pages + int(self._pages * later), FIRST_KEPT - 1)


class Opic(Ordering):
    """The most cash first (Abiteboul, Preda, Cobena, "Adaptive On-Line Page Importance
    Computation", WWW 2003), in a crawl that fetches each page once.

    A seed begins with a cash of 1. A fetched page gives 90 % of its cash in equal shares to its
    distinct outlinks, known or not. The rest goes to the virtual page, together with all cash that
    no queued URL can take: shares for links that were fetched before or are refused, and the cash
    of dropped URLs. At each fetch the virtual page gives all its cash to the queued URLs, in equal
    shares.

    All these gifts together cost one addition, to the total that each queued URL was given so far.
    A credit stores that total as it was when its URL was queued. Cash is neither created nor lost:
    the queued URLs and the virtual page together have the cash that came in with the seeds
    (`audit`). Of several hubs each has a virtual page of its own; the cash of a link to a host
    of another hub travels with the link.

    Deviation: the order is by the cash from pages. The virtual page's gifts count when a page
    spends its cash, not for its position in the queue: they are equal for all URLs, and would put
    URLs that were queued long ago before better ones.

    A link to a queued URL costs a look-up and a write. The URL moves when its cash has doubled.
    """

    moves_links = True

    def __init__(self) -> None:
        self._given = 0.0  # by the virtual page to each queued URL, since the crawl began
        self._virtual = 0.0  # cash of the virtual page
        self._made = 0.0  # cash of all seeds, and cash from other hubs
        self._sent = 0.0  # cash sent to other hubs
        self._in_line = 0  # URLs with a credit: queued or leased

    def open(self, store: Store) -> None:
        self._credits = Credits(store.seen)
        numbers = store.numbers.get("ordering")
        if numbers:
            self._given, self._virtual, self._made = numbers["cash"]
            self._in_line = numbers["in_line"]
            self._sent = numbers.get("sent", 0.0)

    def numbers(self) -> dict[str, Any]:
        cash = (self._given, self._virtual, self._made)
        sent = {"sent": self._sent} if self._sent else {}
        return {"cash": cash, "in_line": self._in_line, **sent}

    def enter(self, link: Link, number: int, cash: float | None) -> int:
        is_page = REQUISITE < link.sitemap <= 0
        if not is_page and link.via:  # it gets no cash, and its URL may be that of a page
            return _priority(0.0)
        credit = self._credits.get(link.url) if link.retries else None
        if credit is not None:
            received, given_before, _ = credit
        else:
            received = self._make(link) if cash is None else self._draw(cash)
            given_before = self._given
            self._in_line += 1
        self._credits[link.url] = received, given_before, number
        return _priority(received)

    def spend(self, page: Link, links: Sequence[Link]) -> tuple[Sequence[Link], float]:
        self._give()
        return self._shared_out(self._collect(page), links)

    def worth(self, page: Link) -> float:
        credit = self._credits.get(page.url)
        return credit[0] + self._given - credit[1] if credit is not None else 0.0

    def spend_again(self, links: Sequence[Link], worth: float) -> tuple[Sequence[Link], float]:
        """With new cash: as much as the page had when it was fetched first."""
        self._give()
        self._made += worth
        self._virtual += worth
        return self._shared_out(worth, links)

    def _shared_out(self, cash: float, links: Sequence[Link]) -> tuple[Sequence[Link], float]:
        distinct = tuple({link.url: link for link in links}.values())
        return distinct, (1 - TAX) * cash / max(len(distinct), 1)

    def pay(self, link: Link, cash: float) -> Move | None:
        credit = self._credits.get(link.url)
        if credit is None:  # fetched, or refused
            return None
        received, given_before, number = credit
        self._credits[link.url] = received + self._draw(cash), given_before, number
        priority, better = _priority(received), _priority(received + cash)
        return (priority, number, better) if better < priority else None

    def forfeit(self, link: Link) -> None:
        if link.sitemap > REQUISITE:  # its URL may be that of a page
            self._collect(link)

    def send(self, cash: float) -> None:
        self._sent += self._draw(cash)

    def receive(self, cash: float) -> None:
        self._made += cash
        self._virtual += cash

    def audit(self) -> None:
        held = [received + self._given - before for received, before, _ in self._credits.values()]
        assert len(held) == self._in_line
        cash = fsum(held) + self._virtual + self._sent
        assert isclose(cash, self._made, rel_tol=1e-9), f"{cash} of {self._made}"

    def _collect(self, link: Link) -> float:
        """Move the cash of `link` to the virtual page. Returns the amount."""
        credit = self._credits.pop(link.url, None)
        if credit is None:
            return 0.0
        received, given_before, _ = credit
        cash = received + self._given - given_before
        self._virtual += cash
        self._in_line -= 1
        return cash

    def _make(self, link: Link) -> float:
        """Cash for a link that gets no cash from a page.

        A seed gets 1. A user's own Request gets the mean of the queued URLs. A link of a page too
        large for one batch gets 0.
        """
        if link.via:
            return 0.0
        cash = 1.0 if link.depth == 0 else (self._made - self._sent) / max(self._in_line, 1)
        self._made += cash
        return cash

    def _draw(self, cash: float) -> float:
        """Take a share from the virtual page, which holds the cash of the page fetched last."""
        self._virtual -= cash
        return cash

    def _give(self) -> None:
        """Give the cash of the virtual page to the queued URLs; it keeps the rounding error."""
        if self._in_line:
            given = self._given + self._virtual / self._in_line
            self._virtual -= (given - self._given) * self._in_line
            self._given = given


def _priority(cash: float) -> int:
    """One more each time that cash is halved. A seed's cash is in the middle of its priority."""
    power = log2(cash) if cash > 0 else -_LEAST
    return max(round(_MOST - max(power, -_LEAST)), 1)


ORDERINGS: dict[str, type[Ordering]] = {
    "level": Level,
    "depth": Depth,
    "least-visited": LeastVisited,
    "opic": Opic,
    "language": Language,
}
