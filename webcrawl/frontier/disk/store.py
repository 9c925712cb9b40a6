"""The store: the whole state of a crawl, as rows of one database, on disk or in memory.

Owns the moment when a row is written. One commit at the end of a batch has all changes of that
batch, so a run after a kill resumes from one consistent state of the crawl.

Memory: that of `Database`, the heads of lines (`RowLine`), and the changes of the batch.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from itertools import islice
from math import inf
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from webcrawl.frontier.caps import CapReason, Counts
from webcrawl.frontier.disk import rows
from webcrawl.frontier.disk.clock import clock_warning
from webcrawl.frontier.disk.database import Database
from webcrawl.frontier.disk.hostrows import has_kept, host_row, read_host
from webcrawl.frontier.disk.identity import Identity, check_folder, crawl_id, read_numbers
from webcrawl.frontier.disk.queue import HostLine, HostQueue
from webcrawl.frontier.disk.rowline import RowLine
from webcrawl.frontier.disk.seenrows import Credits, RecentRows, SeenRows
from webcrawl.frontier.disk.view import View
from webcrawl.frontier.disk.visitrows import VisitRows
from webcrawl.frontier.host import Host, State
from webcrawl.frontier.lease import Link
from webcrawl.frontier.overview import StoredHosts
from webcrawl.frontier.store import Numbers, UrlStatus
from webcrawl.items import Original
from webcrawl.parse.robots import RobotsRules
from webcrawl.parse.robotsparsers import read_rules

NONE_WAITS: Final = (sys.maxsize, 0)
# Deviation: `via` is not stored for URLs that a cap refuses when they are found. Most URLs of a
# crawl may be such URLs.
_REFUSED_WHEN_FOUND: Final[frozenset[CapReason]] = frozenset({"host_cap", "domain_cap"})


class Store:
    """All state of a crawl, as rows in `folder`; None: in memory, as long as the process lives.

    resumed -- an earlier run began this crawl. Its hosts were asked until an unknown time
    numbers -- of the last commit of the earlier run; {} without one
    run -- how many runs of this crawl came before
    visits -- the pages that are visited again; None without them
    utc_s -- turns monotonic times into UTC

    Plain calls, by one thread at a time. A change is visible at once. On disk, all changes between
    two commits become lasting together at the second one.
    """

    def __init__(
        self,
        folder: Path | None,
        identity: Identity | None = None,
        *,
        now: float = 0.0,
        utc_s: float = 0.0,
        is_shard: bool = False,
        has_visits: bool = False,
    ) -> None:
        """Resume the crawl in `folder`, or begin one. StoreError if that fails.

        `now` is monotonic; rows have UTC, which is a monotonic time plus `utc_s`. `is_shard`: the
        store is given mail. `has_visits`: it is given visits.
        """
        parts = rows.SHARD * is_shard | rows.VISITS * has_visits
        row, self.warnings = check_folder(folder, identity or {}, parts=parts)
        self._db = Database(folder)
        with ExitStack() as opened:
            opened.callback(self._db.close)
            self._db.put(rows.IDENTITY, json.dumps(row).encode())
            self._db.commit()
            numbers = read_numbers(self._db)
            opened.pop_all()
        self.crawl_id = crawl_id(row)
        self.is_shard = rows.has(row["format"], rows.SHARD)
        self.resumed = numbers is not None
        self.numbers: Numbers = numbers or {}
        # If the system clock was set back since the last run, all times in the rows would lie in
        # the future and hosts would wait for them. So the crawl's time continues from its last
        # commit.
        last_time = self.numbers.get("utc", 0.0)
        self.warnings += clock_warning(last_time, now + utc_s)
        self.utc_s: float = max(utc_s, last_time - now)
        self._hosts: int = self.numbers.get("hosts", 0)
        self._hosts_before = self._hosts
        self.run = self.numbers.get("run", -1) + 1
        self._line = HostLine(self._db, rows.WAITING, self.numbers.get("waiting", 0))
        self._deferred = HostLine(self._db, rows.DEFERRED, self.numbers.get("deferred", 0))
        self._lines = {rows.WAITING: self._line, rows.DEFERRED: self._deferred}
        self._mail: dict[int, RowLine] = {}  # by shard
        self._seen = SeenRows(self._db, row["seen_key"])
        self.visits: VisitRows | None = None
        if rows.has(row["format"], rows.VISITS):
            self.visits = VisitRows(self._db, self._seen, self.utc_s)
        self._taken: set[str] = set()  # hosts taken from a line since the last commit

    def view(self) -> View:
        """The last commit, for a reader in another thread. StoreError if the store is closed."""
        return View(self._db)

    def checkpoint(self, folder: Path) -> None:
        """Write the last commit to `folder`, which must not exist. StoreError."""
        self._db.checkpoint(folder)

    # URLs, contents, rules, counts

    def add_urls(self, urls: Sequence[str]) -> list[bool]:
        """The URL-seen test: whether each of `urls` (canonical) is new. Then all are known."""
        return self._seen.add_each(urls)

    def is_known(self, url: str) -> bool:
        """Whether `add_urls` got `url` before."""
        return self._seen.has(url)

    def record_status(self, link: Link, outcome: str, now: float, duplicate_of: str = "") -> None:
        """Keep the end of a URL for `scrapy explain`: `outcome` is a status code or drop reason."""
        via = "" if outcome in _REFUSED_WHEN_FOUND else link.via
        time = int(now + self.utc_s)
        status = UrlStatus(outcome, time, link.depth, link.redirects, via, duplicate_of)
        if self.visits is not None:  # a user's own request may end while the page is in the cycle
            before = self._seen.status(link.url)
            if before is not None and before.visit_ms:
                status = replace(status, visit_ms=before.visit_ms)
        self._seen.keep(link.url, rows.encode(status))

    def counts(self, kind: str) -> Counts:
        """The numbers of one kind ("caps", "pages", "sitemaps"), by name."""
        return _Counts(self._db, rows.COUNT + kind.encode() + b" ")

    def counts_under(self, kind: str, prefix: str) -> list[tuple[str, int]]:
        """The numbers whose name begins with `prefix`, as of the last commit."""
        of_kind = rows.COUNT + kind.encode() + b" "
        found = self._db.rows(of_kind + prefix.encode())
        return [(key[len(of_kind) :].decode(), int.from_bytes(row)) for key, row in found]

    def credits(self) -> Credits:
        """The credits of the queued URLs, for an ordering by cash."""
        return Credits(self._seen)

    def original(self, content: bytes) -> Original | None:
        """The first page with `content`, a digest or a prefixed digest (`contents`)."""
        row = self._db.get(rows.CONTENT + content)
        return rows.read_original(row) if row is not None else None

    def keep_original(self, content: bytes, original: Original) -> None:
        self._db.put(rows.CONTENT + content, rows.encode(original))

    def rules(self, origin: str) -> RobotsRules:
        """The stored rules of `origin`; KeyError without any."""
        row = self._db.get(rows.RULES + origin.encode())
        if row is None:
            raise KeyError(origin)
        return read_rules(row)

    def keep_rules(self, origin: str, rules: RobotsRules) -> None:
        self._db.put(rows.RULES + origin.encode(), rules.to_bytes())

    # Hosts

    def host(self, name: str) -> Host:
        """A host that is not on the workbench: as of its last commit, or new."""
        row = self._db.get(rows.HOST + name.encode())
        if row is not None:
            return read_host(self._db, name, row, self.utc_s, self.run)
        self._hosts += 1
        return Host(name, HostQueue(self._db, self._hosts))

    def is_of_earlier_run(self, host: Host) -> bool:
        """Whether an earlier run created `host`."""
        known: bool = host.queue.host_id <= self._hosts_before
        return known

    def active_before(self) -> list[str]:
        """Names of the hosts that were active when an earlier run ended."""
        return [name.decode() for _, name in self._db.rows(rows.ACTIVE)]

    def best_waiting(self) -> tuple[int, int]:
        """(rank, number) of the best waiting host; NONE_WAITS, behind all hosts, if none waits."""
        first = self._line.first() if self._line.length else None
        return rows.waiting_place(first) if first else NONE_WAITS

    def stored_hosts(self) -> StoredHosts:
        """Numbers of hosts, as of the last commit."""
        return StoredHosts(self._hosts, self._line.length, self._deferred.length)

    def next_waiting(self) -> str | None:
        """Remove the best waiting host; its name."""
        return self._take(self._line)

    def next_due_at(self) -> float:
        """When the first deferred host is due; inf without one; 0.0 for one of an earlier run."""
        first = self._deferred.first() if self._deferred.length else None
        if first is None:
            return inf
        run, at = rows.deferred_place(first)
        return at - self.utc_s if run == self.run else 0.0

    def next_due(self) -> str | None:
        """Remove the first deferred host; its name."""
        return self._take(self._deferred)

    def hosts_with_kept(self, after: bytes, limit: int) -> tuple[list[str], bytes | None]:
        """Hosts with kept links at the last commit, among the next `limit` behind the key `after`.

        Returns their names, and the key for the next call; None at the end.
        """
        found = list(islice(self._db.rows(rows.HOST, after), limit))
        names = [key[len(rows.HOST) :].decode() for key, row in found if has_kept(row)]
        return names, found[-1][0] if len(found) == limit else None

    def _take(self, line: HostLine) -> str | None:
        name = line.take()
        if name is not None:
            self._taken.add(name)
        return name

    def all_hosts(self, at_hand: Mapping[str, Host]) -> list[Host]:
        """Every host ever seen; `at_hand` are those on the workbench. For tests."""
        hosts = dict(at_hand)
        for key, row in self._db.rows(rows.HOST):
            name = key[len(rows.HOST) :].decode()
            if name not in hosts:
                hosts[name] = read_host(self._db, name, row, self.utc_s, self.run)
        return list(hosts.values())

    # Mail of a shard

    def put_mail(self, shard: int, last: int, row: bytes) -> None:
        """Keep a row of mail for `shard`, of which the last one has number `last`."""
        self._mail_line(shard).add(rows.mail_key(shard, last), row)

    def mail(self, shard: int, after: int) -> Iterator[tuple[int, bytes]]:
        """The rows for `shard` with mail behind number `after`, in order, as of the last commit.

        The first row may begin before. Each with the number of its last mail.
        """
        found = self._mail_line(shard).rows(rows.mail_key(shard, after))
        return ((rows.mail_number(key), row) for key, row in found)

    def drop_mail(self, shard: int, last: int) -> None:
        self._mail_line(shard).remove(rows.mail_key(shard, last))

    def _mail_line(self, shard: int) -> RowLine:
        line = self._mail.get(shard)
        if line is None:
            line = self._mail[shard] = RowLine(self._db, rows.mail_prefix(shard))
        return line

    def keep_robots_task(self, origin: str, row: bytes) -> None:
        """Keep the task for a foreign `origin`, in place of an earlier one."""
        self._db.put(rows.ROBOTS_TASK + origin.encode(), row)

    def drop_robots_task(self, origin: str) -> None:
        self._db.delete(rows.ROBOTS_TASK + origin.encode())

    def robots_tasks(self) -> list[bytes]:
        """The rows that an earlier run kept."""
        return [row for _, row in self._db.rows(rows.ROBOTS_TASK)]

    # Commands of the user, for later runs

    def commands(self) -> dict[bytes, bytes]:
        """The rows of those that are kept, in their order, by key, as of the last commit."""
        return dict(self._db.rows(rows.COMMAND))

    def keep_command(self, row: bytes) -> None:
        """Keep a command behind all others."""
        last = max(self.commands(), default=rows.COMMAND + bytes(4))
        self._db.put((int.from_bytes(last) + 1).to_bytes(len(last)), row)

    # Commits

    def sync(self) -> None:
        """Return once all commits are on the disk. StoreError."""
        self._db.sync()

    def commit(self, changed: Iterable[Host], numbers: Callable[[], Numbers]) -> Iterable[Host]:
        """Keep all changes. Returns those of `changed` that may leave the workbench."""
        dispensable = []
        for host in changed:
            links = host.queue.stored()
            self._move(host, has_links=links[0] > 0)
            row = host_row(host, links, self.utc_s, self.run)
            self._db.put(rows.HOST + host.name.encode(), row)
            if not (host.state.is_active or host.robots_tasks or host.robots_elsewhere):
                dispensable.append(host)
        self._taken.clear()
        kept = numbers()
        utc = {"utc": kept.pop("now") + self.utc_s, "began": kept.pop("began") + self.utc_s}
        lengths = {"waiting": self._line.length, "deferred": self._deferred.length}
        kept |= {"hosts": self._hosts, "run": self.run, **lengths, **utc}
        self._db.put(rows.NUMBERS, msgspec.json.encode(kept))  # json.dumps takes 10 µs more
        self._db.commit()
        return dispensable

    def close(self) -> None:
        self._db.close()

    def _move(self, host: Host, *, has_links: bool) -> None:
        """Write the one WAITING, DEFERRED or ACTIVE row of `host`; no row if it has no links."""
        queue = host.queue
        before = b"" if host.name in self._taken else queue.place
        if host.state is State.WAITING:
            number = queue.best[1] if queue.best else 0
            place = rows.waiting_key(host.rank, number, queue.host_id)
        elif host.state is State.DEFERRED:
            place = rows.deferred_key(self.run, host.due_at + self.utc_s, queue.host_id)
        elif has_links and before[:1] == rows.ACTIVE:
            return
        else:
            place = rows.active_key(queue.host_id) if has_links else b""
        queue.place = place
        if place == before:
            return
        if line := self._lines.get(before[:1]):
            line.remove(before)
        elif before:
            self._db.delete(before)
        if line := self._lines.get(place[:1]):
            line.add(place, host.name)
        elif place:
            self._db.put(place, host.name.encode())


class _Counts:
    """Numbers by name, on disk, with a cache: most numbers were read or written lately."""

    def __init__(self, db: Database, prefix: bytes) -> None:
        self._db = db
        self._prefix = prefix

    @cached_property
    def _recent(self) -> RecentRows:
        """Made when it is first used: it takes 2 MB, and few crawls count all kinds."""
        return RecentRows()

    def get(self, name: str, default: int, /) -> int:
        key = self._prefix + name.encode()
        row = self._recent.get(key)
        if row is None:
            row = self._db.get(key)
        return int.from_bytes(row) if row is not None else default

    def __setitem__(self, name: str, count: int, /) -> None:
        key, row = self._prefix + name.encode(), count.to_bytes(8)
        self._db.put(key, row)
        self._recent[key] = row
