"""What a frontier keeps: the interface between its core and the places where state can be.

Plain calls, made by one thread at a time. What a store is told between two commits is there at
once for those who ask it, and lasts, if the store does, from the next `commit` on: all or nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from math import inf
from typing import Any, Protocol

from webcrawl.frontier.caps import Counts
from webcrawl.frontier.host import Host, State
from webcrawl.frontier.lease import Link
from webcrawl.frontier.queue import HostQueue, Queue
from webcrawl.frontier.seen import SeenSet
from webcrawl.items import Original
from webcrawl.parse.robots import RobotsRules

Numbers = dict[str, Any]  # as JSON has it
# Of a URL in line: cash received, what each had been given before, number in its host's queue.
Credit = tuple[float, float, int]


class StoreError(Exception):
    """The fault of a folder, a disk or the main process: one line for the user that names it."""


class Credits(Protocol):
    """Credits of URLs in line: a dict, or what a store keeps."""

    def get(self, url: str, /) -> Credit | None: ...

    def __setitem__(self, url: str, credit: Credit, /) -> None: ...

    def pop(self, url: str, default: None, /) -> Credit | None: ...

    def values(self) -> Iterable[Credit]:
        """All of them, as of the last commit. For tests."""


class Store(ABC):
    """All that a crawl knows."""

    # Hosts that an earlier run knew were last asked before this one began: nobody knows when.
    resumed: bool = False
    numbers: Numbers = {}  # of the last commit of an earlier run
    run: int = 0  # how many runs of this crawl were before

    @abstractmethod
    def add_urls(self, urls: Sequence[str]) -> list[bool]:
        """The URL-seen test: for each of `urls` (canonical) whether it is new; it is then known."""

    @abstractmethod
    def record_status(self, link: Link, what: str, now: float, duplicate_of: str = "") -> None:
        """What came of a URL, for `scrapy explain`: a status code, or why it was dropped."""

    @abstractmethod
    def counts(self, kind: str) -> Counts:
        """The numbers of one kind, by name."""

    @abstractmethod
    def credits(self) -> Credits:
        """What the ordering keeps of URLs in line, where it does."""

    @abstractmethod
    def original(self, content: bytes) -> Original | None:
        """Who had `content` (a digest, or what stands for one) first."""

    @abstractmethod
    def keep_original(self, content: bytes, original: Original) -> None: ...

    @abstractmethod
    def rules(self, origin: str) -> RobotsRules:
        """What was kept for `origin`; KeyError if nothing was."""

    @abstractmethod
    def keep_rules(self, origin: str, rules: RobotsRules) -> None: ...

    @abstractmethod
    def host(self, name: str) -> Host:
        """A host that is not on the workbench: as it was when `commit` gave it up, or new."""

    @abstractmethod
    def best_waiting(self) -> tuple[int, int] | None:
        """(rank, number) of the best host that waits for a place on the workbench."""

    @abstractmethod
    def next_waiting(self) -> str | None:
        """Name of that host, which no longer waits."""

    @abstractmethod
    def next_due_at(self) -> float:
        """When the first of the deferred hosts is due: inf never; one of an earlier run, now."""

    @abstractmethod
    def next_due(self) -> str | None:
        """Name of that host, which is no longer in line."""

    def hosts_with_kept(self, after: bytes, limit: int) -> tuple[list[str], bytes | None]:
        """Names of those among the next `limit` hosts behind the key `after` that had kept links
        at the last commit, and where to go on; None at the end.
        """
        return [], None

    def active_before(self) -> list[str]:
        """Names of the hosts that had a place on the workbench when an earlier run ended."""
        return []

    def is_of_earlier_run(self, host: Host) -> bool:
        return False

    @abstractmethod
    def commit(self, changed: Iterable[Host], numbers: Callable[[], Numbers]) -> Iterable[Host]:
        """Keep everything; those of `changed` that need not stay in memory."""

    @abstractmethod
    def all_hosts(self, at_hand: Mapping[str, Host]) -> list[Host]:
        """Every host ever seen; those `at_hand` are on the workbench. For tests."""


class MemoryStore(Store):
    """State that ends with the process. All hosts stay on the workbench, so none waits.

    Memory: 100 bytes a URL ever seen, 350 a pending one, 500 a host, 250 a distinct content and 100
    more where it was sent compressed or in chunks, and the rules of each origin (admission.robots
    bounds them).
    """

    def __init__(self, queue: Callable[[], Queue] = HostQueue) -> None:
        self._queue = queue
        self._seen = SeenSet()
        self._contents: dict[bytes, Original] = {}
        self._rules: dict[str, RobotsRules] = {}
        self._deferred: list[tuple[float, str]] = []  # heap; one that is no more stays until due

    def add_urls(self, urls: Sequence[str]) -> list[bool]:
        return [self._seen.add(url) for url in urls]

    def record_status(self, link: Link, what: str, now: float, duplicate_of: str = "") -> None:
        """Nobody can ask."""

    def counts(self, kind: str) -> Counts:
        return {}

    def credits(self) -> Credits:
        by_url: dict[str, Credit] = {}
        return by_url

    def original(self, content: bytes) -> Original | None:
        return self._contents.get(content)

    def keep_original(self, content: bytes, original: Original) -> None:
        self._contents[content] = original

    def rules(self, origin: str) -> RobotsRules:
        return self._rules[origin]

    def keep_rules(self, origin: str, rules: RobotsRules) -> None:
        self._rules[origin] = rules

    def host(self, name: str) -> Host:
        return Host(name, self._queue())

    def best_waiting(self) -> tuple[int, int] | None:
        return None

    def next_waiting(self) -> str | None:
        return None

    def next_due_at(self) -> float:
        return self._deferred[0][0] if self._deferred else inf

    def next_due(self) -> str | None:
        return heappop(self._deferred)[1] if self._deferred else None

    def commit(self, changed: Iterable[Host], numbers: Callable[[], Numbers]) -> Iterable[Host]:
        for host in changed:
            if host.state is State.DEFERRED:
                heappush(self._deferred, (host.due_at, host.name))
        return ()

    def all_hosts(self, at_hand: Mapping[str, Host]) -> list[Host]:
        return list(at_hand.values())
