"""Finds the files of one crawl, in a JOBDIR or in a REPORT_DIR. Reads names and small JSON files.

Invariant: changes nothing, and holds no lock, except for the moment in which it asks whether a
crawl holds one.
"""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from webcrawl.crawllog.files import log_files
from webcrawl.frontier.disk.frontier import LOCK
from webcrawl.report.card import read_card
from webcrawl.report.series import series_path


class NoCrawlError(Exception):
    """The folder holds no crawl that can be read. The text is one line for the user."""


@dataclass(frozen=True, slots=True)
class CrawlFolder:
    """The files of one crawl. `jobdir` is None for a REPORT_DIR."""

    crawl: str  # its ID
    jobdir: Path | None
    report_dir: Path
    warc_dir: Path
    spider: str = ""  # its name, if a JOBDIR says it
    others: tuple[str, ...] = ()  # IDs of other crawls in `report_dir`, the oldest first

    @property
    def logs(self) -> list[Path]:
        """Files of the crawl log, the oldest first."""
        return [path for crawl, _, path in log_files(self.report_dir) if crawl == self.crawl]

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
        lock = self.jobdir / LOCK if self.jobdir is not None else None
        return is_locked(lock) if lock is not None and lock.exists() else None


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
    return CrawlFolder(
        crawl=chosen,
        jobdir=folder if card is not None and chosen == card.crawl else None,
        report_dir=report_dir,
        warc_dir=Path(card.warc_dir) if card is not None else report_dir,
        spider=card.spider if card is not None else "",
        others=tuple(each for each in found if each != chosen),
    )


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
    except (BlockingIOError, PermissionError):  # held, or another user's process
        return True
    except (OSError, ValueError):
        return False
    return False
