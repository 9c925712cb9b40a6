"""Reads a frontier on disk from another process, also while its crawl runs; or from its own.

An `Inspection` sees the last commit before it was opened, and changes nothing. Times are UTC. Does
not explain why a URL is where it is: `webcrawl.live.frontierexplanation` does.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from heapq import nlargest
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from webcrawl.frontier.backlog import due_s, is_kept, was_kept
from webcrawl.frontier.counters import NO_VISITS, Counters
from webcrawl.frontier.disk import rows
from webcrawl.frontier.disk.clock import clock_warning
from webcrawl.frontier.disk.database import Database, is_begun, size_bytes
from webcrawl.frontier.disk.hosts import read_host
from webcrawl.frontier.disk.identity import read_identity, read_numbers
from webcrawl.frontier.disk.queue import HostQueue
from webcrawl.frontier.disk.seenrows import SeenRows
from webcrawl.frontier.disk.visitrows import VisitRows
from webcrawl.frontier.host import Host, State
from webcrawl.frontier.lease import Link
from webcrawl.frontier.orderings import ORDERINGS, Ordering
from webcrawl.frontier.store import StoreError, UrlStatus
from webcrawl.frontier.trust import TRUST
from webcrawl.frontier.visitstate import VisitState
from webcrawl.parse.jointrules import read_rules
from webcrawl.parse.robots import RobotsRules

LARGEST = 10
_KEPT = -1  # counts the links at all priorities of kept links (`backlog.was_kept`)
_OPEN_TRIES = 5  # a running crawl may delete a file between two steps of opening the database

# Of a host: fewer states than `State` has. The texts follow "1,234 hosts".
HOST_STATUSES = {
    "ready": "have URLs and may be asked now, or are being asked",
    "snoozed": "have URLs and may be asked later: delay or back-off",
    "waiting": "have URLs and no place among the active hosts yet",
    "deferred": "have only URLs that are kept for a later try",
    "retired": "have no address that may be asked",
    "exhausted": "have no URL left",
}


class InLine(NamedTuple):
    """A link in its host's queue: how many links are ahead of it, and its place there."""

    ahead: int
    priority: int
    number: int
    link: Link


