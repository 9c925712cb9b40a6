"""Sends what the crawl has finished to ARCHIVE_STORE, and then deletes it here.

Runs in the first process of each machine, also for its workers, and for processes that were killed:
it looks into WARC_DIR and REPORT_DIR each POLL_S seconds for finished files of its crawl. One file
is sent at a time, in a thread.

| file | deleted here |
| --- | --- |
| WARC file and index | when the store has both, and each answer in the file its line in the crawl log |
| file of the crawl log | when it is older than each WARC file here: `crawl.lost` reads it for those. The newest stays, with CLUSTER all: a fetcher that was killed may come again |
| reports, time series | never: the next run goes on with them |

So whenever a process is killed, the next run finds here what it must send, and what it needs to
complete the crawl log. Memory: one entry per file here, and what `warc.objects` takes.
"""  # noqa: E501  # the rows of a table

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Callable, Iterator
from functools import partial
from math import inf
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple, Self, TypeVar

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured

from webcrawl.base.executor import AdaptiveExecutor
from webcrawl.base.wording import counted, size_text
from webcrawl.config.build import is_debugging, leads_machine, report_folder, warc_folder
from webcrawl.config.table import read
from webcrawl.crawl.crawl import crawl_of, report_error
from webcrawl.crawllog.files import HUB_FOLDER, log_files
from webcrawl.crawllog.places import CLOCK_S, begun_time, modified_time
from webcrawl.extensions.report import reports_in
from webcrawl.frontier.store import StoreError
from webcrawl.report.series import series_path
from webcrawl.warc.captures import crawls_of
from webcrawl.warc.files import open_files
from webcrawl.warc.index import index_path

if TYPE_CHECKING:  # only a crawl with ARCHIVE_STORE loads obstore
    from webcrawl.warc.objects import Objects

logger = logging.getLogger(__name__)

POLL_S: Final = 1.0
AGAIN_S: Final = 5.0  # after a failure
GIVE_UP_S: Final = 120.0  # at the end of the crawl, without a file that goes through
_OURS = re.compile(r".+-\d{14}-\d{5,}-(\w*-(\d+))\.warc\.gz(?:\.open)?")  # as `warc.files` names it

T = TypeVar("T")


class _File(NamedTuple):
    """A finished file, and the name of its object. `leaves`: it is deleted when it is sent."""

    path: Path
    name: str
    leaves: bool = False
    replaces: bool = False


