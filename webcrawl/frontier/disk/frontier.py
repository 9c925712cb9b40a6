"""`LocalFrontier`: a frontier that may outgrow memory, and resumes after its process has ended.

With `in_memory` the same frontier writes no files, and ends with its process.

Owns the folder of a crawl, its lock, and the values that the event loop reads between two batches.
`frontier.core` owns the crawl's state, `disk.store` writes it to disk (docs/durability.md).

Batches run one after the other (`executor`), so nothing needs a lock. `next_at` and `is_finished`
are as of the last batch.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import TypeVar, Unpack

from msgspec.json import encode

from webcrawl.base.executor import AdaptiveExecutor
from webcrawl.crawllog.files import CrawlLog, LogError, Place
from webcrawl.crawllog.line import NO_DETAILS, LostLine
from webcrawl.crawllog.places import logged_offsets
from webcrawl.frontier.base import Frontier, Policy
from webcrawl.frontier.core import CrawlState
from webcrawl.frontier.disk.database import is_begun
from webcrawl.frontier.disk.folderlock import hold
from webcrawl.frontier.disk.identity import Identity
from webcrawl.frontier.disk.inspection import Inspection
from webcrawl.frontier.disk.store import Store
from webcrawl.frontier.host import Host
from webcrawl.frontier.lease import Lane, Lease, Link, Outcome, Seen, Text
from webcrawl.frontier.overview import Overview
from webcrawl.frontier.state import Given
from webcrawl.frontier.store import StoreError
from webcrawl.scope.hostrules import HostRule
from webcrawl.warc.records import Original

FOLDER = "frontier"  # in JOBDIR
ACTIVE_HOSTS_MAX = 20_000
_NO_HOSTS: frozenset[Host] = frozenset()

T = TypeVar("T")


class LocalFrontier(Frontier):
    """The frontier of a crawl in `jobdir`; None is a temporary folder, deleted by `close`.

    Memory: about 2 KB for each of `active_max` hosts and 200 bytes for each of their origins
    beyond the first; 45 MB for `Database` and the URLs met lately; 20 MB each for caps and
    `least-visited`; 4 bytes per URL for the filter and index of the rows on disk. Hosts whose
    robots.txt has moved to a busy host stay in memory until it is fetched.

    log -- the crawl log; None without one
    resumed -- an earlier run began this crawl
    warnings -- lines for the log: settings that differ from the earlier run, a damaged log
    failed_seeds -- (URL, reason) of the first seeds that failed in this run
        (`candidates.FAILURES_MAX` at most)
    commands -- of the user, that earlier runs have kept (`keep_command`)
    """

    log: CrawlLog | None = None

    def __init__(
        self,
        jobdir: Path | None,
        policy: Policy | None = None,
        *,
        identity: Identity | None = None,
        log_folder: Path | None = None,
        crawl: str = "",
        refuses_hubs: bool = False,
        in_memory: bool = False,
        **given: Unpack[Given],
    ) -> None:
        """Resume the crawl in `jobdir`, or begin one. StoreError if that fails.

        `log_folder`: of the crawl log; LogError if it cannot be written. `crawl`: the ID of the
        crawl; "" is that of the folder. `refuses_hubs`: a folder of one of several hubs is a
        StoreError. `in_memory`: without a folder.
        """
        now, utc_s = given.get("now", 0.0), given.get("utc_s", 0.0)
        has_mail = given.get("partition") is not None
        with ExitStack() as opened:
            self._folder = None if in_memory else JobFolder(jobdir)
            path = None
            if self._folder is not None:
                opened.callback(self._folder.close)
                path = self._folder.path / FOLDER
            has_visits = policy is not None and policy.recrawl is not None
            self._store = Store(path, identity, now=now, utc_s=utc_s, has_visits=has_visits)
            opened.callback(self._store.close)
            if refuses_hubs and "mail" in self._store.numbers:
                raise StoreError(
                    f"{path} is one of several hubs of a crawl: its links to the others would wait"
                    " for ever. Start it with its CLUSTER and CLUSTER_HUBS"
                )
            self.crawl_id = crawl or self._store.crawl_id
            if log_folder is not None:
                self.log = CrawlLog(log_folder, self.crawl_id, self._log_before(has_mail))
                opened.callback(self.log.abandon)
            given.setdefault("active_max", ACTIVE_HOSTS_MAX)
            self._state = CrawlState(self._store, policy, log=self.log, **given)
            opened.pop_all()
        self.local = self
        self.counters = self._state.counters
        self.failed_seeds = self._state.failed_seeds
        self.resumed = self._store.resumed
        self.commands = [*self._store.commands().values()]
        self.warnings = [*self._store.warnings, *self._log_warnings()]
        if undated := self._state.undated:
            self.warnings.append(
                f"RECRAWL: {undated:,} pages were fetched without it. Each is visited again once"
                " a link to it is found, or it is in the seed list"
            )
        self._executor = AdaptiveExecutor("frontier")
        # The WARC file of the last `log_if_lost`, and the offsets of which the log has lines: until
        # another answer in this file is given back.
        self._compared: tuple[str, set[int]] = ("", set())
        self._comparing = asyncio.Lock()
        self._broken: StoreError | None = None
        # Of one of several hubs, as of the last batch: see `CrawlState`.
        self._has_mail = has_mail
        self._addresses = given.get("addresses")
        self.outbox: Mapping[int, tuple[int, int]] = {}
        self.inbox: Mapping[int, int] = {}
        self.fresh = 0
        self._publish()

    def __repr__(self) -> str:
        return f"<LocalFrontier {self._state!r}>"

    def _log_before(self, has_mail: bool) -> Place | None:
        """Where the log of the run before ended."""
        place: Place | None = self._store.numbers.get("log")
        if place is not None and has_mail and not Path(place["folder"]).exists():
            place = {**place, "size": 0}  # on another machine: nothing of it is missing here
        return place

    def _log_warnings(self) -> list[str]:
        """What the crawl log lacks."""
        if self.log is None:
            return []
        lines = [*self.log.warnings]
        if self.counters.extracted and not self._store.numbers.get("log"):
            lines.append(
                "The crawl log begins with this run: it lacks the URLs that earlier runs took"
            )
        return lines

    async def put(self, links: Iterable[Link], now: float, *, force: bool = False) -> int:
        batch = list(links)
        return await self._run(lambda: self._state.put(batch, now, force=force))

    async def acquire(self, now: float, limit: int, lane: Lane = Lane.PAGES) -> list[Lease]:
        return await self._run(lambda: self._state.acquire(now, limit, lane))

    async def retry(self, reasons: Container[str], now: float) -> int:
        """Queue all links kept for one of `reasons` again, as new links. Returns their number.

        O(hosts ever seen), some at a time: leases go on meanwhile.
        """
        count, after = 0, b""
        while True:
            moved, following = await self._run(partial(self._state.retry, reasons, after, now))
            count += moved
            if following is None:
                return count
            after = following

    async def release(self, done: Sequence[tuple[Lease, Outcome]], now: float) -> None:
        if name := self._compared[0]:
            text = encode(name)
            if any(text in getattr(outcome, "details", NO_DETAILS) for _, outcome in done):
                self._compared = ("", set())
        await self._run(lambda: self._state.release(done, now))

    async def content_seen(self, content: bytes, original: Original, text: Text | None) -> Seen:
        look = partial(self._state.content_seen, content, original, text)
        try:
            return await self._run(look, moves=False)
        except StoreError:  # the release of the page raises it too; no later commit is possible
            return None, ""

    async def inspect(self, look: Callable[[Inspection], T]) -> T:
        """The result of `look` at the last commit, on a thread. Batches wait meanwhile."""
        return await self._executor.do(lambda: look(self._inspection()), waits=True)

    def _inspection(self) -> Inspection:
        if self._broken is not None:  # part of a batch is in memory
            raise self._broken
        return Inspection(self._store.database)

    async def set_rules(self, rules: Sequence[HostRule], now: float) -> None:
        """Follow `rules` from now on. Only where the crawl began with RULES.

        A longer delay counts from the last request. O(hosts in memory).
        """
        await self._run(lambda: self._state.set_rules(rules, now))

    async def keep_command(self, row: bytes) -> None:
        """Keep a command of the user for later runs (`commands`): all of it, or StoreError.

        On the disk when this returns, in a commit of its own.
        """
        await self._run(lambda: self._state.keep_command(row), moves=False, waits=True)

    @property
    def unlogged_since(self) -> float:
        """Answers that were archived since then (UTC) by an earlier run, or a process that died,
        may lack their line in the crawl log; inf: none does.
        """
        return self._state.unlogged_since

    async def logged_until(self, now: float) -> float:
        return await self._run(lambda: self._state.logged_until(now), moves=False)

    async def log_lost(self, lines: Sequence[bytes]) -> None:
        """Write lines of the crawl log for answers that have none (`unlogged_since`).

        No lines: now all of them have one.
        """
        await self._run(lambda: self._state.log_lost(lines), moves=False)

    async def log_if_lost(self, warc: str, lines: Sequence[LostLine]) -> None:
        log = self.log
        if log is None:
            return
        async with self._comparing:  # two fetchers may name the same file
            name, logged = self._compared
            if name != warc:
                await self._run(lambda: None, moves=False)  # lines of answers that are given back
                logged = set()
                self._compared = (warc, logged)
                what = log.folders, self.crawl_id, [warc]
                try:
                    logged |= (await asyncio.to_thread(logged_offsets, *what))[warc]
                except OSError as error:
                    self._compared = ("", set())
                    raise StoreError(f"the crawl log cannot be read: {error}") from None
            lost = [line for offset, _, line in lines if offset not in logged]
            logged.update(offset for offset, _, _ in lines)
            if lost:
                await self.log_lost(lost)

    async def call(self, work: Callable[[CrawlState], T], *, moves: bool = True) -> T:
        """Run `work` between two batches: what a hub is asked beside the frontier's interface.

        `moves`: it may change `next_at`, `is_finished`, `outbox`, `inbox` or `fresh`.
        """
        return await self._run(lambda: work(self._state), moves=moves)

    async def sync(self) -> Mapping[int, int]:
        """The inbox, as it is on the disk from now on, whatever fails."""
        return await self._run(self._state.sync, waits=True)

    async def checkpoint(self, folder: Path) -> Mapping[int, int]:
        """Write the last commit to `folder`, which must not exist, and return its inbox.

        Between two batches; takes as long as the write buffer's way to the disk, and on another
        disk as long as a copy. StoreError: it is not written, and the frontier goes on.
        """

        def write() -> Mapping[int, int]:
            if self._broken is not None:  # the inbox in memory has mail that is not committed
                raise self._broken
            self._store.checkpoint(folder)
            return dict(self._state.inbox)

        return await self._executor.do(write, waits=True)

    def next_at(self, lane: Lane = Lane.PAGES) -> float:
        at = self._next_at[lane]
        return at if self._addresses is None or at == inf else min(at, self._addresses.next_at())

    @property
    def supply(self) -> int:
        """About how many pages the admitted hosts can give within SUPPLY_S seconds."""
        return self._state.supply

    async def overview(self, now: float, limit: int) -> Overview:
        """The hosts of the crawl: by state, and up to `limit` of the largest and the slowest.

        O(active hosts), 0.5 µs per host: only when a reader asks.
        """
        return await self._run(lambda: self._state.overview(now, limit), moves=False)

    def is_finished(self) -> bool:
        return self._finished and not self._executor.is_busy

    async def close(self) -> None:
        """End this run; a later run may resume. Waits for the batch that is under way."""
        try:
            try:
                await self._executor.do(self._close_log, waits=True)
            finally:
                await self._executor.do(self._store.close, waits=True)
        finally:
            if self._folder is not None:
                self._folder.close()

    def _close_log(self) -> None:
        """Finish the crawl log, unless it has lines whose batch was not committed."""
        if self.log is None:
            return
        if self._broken is not None:
            self.log.abandon()
            return
        self._do(self._state.end, moves=False)
        try:
            self.log.close()
        except LogError as error:
            raise StoreError(str(error)) from None

    def audit(self) -> None:
        """Assert the invariants. O(hosts): for tests and debugging, with no batch under way."""
        self._state.audit()

    def _run(
        self, batch: Callable[[], T], *, moves: bool = True, waits: bool = False
    ) -> Awaitable[T]:
        """Run `batch` behind the others. `moves`: it may change `next_at` or `is_finished`."""
        return self._executor.do(partial(self._do, batch, moves=moves), waits=waits)

    def _do(self, batch: Callable[[], T], *, moves: bool = True) -> T:
        """Run `batch`. After a failure each later batch raises StoreError: the state in memory is
        part of a batch ahead of the disk, and must not be committed.
        """
        if self._broken is not None:
            raise self._broken
        try:
            result = batch()
        except Exception as error:
            where = self._folder.path if self._folder is not None else "the frontier in memory"
            ours = StoreError(f"{where} is as of the last commit: {error!r}")
            self._broken = error if isinstance(error, StoreError) else ours
            raise
        if moves:
            self._publish()
        return result

    def _publish(self) -> None:
        self._next_at = self._state.next_at()
        self._finished = self._state.is_finished()
        self.has_requisites = self._state.with_requisites != _NO_HOSTS  # saves a call of `bool`
        if self._has_mail:
            self.outbox, self.inbox = self._state.outbox, self._state.inbox
            self.fresh = self._state.fresh


class JobFolder:
    """The folder of one crawl, locked by one process at a time."""

    def __init__(self, path: Path | None) -> None:
        """Make and lock the folder. StoreError if that fails, InUseError if it is locked."""
        self._temporary: TemporaryDirectory[str] | None = None
        try:
            if path is None:
                self._temporary = TemporaryDirectory(prefix="webcrawl-")
                path = Path(self._temporary.name)
            self.path = path
            self._refuse_foreign()
            path.mkdir(parents=True, exist_ok=True)
            self._lock = hold(path)
        except OSError as error:
            raise StoreError(f"{path or gettempdir()} cannot be used: {error.strerror}") from None

    def close(self) -> None:
        os.close(self._lock)
        if self._temporary is not None:
            self._temporary.cleanup()

    def _refuse_foreign(self) -> None:
        """StoreError for a foreign folder, before the lock is made in it."""
        if (self.path / "requests.queue").exists():
            raise StoreError(f"{self.path} is no frontier: it holds a crawl of plain Scrapy")
        is_begun(self.path / FOLDER)