class Inspection:
    """A crawl as of its last commit. Any method raises StoreError if a file is damaged."""

    def __init__(self, of: Path | Database) -> None:
        """Of a folder, until `close`; or of the own crawl. StoreError without a frontier."""
        with ExitStack() as opened:
            if isinstance(of, Path):
                if not os.access(of, os.W_OK) and of.is_dir():
                    of = opened.enter_context(_writable(of))
                of = _opened(of)
                opened.callback(of.close)
            self._db = of
            identity = read_identity(self._db)
            if identity is None:
                raise StoreError(f"{self._db.folder} is no frontier: it is empty")
            self._opened = opened.pop_all()
        self._seen = SeenRows(self._db, identity["seen_key"])
        self.begun: str = identity["created"]
        self.settings: dict[str, Any] = identity["settings"]  # those that identify the crawl
        self.order = str(self.settings.get("FRONTIER_ORDER", ""))
        ordering = ORDERINGS.get(self.order, Ordering)
        self.shift = 1 - ordering.shown_from  # of the priorities in rows
        numbers = read_numbers(self._db) or {}
        self.run: int = numbers.get("run", 0)  # number of the last run
        self.run_began: float = numbers.get("began", 0.0)
        self.last_time: float = numbers.get("utc", 0.0)  # of the last commit
        self.counters = Counters()
        self.counters.restore(numbers.get("counters", {}))

    def close(self) -> None:
        self._opened.close()

    def hosts(self) -> Iterator[Host]:
        """Every host ever seen, by name."""
        for key, row in self._db.rows(rows.HOST):
            yield read_host(self._db, key[len(rows.HOST) :].decode(), row, 0.0, self.run)

    def host(self, name: str) -> Host | None:
        row = self._db.get(rows.HOST + name.encode())
        return None if row is None else read_host(self._db, name, row, 0.0, self.run)

    def due(self, in_line: InLine, host: Host) -> float:
        """The time of the next try of a kept link of `host`; 0.0 if the link is not kept."""
        if not is_kept(in_line.priority, host):
            return 0.0
        due_at = self.run_began + due_s(in_line.number)
        return max(due_at, host.retired_until) if host.deferrals else due_at

    def pending(self) -> Iterator[tuple[int, str]]:
        """(priority, URL) of all links queued or leased, host by host, the best first."""
        for key, row in self._db.rows(rows.QUEUE):
            yield rows.queue_place(key)[0], rows.read_link(row).url

    def pending_links(self) -> Iterator[Link]:
        """The links of `pending`."""
        return (rows.read_link(row) for _, row in self._db.rows(rows.QUEUE))

    def commands(self) -> list[bytes]:
        """The commands of the user that later runs obey."""
        return [row for _, row in self._db.rows(rows.COMMAND)]

    def has(self, url: str) -> bool:
        """Whether `url` was ever queued."""
        return self._seen.has(url)

    def status(self, url: str) -> UrlStatus | None:
        """The outcome of `url`, None before it has one."""
        return self._seen.status(url)

    def visit(self, url: str) -> tuple[float, VisitState] | None:
        """When `url` is visited again (UTC) and what is known of it; None if it is not waiting."""
        found = VisitRows(self._db, self._seen, 0.0).find(url)
        return (found[0], VisitState.of_row(found[1])) if found is not None else None

    def is_trusted(self, host: str) -> bool:
        """Whether `host` gets conditional requests (RECRAWL)."""
        trust = self._db.get(rows.COUNT + f"visits {TRUST}{host}".encode())
        return trust is None or any(trust)

    def in_line(self, url: str, queue: HostQueue) -> InLine | None:
        """The place of `url` in `queue`, None if it is not there. O(queue)."""
        text = url.encode()
        for ahead, (key, row) in enumerate(self._db.rows(rows.queue_prefix(queue.host_id))):
            if text in row and (link := rows.read_link(row)).url == url:
                return InLine(ahead, *rows.queue_place(key), link)
        return None

    def hosts_before(self, queue: HostQueue) -> int:
        """How many hosts wait in front of the host of `queue`. O(these hosts)."""
        waiting = (key for key, _ in self._db.rows(rows.WAITING))
        return sum(1 for _ in takewhile(queue.place.__gt__, waiting))

    def rules(self, origin: str) -> RobotsRules | None:
        row = self._db.get(rows.RULES + origin.encode())
        return None if row is None else read_rules(row)

    def summary(self, now: float) -> list[str]:
        """A summary of the crawl, a few lines. O(hosts + pending): 2 µs each."""
        warning, now = clock_warning(self.last_time, now), max(now, self.last_time)
        statuses: Counter[str] = Counter()
        sizes = []
        for host in self.hosts():
            status = host_status(host, now)
            statuses[status] += 1
            length = host.queue.stored()[0]
            if length:
                sizes.append((length, host.name, status))
        places = Counter(
            _KEPT if was_kept(priority) else priority for priority, _ in self.pending()
        )
        kept = self.counters.kept.total()
        before = max(places.pop(_KEPT, 0) - kept, 0)
        visits = Counter({k: n for k, n in self.counters.visits.items() if k not in NO_VISITS})
        c, size_mb = self.counters, size_bytes(self._db.folder) / 1e6
        unit = "level" if self.order == "level" else "priority"
        return [
            f"Begun {self.begun}, in order {self.order}; {size_mb:.1f} MB on disk",
            *warning,
            "",
            f"{c.crawled:10,} pages crawled",
            f"{places.total() + before:10,} URLs queued",
            f"{kept:10,} URLs kept for a later try{_by_reason(c.kept)}",
            *([f"{c.in_cycle:10,} pages to visit again"] * bool(c.in_cycle)),
            *([f"{visits.total():10,} visits so far{_by_reason(visits)}"] * bool(visits)),
            f"{c.dropped.total():10,} links and URLs dropped{_by_reason(c.dropped)}",
            "",
            f"{statuses.total():10,} hosts",
            *(f"{statuses[each]:10,} {each:10} {HOST_STATUSES[each]}" for each in HOST_STATUSES),
            "",
            f"Queued by {unit}",
            *(f"{places[each]:10,} {unit} {each}" for each in sorted(places)),
            *([f"{before:10,} kept before and queued again, behind these"] if before else []),
            "",
            "Largest queues",
            *(f"{n:10,} {name}, {status}" for n, name, status in nlargest(LARGEST, sizes)),
        ]


def host_status(host: Host, now: float) -> str:
    """One of HOST_STATUSES."""
    if host.state is State.DEFERRED:
        return "deferred"
    if host.retired_until > now:
        return "retired"
    if not host.queue.stored()[0]:
        return "exhausted"
    if host.state is State.WAITING:
        return "waiting"
    return "snoozed" if max(host.next_at, host.resolve_at) > now else "ready"


@contextmanager
def _writable(folder: Path) -> Iterator[Path]:
    """A temporary folder of symbolic links to the files of `folder`, which is read-only for us:
    RocksDB writes its options beside the files that it opens."""
    with TemporaryDirectory(prefix="webcrawl-") as made:
        for path in folder.absolute().iterdir():
            if path.suffix != ".json":
                (Path(made) / path.name).symlink_to(path)
        yield Path(made)


def _opened(folder: Path) -> Database:
    for _ in range(_OPEN_TRIES):
        try:
            return Database(folder, read_only=True)
        except StoreError:
            if not is_begun(folder):
                raise
            time.sleep(0.1)
    return Database(folder, read_only=True)


def _by_reason(counts: Counter[str]) -> str:
    some = ((reason, count) for reason, count in counts.most_common() if count)
    reasons = ", ".join(f"{reason} {count:,}" for reason, count in some)
    return f": {reasons}" if reasons else ""
