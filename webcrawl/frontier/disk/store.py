"""The store: the whole state of a crawl, as rows of one database, on disk or in memory.

Owns the moment when a row is written. One commit at the end of a batch has all changes of that
batch, so a run after a kill resumes from one consistent state of the crawl.

Memory: that of `Database`, the heads of lines (`RowLine`), and the changes of the batch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import ExitStack
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from webcrawl.frontier.caps import CapReason, Counts
from webcrawl.frontier.disk import rows
from webcrawl.frontier.disk.clock import clock_warning
from webcrawl.frontier.disk.database import Database
from webcrawl.frontier.disk.hosts import HostRows
from webcrawl.frontier.disk.identity import Identity, check_folder, crawl_id, read_numbers
from webcrawl.frontier.disk.rowline import RowLine
from webcrawl.frontier.disk.seenrows import RecentRows, SeenRows
from webcrawl.frontier.disk.visitrows import VisitRows
from webcrawl.frontier.host import Host
from webcrawl.frontier.languages import HostLanguages
from webcrawl.frontier.lease import REQUISITE, Link
from webcrawl.frontier.requisites import name_of
from webcrawl.frontier.store import Numbers, UrlStatus
from webcrawl.parse.jointrules import read_rules
from webcrawl.parse.robots import RobotsRules
from webcrawl.warc.records import Original

# Deviation: `via` is not stored for URLs that a cap refuses when they are found. Most URLs of a
# crawl may be such URLs.
_REFUSED_WHEN_FOUND: Final[frozenset[CapReason]] = frozenset({"host_cap", "domain_cap"})


class Store:
    """All state of a crawl, as rows in `folder`; None: in memory, as long as the process lives.

    created_time -- when the crawl began (UTC)
    resumed -- an earlier run began this crawl. Its hosts were asked until an unknown time
    numbers -- of the last commit of the earlier run; {} without one
    run -- how many runs of this crawl came before
    hosts -- the hosts
    seen -- the URL-seen test, and the credits of queued URLs
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
        has_visits: bool = False,
    ) -> None:
        """Resume the crawl in `folder`, or begin one. StoreError if that fails.

        `now` is monotonic; rows have UTC, which is a monotonic time plus `utc_s`. `has_visits`:
        this run visits pages again, even if no earlier one did.
        """
        row, self.warnings = check_folder(folder, identity or {})
        self._db = Database(folder)
        with ExitStack() as opened:
            opened.callback(self._db.close)
            self._db.put(rows.IDENTITY, json.dumps(row).encode())
            self._db.commit()
            numbers = read_numbers(self._db)
            opened.pop_all()
        self.crawl_id = crawl_id(row)
        self.created_time = datetime.fromisoformat(row["created"]).timestamp()
        self.resumed = numbers is not None
        self.numbers: Numbers = numbers or {}
        # If the system clock was set back since the last run, all times in the rows would lie in
        # the future and hosts would wait for them. So the crawl's time continues from its last
        # commit.
        last_time = self.numbers.get("utc", 0.0)
        self.warnings += clock_warning(last_time, now + utc_s)
        self.utc_s: float = max(utc_s, last_time - now)
        self.run = self.numbers.get("run", -1) + 1
        self.hosts = HostRows(self._db, self.numbers, self.run, self.utc_s)
        self._mail: dict[int, RowLine] = {}  # by hub
        self.seen = SeenRows(self._db, row["seen_key"])
        self.visits: VisitRows | None = None
        if has_visits or "visits" in self.numbers:
            self.visits = VisitRows(self._db, self.seen, self.utc_s)

    @property
    def database(self) -> Database:
        """For an `Inspection`, between two batches."""
        return self._db

    def checkpoint(self, folder: Path) -> None:
        """Write the last commit to `folder`, which must not exist. StoreError."""
        self._db.checkpoint(folder)

    # Contents, rules, counts, the ends of URLs

    def record_status(
        self,
        link: Link,
        outcome: str,
        now: float,
        duplicate_of: str = "",
        near_duplicate_of: str = "",
    ) -> None:
        """Keep the end of a URL for `scrapy explain`: `outcome` is a status code or drop reason."""
        via = "" if outcome in _REFUSED_WHEN_FOUND else link.via
        time = int(now + self.utc_s)
        status = UrlStatus(
            outcome,
            time,
            link.depth,
            link.redirects,
            via,
            duplicate_of,
            near_duplicate_of=near_duplicate_of,
        )
        if link.sitemap <= REQUISITE:
            self.seen.keep(name_of(link), rows.encode(status))
            return
        if self.visits is not None:  # a user's own request may end while the page is in the cycle
            before = self.seen.status(link.url)
            if before is not None and before.visit_ms:
                status = replace(status, visit_ms=before.visit_ms)
        self.seen.keep(link.url, rows.encode(status))

    def counts(self, kind: str) -> Counts:
        """The numbers of one kind ("caps", "pages", "sitemaps", "turns"...), by name."""
        return _Counts(self._db, rows.COUNT + kind.encode() + b" ")

    @cached_property
    def languages(self) -> HostLanguages:
        """Which hosts have wanted pages, for LANGUAGES."""
        return HostLanguages(self.counts("languages"))

    def original(self, content: bytes) -> Original | None:
        """The first page with `content`, a digest or a prefixed digest (`contents`)."""
        row = self._db.get(rows.CONTENT + content)
        return rows.read_original(row) if row is not None else None

    def keep_original(self, content: bytes, original: Original) -> None:
        self._db.put(rows.CONTENT + content, rows.encode(original))

    def sketch(self, key: bytes) -> bytes | None:
        """A row of `nearduplicates`."""
        return self._db.get(rows.SKETCH + key)

    def keep_sketch(self, key: bytes, row: bytes) -> None:
        self._db.put(rows.SKETCH + key, row)

    def rules(self, origin: str) -> RobotsRules:
        """The stored rules of `origin`; KeyError without any."""
        row = self._db.get(rows.RULES + origin.encode())
        if row is None:
            raise KeyError(origin)
        return read_rules(row)

    def keep_rules(self, origin: str, rules: RobotsRules) -> None:
        self._db.put(rows.RULES + origin.encode(), rules.to_bytes())

    # Mail of a hub

    def mail_line(self, hub: int) -> RowLine:
        """The rows of mail for `hub`, each with the number of its last mail in its key."""
        line = self._mail.get(hub)
        if line is None:
            line = self._mail[hub] = RowLine(self._db, rows.mail_key(hub, 0)[:3])
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

    def commit(self, changed: Iterable[Host], numbers: Numbers) -> list[Host]:
        """Keep all changes. Returns those of `changed` that may leave the workbench."""
        dispensable = self.hosts.write(changed)
        utc = {name: numbers[name] + self.utc_s for name in ("utc", "began")}
        kept = numbers | self.hosts.numbers() | {"run": self.run, **utc}
        self._db.put(rows.NUMBERS, msgspec.json.encode(kept))  # json.dumps takes 10 µs more
        self._db.commit()
        return dispensable

    def close(self) -> None:
        self._db.close()


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