class ArchiveStore:
    """Scrapy extension. `crawl.unsent` is the number of files that must still leave."""

    def __init__(self, crawler: Crawler, url: str) -> None:
        settings = crawler.settings
        self._crawler, self._crawl = crawler, crawl_of(crawler)
        self._url = url
        self._objects: Objects | None = None
        self._warc_dir, self._report_dir = warc_folder(settings), report_folder(settings)
        self._keeps_log = bool(settings.get("CLUSTER"))
        self._executor = AdaptiveExecutor("archive-store")  # a second Ctrl-C does not wait for it
        self._seen: dict[Path, float] = {}  # finished files here: when they were found (monotonic)
        self._is_ours: dict[Path, bool] = {}  # WARC files: whether they are of this crawl
        self._sent: set[str] = set()  # names of files that are still here
        self._refused: set[Path] = set()  # the store has others of their names
        self._count = self._size_bytes = 0  # of what was sent in this run
        self._failed_at = 0.0  # since then the store takes nothing; 0.0: it does
        self._sent_at = 0.0  # when it took the last file
        self._task: asyncio.Task[None] | None = None
        self._crawl.unsent = 0

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        url = read(crawler.settings, "ARCHIVE_STORE", str)
        if not url or is_debugging(crawler) or not leads_machine(crawler):
            raise NotConfigured
        extension = cls(crawler, url)
        crawler.signals.connect(extension.spider_opened, signals.spider_opened)
        crawler.signals.connect(extension.engine_stopped, signals.engine_stopped)
        return extension

    def spider_opened(self) -> None:
        """A signal handler."""
        if self._crawl.frontier is not None:  # else the crawl does not begin
            self._task = asyncio.create_task(self._send_each())

    async def engine_stopped(self) -> None:
        """A signal handler: all processes have ended, and the report is written. Send the rest."""
        if self._task is None:
            return
        self._task.cancel()
        self._sent_at = monotonic()
        # Once more, since files of the crawl log leave after the WARC files.
        while not (await self._round(is_end=True) and await self._round(is_end=True)):
            if monotonic() > self._sent_at + GIVE_UP_S:
                break
            await asyncio.sleep(AGAIN_S)
        sent = counted(self._count, "file"), size_text(self._size_bytes)
        logger.info("%s (%s) sent to %s", *sent, self._url)
        if left := await self._do(self._left):
            problem = (
                f"ARCHIVE_STORE: {counted(len(left), 'file')} ({size_text(sum(left))}) not sent:"
                f" they stay in {self._warc_dir}"
            )
            if not self._refused:
                problem += ", and the same command sends them"
            report_error(self._crawler, problem)

    async def _send_each(self) -> None:
        while True:
            has_failed = not await self._round()
            await asyncio.sleep(AGAIN_S if has_failed else POLL_S)

    async def _round(self, *, is_end: bool = False) -> bool:
        """Send and delete what is finished. False after a failure."""
        try:
            files = await self._do(partial(self._finished, is_end=is_end))
            self._crawl.unsent = len(self._leaving(files))
            for file in files:
                if file.name not in self._sent and file.path not in self._refused:
                    await self._send(file)
            leaving = await self._may_leave(files, is_end=is_end)
            self._crawl.unsent -= await self._do(partial(self._delete, leaving))
        except OSError as error:
            self._fail(error)
            return False
        except StoreError:  # the frontier has failed: the pump reports it, and the crawl ends
            return True
        if self._failed_at:
            took_s, self._failed_at = monotonic() - self._failed_at, 0.0
            logger.warning("ARCHIVE_STORE takes files again, after %.0f s", took_s)
        return True

    async def _send(self, file: _File) -> None:
        """OSError: the store takes no files."""
        try:
            size_bytes = await self._do(partial(self._send_now, file))
        except FileNotFoundError:  # a process with the same folder has sent it
            return
        except FileExistsError as error:
            self._refused.add(file.path)
            logger.error(
                "ARCHIVE_STORE: %s %s: %s stays here", error.filename, error.strerror, file.path
            )
            return
        self._sent.add(file.name)
        self._sent_at = monotonic()
        self._count += size_bytes > 0
        self._size_bytes += size_bytes

    async def _may_leave(self, files: list[_File], *, is_end: bool) -> list[Path]:
        """Those of `files` that are sent, and not needed here any more. StoreError."""
        crawl = self._crawl
        assert crawl.frontier is not None
        if not is_end:
            until = await crawl.frontier.logged_until(monotonic())
        else:  # the frontier is closed
            until = -inf if getattr(crawl.scheduler, "problem", "") else inf
        return [
            file.path
            for file in self._leaving(files)
            if file.name in self._sent and self._seen[file.path] < until
        ]

    def _leaving(self, files: list[_File]) -> list[_File]:
        """Those of `files` that leave sooner or later: a WARC file and its index, or neither."""
        stay = {_stem(path) for path in self._refused}
        return [file for file in files if file.leaves and _stem(file.path) not in stay]

    def _fail(self, error: OSError) -> None:
        """The first of several failures is a line in the log."""
        if not self._failed_at:
            self._failed_at = monotonic()
            why = error.filename or self._url, error.strerror or error
            logger.warning("ARCHIVE_STORE takes no files for now, they stay here: %s: %s", *why)

    def _do(self, work: Callable[[], T]) -> asyncio.Future[T]:
        return self._executor.do(work, waits=True)

    # In the thread

    def _finished(self, *, is_end: bool) -> list[_File]:
        """The finished files of this crawl that may be sent, the oldest first. OSError."""
        busy = {found[1] for path in open_files(self._warc_dir) if (found := _named(path))}
        paths = sorted(self._warc_dir.glob("*.warc.gz"))
        known = self._is_ours
        crawl_id = self._crawl.crawl_id
        self._is_ours = {
            path: known[path]
            if path in known
            else bool(_named(path)) and crawl_id in crawls_of(path)
            for path in paths
        }
        files = [
            _File(each, each.name, leaves=True)
            for path in paths
            if self._is_ours[path] and self._is_settled(path, busy)
            for each in (path, index_path(path))
            if each.exists()
        ]
        if self._crawl.log is not None:
            files += self._of_report(is_end=is_end)
        now = monotonic()
        self._seen = {file.path: self._seen.get(file.path, now) for file in files}
        return files

    def _is_settled(self, path: Path, busy: set[str]) -> bool:
        """Whether this process may send a WARC file: it has written it, or a process that ended.

        Of a killed fetcher the next one reads the files before the last (`crawl.lost`).
        """
        found = _named(path)
        assert found is not None
        own = {os.getpid(), *self._crawl.workers.values()}
        return found[1] not in busy or int(found[2]) in own

    def _of_report(self, *, is_end: bool) -> Iterator[_File]:
        """The crawl log, reports and, at the end, the time series: of each hub in a folder."""
        crawl, folder = self._crawl, self._report_dir
        claim = crawl.claim
        under = f"{HUB_FOLDER}{claim.number}/" if claim is not None and claim.hubs > 1 else ""
        logs = [path for each, _, path in log_files(folder) if each == crawl.crawl_id]
        packed = [path for path in logs if path.suffix == ".gz"]
        needed_since = self._log_needed_since()
        for path in packed:
            leaves = path != packed[-1] and modified_time(path) < needed_since
            yield _File(path, f"{under}{path.name}", leaves=leaves and not self._keeps_log)
        if is_end:
            for path, name in reports_in(folder, crawl.crawl_id):
                yield _File(path, f"{under}{name}")
            series = series_path(folder, crawl.crawl_id)
            if series.exists():
                yield _File(series, f"{under}{series.name}", replaces=True)

    def _log_needed_since(self) -> float:
        """Lines of WARC files that are here were written since then (UTC)."""
        paths = [*self._warc_dir.glob("*.warc.gz"), *open_files(self._warc_dir)]
        begun = [begun_time(path.name) for path in paths if self._is_ours.get(path, True)]
        return min(begun, default=inf) - CLOCK_S

    def _send_now(self, file: _File) -> int:
        """Send a file; the bytes that were sent, 0 if the store had it."""
        from webcrawl.warc.objects import Objects  # noqa: PLC0415  (it loads obstore)

        if self._objects is None:
            self._objects = Objects(self._url)
        size_bytes = file.path.stat().st_size
        return size_bytes if self._objects.send(file.path, file.name, replaces=file.replaces) else 0

    def _delete(self, paths: list[Path]) -> int:
        """Delete files, the WARC files last: of an index alone nobody knew the crawl. OSError."""
        for path in sorted(paths, key=lambda path: path.suffix == ".gz"):
            path.unlink(missing_ok=True)
            self._sent.discard(path.name)
        return len(paths)

    def _left(self) -> list[int]:
        """The sizes of the files that the store has not."""
        files = self._finished(is_end=True)
        return [file.path.stat().st_size for file in files if file.name not in self._sent]


def _stem(path: Path) -> str:
    return path.name.removesuffix(".warc.gz").removesuffix(".cdxj")


def _named(path: Path) -> re.Match[str] | None:
    return _OURS.fullmatch(path.name)
