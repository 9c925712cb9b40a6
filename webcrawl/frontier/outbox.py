"""What is on its way from the crawl to the frontier: new links, and leases that have ended.

Owns how much of it is handed over at a time. One page may have 750,000 links; they are put in
batches while its lease is still out, so other hosts' leases come and go between them, and no call
of a store is long. A kill in between finds the page in line and some of its links known: it is
fetched again, and what it links to is found or known.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from webcrawl.frontier.base import Frontier
from webcrawl.frontier.lease import Fetched, Lease, Link, Outcome
from webcrawl.frontier.urlcache import UrlCache

LINKS_AT_A_TIME = 2_000  # some 10 ms of a store's time
_CHARACTERS_AT_A_TIME = 400_000  # of URLs: the longest that scope lets by take it 0.1 ms each


class Outbox:
    """True while there is something that the frontier has not got. What it has goes to `known`."""

    def __init__(self, frontier: Frontier, url_cache: UrlCache | None = None) -> None:
        self._frontier = frontier
        self._url_cache = url_cache
        self._links: dict[bool, list[Link]] = {False: [], True: []}  # by `force`
        self._ended: list[tuple[Lease, Outcome]] = []
        self._large: deque[tuple[Iterator[Link], Lease, Outcome]] = deque()
        self._under_way = False
        # Leases whose answers have a place of the target, until the frontier has them back.
        self.placed: set[Lease] = set()

    def __bool__(self) -> bool:
        return any(self._links.values()) or bool(self.ended or self._under_way)

    @property
    def ended(self) -> int:
        """Leases that have ended and are not released."""
        return len(self._ended) + len(self._large)

    def put(self, link: Link, *, force: bool) -> None:
        self._links[force].append(link)

    def release(self, lease: Lease, outcome: Outcome) -> None:
        if isinstance(outcome, Fetched) and len(outcome.links) > LINKS_AT_A_TIME:
            self._large.append((iter(outcome.links), lease, replace(outcome, links=())))
        else:
            self._ended.append((lease, outcome))

    async def deliver(self, now: float) -> None:
        """Hand over what has come in, of large pages one batch. Whether that is all: `bool`.

        Each thing is taken from here in the step that hands it over, so a caller that is cancelled
        loses nothing.
        """
        self._under_way = True  # on the way to a store, and in neither place
        for force, links in self._links.items():
            if links:
                self._links[force] = []
                await self._frontier.put(links, now, force=force)
        if self._ended:
            ended, self._ended = self._ended, []
            await self._frontier.release(ended, now)
            for lease, outcome in ended:
                self.placed.discard(lease)
                if isinstance(outcome, Fetched):
                    self._remember(outcome.links)
        if self._large:
            await self._put_batch(now)
        self._under_way = False

    async def _put_batch(self, now: float) -> None:
        links, lease, outcome = self._large[0]
        batch = list(islice(links, LINKS_AT_A_TIME))
        if batch:
            await self._frontier.put(batch, now)
            self._remember(batch)
        else:
            self._large.popleft()
            self._ended.append((lease, outcome))

    def _remember(self, links: Iterable[Link]) -> None:
        if self._url_cache is not None:
            self._url_cache.add(links)


def urls_at_a_time(urls: Sequence[str]) -> int:
    """How many of `urls` to look at before the event loop has a turn. 10 ns for each."""
    length = sum(map(len, urls))
    if length <= _CHARACTERS_AT_A_TIME:
        return LINKS_AT_A_TIME
    return max(1, min(LINKS_AT_A_TIME, _CHARACTERS_AT_A_TIME * len(urls) // length))
