"""Buffers new links and finished leases until the scheduler's pump hands them to the frontier.

Owns the size of the batches. One page may have 750,000 links. They are put in batches while its
lease is still out, so other hosts' leases are released between the batches, and no call of the
store is long. If the process is killed between two batches, the next run finds the page queued and
some of its links known; it fetches the page again and finds the other links. So a crawl that is
closing may do the same with the pages whose links it cannot put in time (`give_back_large`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from webcrawl.frontier.base import Frontier
from webcrawl.frontier.lease import Fetched, Lease, Link, Outcome, Returned
from webcrawl.frontier.urlcache import UrlCache

LINKS_AT_A_TIME = 1_000  # 5 ms of a store's time; 0.1 s if all are known pages with dates (RECRAWL)
_CHARACTERS_AT_A_TIME = 400_000  # scope takes 0.1 ms per URL of the longest allowed


class Outbox:
    """The buffer; true while it is not empty. URLs handed over are added to `url_cache`.

    They are added first: a frontier that turns out not to get them clears the cache meanwhile.
    """

    def __init__(self, frontier: Frontier, url_cache: UrlCache | None = None) -> None:
        self._frontier = frontier
        self._url_cache = url_cache
        self._links: dict[bool, list[Link]] = {False: [], True: []}  # by `force`
        self._ended: list[tuple[Lease, Outcome]] = []
        # Links leave with their batch: to free all of a page at once takes 0.15 s.
        self._large: deque[tuple[deque[Link], Lease, Fetched]] = deque()
        self._not_put: list[deque[Link]] = []  # of pages that were given back
        self._is_delivering = False

    def __bool__(self) -> bool:
        links = self._links[False] or self._links[True]
        return bool(links or self._ended or self._large or self._is_delivering)

    @property
    def ended(self) -> int:
        """Leases that have ended and are not released yet."""
        return len(self._ended) + len(self._large)

    @property
    def has_large(self) -> bool:
        """Whether the links of a large page are not all put."""
        return bool(self._large)

    def put(self, link: Link, *, force: bool) -> None:
        self._links[force].append(link)

    def release(self, lease: Lease, outcome: Outcome) -> None:
        if isinstance(outcome, Fetched) and len(outcome.links) > LINKS_AT_A_TIME:
            self._large.append((deque(outcome.links), lease, replace(outcome, links=())))
        else:
            self._ended.append((lease, outcome))

    def give_back_large(self) -> None:
        """Return the leases of the large pages whose links are not all put."""
        for links, lease, outcome in self._large:
            self._not_put.append(links)
            back = Returned(outcome.asked_at, outcome.ended_at, details=outcome.details)
            self._ended.append((lease, back))
        self._large.clear()

    async def deliver(self, now: float) -> None:
        """Hand over all links and leases; of a large page one batch. Call it while `self` is true.

        Each link or lease leaves the buffer in the same step in which the frontier gets it, so
        nothing is lost if the caller is cancelled.
        """
        self._is_delivering = True  # links and leases may be neither here nor in the frontier
        for force, links in self._links.items():
            if links:
                self._links[force] = []
                await self._frontier.put(links, now, force=force)
        if self._ended:
            ended, self._ended = self._ended, []
            for _, outcome in ended:
                if isinstance(outcome, Fetched):
                    self._remember(outcome.links)
                    if outcome.requisites:
                        self._remember(outcome.requisites)
            await self._frontier.release(ended, now)
        if self._large:
            await self._put_batch(now)
        self._is_delivering = False

    async def _put_batch(self, now: float) -> None:
        links, lease, outcome = self._large[0]
        batch = [links.popleft() for _ in range(min(LINKS_AT_A_TIME, len(links)))]
        if batch:
            self._remember(batch)
            await self._frontier.put(batch, now)
        else:
            self._large.popleft()
            self._ended.append((lease, outcome))

    def _remember(self, links: Iterable[Link]) -> None:
        if self._url_cache is not None:
            self._url_cache.add(links)


def urls_at_a_time(urls: Sequence[str]) -> int:
    """The number of `urls` to handle before the event loop runs other tasks. 10 ns per URL."""
    length = sum(map(len, urls))
    if length <= _CHARACTERS_AT_A_TIME:
        return LINKS_AT_A_TIME
    return max(1, min(LINKS_AT_A_TIME, _CHARACTERS_AT_A_TIME * len(urls) // length))
