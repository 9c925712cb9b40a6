"""The state of a crawl as the core sees it: the interface of a store, and the store in memory.

Plain calls, by one thread at a time. A change is visible at once. If the store is lasting, all
changes between two commits become lasting together at the second one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from math import inf
from typing import Any, NamedTuple, Protocol

from webcrawl.frontier.caps import Counts
from webcrawl.frontier.host import Host, State
from webcrawl.frontier.lease import Link
from webcrawl.frontier.overview import StoredHosts
from webcrawl.frontier.queue import HostQueue, Queue
from webcrawl.frontier.seen import SeenSet
from webcrawl.items import Original
from webcrawl.parse.robots import RobotsRules

Numbers = dict[str, Any]  # JSON values
# Of a queued URL: cash from pages, the virtual page's total when the URL was queued
# (orderings.Opic), and its number.
Credit = tuple[float, float, int]


class StoreError(Exception):
    """The fault of a folder, a disk or the first process: one line for the user that names it."""


class Credits(Protocol):
    """Credits of queued URLs: a dict, or rows of a store."""

    def get(self, url: str, /) -> Credit | None: ...

    def __setitem__(self, url: str, credit: Credit, /) -> None: ...

    def pop(self, url: str, default: None, /) -> Credit | None: ...

    def values(self) -> Iterable[Credit]:
        """All of them, as of the last commit. For tests."""


class UrlStatus(NamedTuple):
    """How a URL ended, and how it was found."""

    # a status code, "head" or "sitemap" and one, or a reason of `counters.dropped`
    outcome: str
    time: float  # UTC
    depth: int
    redirects: int = 0
    via: str = ""
    duplicate_of: str = ""
    visit_ms: int = 0  # UTC milliseconds of its next visit; 0: it is not visited again


class LineOfVisits(Protocol):
    """The pages between two visits (RECRAWL), by their time: `disk.visitrows`.

    Times are monotonic seconds; states are rows of `visitstate`.
    """

    def next_due_at(self) -> float:
        """When the next page is due; inf if there is none."""

    def take_due(self, now: float, limit: int) -> list[tuple[str, bytes]]:
        """Remove up to `limit` pages that are due: (URL, state), in the order of their times."""

    def add(self, url: str, at: float, state: bytes) -> None:
        """`url`, whose status is kept and which is not in the line, is due at `at`."""

    def find(self, url: str) -> tuple[float, bytes] | None:
        """(when it is due, state); None if `url` is not in the line, as while it is queued."""

    def status(self, url: str) -> UrlStatus | None:
        """How `url` ended; None if it did not, or is not known."""

    def undated(self, url: str) -> UrlStatus | None:
        """The status of `url` if it was answered and has no revisit date; else None."""

    def remove(self, url: str, at: float) -> None:
        """Remove what `find` has found."""

    def take(self, url: str, at: float) -> None:
        """Remove what `find` has found, as `take_due` does: the page will be queued."""

    def end(self, url: str) -> None:
        """`url`, which is not in the line, is not visited again."""


class Store(ABC):
    """All state of a crawl.

    resumed -- an earlier run began this crawl. Its hosts were asked until an unknown time
    numbers -- of the last commit of the earlier run; {} without one
    run -- how many runs of this crawl came before
    visits -- the pages that are visited again; None without them
    utc_s -- turns monotonic times into UTC
    """

    resumed: bool = False
    numbers: Numbers = {}
    run: int = 0
    visits: LineOfVisits | None = None
    utc_s: float = 0.0

    @abstractmethod
    def add_urls(self, urls: Sequence[str]) -> list[bool]:
        """The URL-seen test: whether each of `urls` (canonical) is new. Then all are known."""

    @abstractmethod
    def is_known(self, url: str) -> bool:
        """Whether `add_urls` got `url` before."""

    @abstractmethod
    def record_status(self, link: Link, outcome: str, now: float, duplicate_of: str = "") -> None:
        """Keep the end of a URL for `scrapy explain`: `outcome` is a status code or drop reason."""

    @abstractmethod
    def counts(self, kind: str) -> Counts:
        """The numbers of one kind ("caps", "pages", "sitemaps"), by name."""

    def counts_under(self, kind: str, prefix: str) -> list[tuple[str, int]]:
        """The numbers whose name begins with `prefix`, as of the last commit. Of a shard."""
        raise NotImplementedError(f"{self!r} is of no shard")

    @abstractmethod
    def credits(self) -> Credits:
        """The credits of the queued URLs, for an ordering by cash."""

    @abstractmethod
    def original(self, content: bytes) -> Original | None:
        """The first page with `content`, a digest or a prefixed digest (`contents`)."""

    @abstractmethod
    def keep_original(self, content: bytes, original: Original) -> None: ...

    @abstractmethod
    def rules(self, origin: str) -> RobotsRules:
        """The stored rules of `origin`; KeyError without any."""

    @abstractmethod
    def keep_rules(self, origin: str, rules: RobotsRules) -> None: ...

    @abstractmethod
    def host(self, name: str) -> Host:
        """A host that is not on the workbench: as of its last commit, or new."""

    @abstractmethod
    def best_waiting(self) -> tuple[int, int] | None:
        """(rank, number) of the best waiting host; None if no host waits."""

    @abstractmethod
    def next_waiting(self) -> str | None:
        """Remove the best waiting host; its name."""

    @abstractmethod
    def next_due_at(self) -> float:
        """When the first deferred host is due; inf without one; 0.0 for one of an earlier run."""

    @abstractmethod
    def next_due(self) -> str | None:
        """Remove the first deferred host; its name."""

    def hosts_with_kept(self, after: bytes, limit: int) -> tuple[list[str], bytes | None]:
        """Hosts with kept links at the last commit, among the next `limit` behind the key `after`.

        Returns their names, and the key for the next call; None at the end.
        """
        return [], None

    def active_before(self) -> list[str]:
        """Names of the hosts that were active when an earlier run ended."""
        return []

    def is_of_earlier_run(self, host: Host) -> bool:
        """Whether an earlier run created `host`."""
        return False

    # Of a shard (`mailbox`)

    @abstractmethod
    def put_mail(self, shard: int, last: int, row: bytes) -> None:
        """Keep a row of mail for `shard`, of which the last one has number `last`."""

    @abstractmethod
    def mail(self, shard: int, after: int) -> Iterator[tuple[int, bytes]]:
        """The rows for `shard` with mail behind number `after`, in order, as of the last commit.

        The first row may begin before. Each with the number of its last mail.
        """

    @abstractmethod
    def drop_mail(self, shard: int, last: int) -> None:
        """Delete a row."""

    @abstractmethod
    def keep_robots_task(self, origin: str, row: bytes) -> None:
        """Keep the task for a foreign `origin`, in place of an earlier one."""

    @abstractmethod
    def drop_robots_task(self, origin: str) -> None: ...

    def robots_tasks(self) -> list[bytes]:
        """The rows that an earlier run kept."""
        return []

    @abstractmethod
    def commit(self, changed: Iterable[Host], numbers: Callable[[], Numbers]) -> Iterable[Host]:
        """Keep all changes. Returns those of `changed` that may leave the workbench."""

    def stored_hosts(self) -> StoredHosts | None:
        """Numbers of hosts, as of the last commit; None if all hosts are on the workbench."""
        return None

    @abstractmethod
    def all_hosts(self, at_hand: Mapping[str, Host]) -> list[Host]:
        """Every host ever seen; `at_hand` are those on the workbench. For tests."""


class MemoryStore(Store):
    """State that ends with the process. All hosts stay on the workbench, so no host waits.

    Memory: 100 bytes per URL ever seen, 350 per pending URL, 500 per host, 250 per distinct content
    and 100 more if it was sent compressed or in chunks, and the rules of each origin
    (`parse.robots` bounds them). Of a shard also 350 per link that another shard has not got yet.
    """

    def __init__(self, queue: Callable[[], Queue] = HostQueue) -> None:
        self._queue = queue
        self._seen = SeenSet()
        self._contents: dict[bytes, Original] = {}
        self._rules: dict[str, RobotsRules] = {}
        self._deferred: list[
            tuple[float, str]
        ] = []  # heap; a host no longer deferred stays until then
        self._mail: dict[int, dict[int, bytes]] = {}  # by shard and the last number

    def add_urls(self, urls: Sequence[str]) -> list[bool]:
        return [self._seen.add(url) for url in urls]

    def is_known(self, url: str) -> bool:
        return url in self._seen

    def record_status(self, link: Link, outcome: str, now: float, duplicate_of: str = "") -> None:
        """Does nothing: `scrapy explain` reads stores on disk only."""

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

    def put_mail(self, shard: int, last: int, row: bytes) -> None:
        self._mail.setdefault(shard, {})[last] = row

    def mail(self, shard: int, after: int) -> Iterator[tuple[int, bytes]]:
        rows = self._mail.get(shard, {})  # in order
        return ((last, row) for last, row in list(rows.items()) if last > after)

    def drop_mail(self, shard: int, last: int) -> None:
        del self._mail[shard][last]

    def keep_robots_task(self, origin: str, row: bytes) -> None:
        """Does nothing: there is no next run."""

    def drop_robots_task(self, origin: str) -> None:
        """Does nothing, as `keep_robots_task`."""

    def commit(self, changed: Iterable[Host], numbers: Callable[[], Numbers]) -> Iterable[Host]:
        for host in changed:
            if host.state is State.DEFERRED:
                heappush(self._deferred, (host.due_at, host.name))
        return ()

    def all_hosts(self, at_hand: Mapping[str, Host]) -> list[Host]:
        return list(at_hand.values())
