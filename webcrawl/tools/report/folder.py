"""Finds the files of one crawl, in a JOBDIR or in a REPORT_DIR. Reads names and small JSON files.

Files of a crawl that are in an object store (ARCHIVE_STORE) and not here are fetched, except WARC
files.

A crawl with several hubs (CLUSTER_HUBS) has such folders for each of them: `find_crawls` makes one
crawl of those that are given. A hub that was restored on another machine has two folders, if the
first machine is back: the log of both counts, and the frontier of the one that ran last.

Invariant: changes nothing, and holds no lock, except for the moment in which it asks whether a
crawl holds one.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from webcrawl.config.build import hub_in
from webcrawl.crawllog.files import HUB_FOLDER, log_files
from webcrawl.frontier.disk.folderlock import LOCK, holders
from webcrawl.frontier.disk.frontier import FOLDER
from webcrawl.frontier.store import StoreError
from webcrawl.report.card import read_card
from webcrawl.report.series import series_path
from webcrawl.tools.stored import CRAWL_FILES, NoStoreError, fetch_files, is_stored

_OF_HUB = re.compile(rf"/{HUB_FOLDER}\d+\Z")


class NoCrawlError(Exception):
    """The folder holds no crawl that can be read. The text is one line for the user."""


@dataclass(frozen=True, slots=True)
class CrawlFolder:
    """The files of one crawl. `jobdir` is None for a REPORT_DIR.

    hub -- its number; None if the folder does not say it
    hubs -- of the whole crawl, as far as this folder knows
    is_past -- the hub ran later in another folder
    store -- the URL of the WARC files that are not in `warc_dir`; ""
    fetched -- the files of the crawl log that are not in `report_dir`
    beside -- the folders of other hubs, which are read as well
    """

    crawl: str  # its ID
    jobdir: Path | None
    report_dir: Path
    warc_dir: Path
    spider: str = ""  # its name, if a JOBDIR says it
    others: tuple[str, ...] = ()  # IDs of other crawls in `report_dir`, the oldest first
    started: str = ""  # the last run, if a JOBDIR says it
    hub: int | None = None
    hubs: int = 1
    is_past: bool = False
    store: str = ""
    fetched: Path | None = None
    beside: tuple[CrawlFolder, ...] = ()

    @property
    def parts(self) -> tuple[CrawlFolder, ...]:
        """The folder of each hub, this one first."""
        return (replace(self, beside=()), *self.beside)

    @property
    def hubs_given(self) -> int:
        return sum(not part.is_past for part in self.parts)

    @property
    def missing_hubs(self) -> str:
        """A line for a report that is not of the whole crawl; "" if it is."""
        if self.hubs_given >= self.hubs:
            return ""
        one = self.hubs_given == 1
        return (
            f"{'One hub' if one else f'{self.hubs_given} hubs'} of {self.hubs}: the figures are"
            f" {'its' if one else 'their'} part of the crawl. `scrapy report` with the folders of"
            " all hubs has the whole crawl"
        )

    @property
    def logs(self) -> list[Path]:
        """Files of the crawl log, the oldest first."""
        folders = [self.report_dir] if self.fetched is None else [self.fetched, self.report_dir]
        found = (each for folder in folders for each in log_files(folder))
        by_number = {number: path for crawl, number, path in found if crawl == self.crawl}
        return [by_number[number] for number in sorted(by_number)]

    @property
    def frontier(self) -> Path | None:
        """The folder of the frontier; None for a memory store and a REPORT_DIR."""
        if self.jobdir is None or not (self.jobdir / FOLDER).is_dir():
            return None
        return self.jobdir / FOLDER

    @property
    def series(self) -> Path:
        return series_path(self.report_dir, self.crawl)

    @property
    def final_report(self) -> dict[str, Any]:
        """The report.json of the last run of this crawl that has ended; empty without one."""
        reports = (read_json(path) for path in self.report_dir.glob("report*.json"))
        ours = [report for report in reports if report.get("crawl") == self.crawl]
        return max(ours, key=lambda report: str(report.get("finished", "")), default={})

    @property
    def is_running(self) -> bool | None:
        """Whether a crawl holds the lock of the JOBDIR; None if none is known (memory store)."""
        if self.frontier is None:
            return None
        lock = self.frontier.with_name(LOCK)
        return is_locked(lock) if lock.exists() else None


def find_crawl(folder: Path, crawl: str = "") -> CrawlFolder:
    """The crawl in `folder`: the one with the ID `crawl`, else the latest. NoCrawlError."""
    if not folder.is_dir():
        raise NoCrawlError(f"{folder} is not a folder")
    card = read_card(folder)
    report_dir = Path(card.report_dir) if card is not None else folder
    # A JOBDIR has one crawl, whatever else lies in its report_dir.
    wanted = crawl or (card.crawl if card is not None else "")
    try:
        found = sorted({each for each, _, _ in log_files(report_dir)})
    except OSError as error:
        raise NoCrawlError(f"{report_dir}: {error.strerror}") from None
    if not found or (wanted and wanted not in found):
        missing = f"crawl-{wanted}-*.jsonl" if wanted else "crawl-*.jsonl, and no crawl.json"
        raise NoCrawlError(f"{report_dir} has no crawl log: no {missing}")
    chosen = wanted or found[-1]
    is_jobdir = card is not None and chosen == card.crawl
    found_folder = CrawlFolder(
        crawl=chosen,
        jobdir=folder if is_jobdir else None,
        report_dir=report_dir,
        warc_dir=Path(card.warc_dir) if card is not None else report_dir,
        spider=card.spider if card is not None else "",
        started=card.started if card is not None else "",
        others=tuple(each for each in found if each != chosen),
    )
    return _as_hub(found_folder)


def find_crawls(folders: Sequence[str | Path], temporary: Path, crawl: str = "") -> CrawlFolder:
    """The crawl that all `folders` are of, one folder of each hub. NoCrawlError.

    Some may be URLs of a store. What is fetched of it goes into `temporary`. OSError.
    """
    first, *others = (
        _with_stored(folder, crawl, temporary / str(number))
        for number, folder in enumerate(folders)
    )
    for each, folder in zip(others, folders[1:], strict=True):
        if each.crawl != first.crawl:
            raise NoCrawlError(
                f"{folders[0]} has the crawl {first.crawl}, and {folder} the crawl {each.crawl}:"
                " several folders are those of the hubs of one crawl"
            )
    parts = [first, *others]
    if len({part.report_dir.resolve() for part in parts}) < len(parts):
        raise NoCrawlError("one folder is given twice: give one of each hub")
    last = {part.hub: part for part in sorted(parts, key=lambda part: part.started)}
    parts = [
        replace(part, is_past=part.hub is not None and part is not last[part.hub]) for part in parts
    ]
    hubs = max(*(part.hubs for part in parts), sum(not part.is_past for part in parts))
    spider = next((part.spider for part in parts if part.spider), "")
    return replace(parts[0], beside=tuple(parts[1:]), hubs=hubs, spider=spider)


def _with_stored(folder: str | Path, crawl: str, fetched: Path) -> CrawlFolder:
    """`find_crawl` in the folder of a store, or in one here from which files have left."""
    try:
        if is_stored(folder):
            url = str(folder).rstrip("/")
            fetch_files(url, fetched, CRAWL_FILES.fullmatch)
            try:
                warcs_url = _OF_HUB.sub("", url)  # those of all hubs are in one folder
                return replace(find_crawl(fetched, crawl), store=warcs_url)
            except NoCrawlError as error:
                raise NoCrawlError(str(error).replace(str(fetched), url)) from None
        found = find_crawl(Path(folder), crawl)
        card = read_card(found.jobdir) if found.jobdir is not None else None
        if card is None or not card.store:
            return found
        numbers = [number for each, number, _ in log_files(found.report_dir) if each == found.crawl]
        if numbers != [*range(1, len(numbers) + 1)]:  # else nothing has left
            names = {path.name for path in found.logs}
            of_hub = f"/{HUB_FOLDER}{found.hub}" if found.hubs > 1 else ""
            url = card.store.rstrip("/") + of_hub
            is_missing = lambda name: name.startswith(f"crawl-{found.crawl}-") and name not in names  # noqa: E731
            fetch_files(url, fetched, is_missing)
            found = replace(found, fetched=fetched)
        return replace(found, store=card.store)
    except NoStoreError as error:
        raise NoCrawlError(str(error)) from None


def _as_hub(folder: CrawlFolder) -> CrawlFolder:
    """`folder` with its hub's number, if the crawl has several. NoCrawlError."""
    try:
        claim = hub_in(folder.jobdir) if folder.jobdir is not None else None
    except StoreError as error:
        raise NoCrawlError(str(error)) from None
    if claim is not None:
        return replace(folder, hub=claim.number, hubs=claim.hubs)
    match folder.final_report.get("whole"):
        case {"hub": int(hub), "hubs": list(hubs)}:
            return replace(folder, hub=hub, hubs=len(hubs))
    return folder


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file; empty if there is none."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def is_locked(lock: Path) -> bool:
    """Whether the process whose number is in a file lives and holds the lock of the file.

    The lock of a dead process is not tried: a crawl that starts just then would find it held.
    """
    try:
        os.kill(int(lock.read_text()), 0)
        with lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except PermissionError:  # another user's file
        return bool(holders(lock))
    except BlockingIOError:
        return True
    except (OSError, ValueError):
        return False
    return False
