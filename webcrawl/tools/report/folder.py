"""Finds the files of one crawl, in a JOBDIR or in a REPORT_DIR. Reads names and small JSON files.

A crawl on several machines (CLUSTER) has such folders on each of them: `find_crawls` makes one
crawl of those that are given. A node's shards have a frontier and a log each.

Invariant: changes nothing, and holds no lock, except for the moment in which it asks whether a
crawl holds one.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from webcrawl.cluster.agreement.nodefile import SHARD_LOG, NodeFileError, read_node, shard_folder
from webcrawl.crawllog.files import log_files
from webcrawl.frontier.disk.folderlock import LOCK, holders
from webcrawl.frontier.disk.frontier import FOLDER
from webcrawl.report.card import read_card
from webcrawl.report.series import series_path


class NoCrawlError(Exception):
    """The folder holds no crawl that can be read. The text is one line for the user."""


@dataclass(frozen=True, slots=True)
class CrawlFolder:
    """The files of one crawl. `jobdir` is None for a REPORT_DIR.

    begun -- in a crawl on several machines: the epoch of each shard whose folder this node uses;
        None in a crawl on one machine
    nodes -- of the whole crawl, as far as this folder knows; 0 in a crawl on one machine
    beside -- the folders of other nodes, which are read as well
    """

    crawl: str  # its ID
    jobdir: Path | None
    report_dir: Path
    warc_dir: Path
    spider: str = ""  # its name, if a JOBDIR says it
    others: tuple[str, ...] = ()  # IDs of other crawls in `report_dir`, the oldest first
    begun: Mapping[int, int] | None = None
    nodes: int = 0
    beside: tuple[CrawlFolder, ...] = ()

    @property
    def parts(self) -> tuple[CrawlFolder, ...]:
        """The folder of each node, this one first."""
        return (replace(self, beside=()), *self.beside)

    @property
    def missing_nodes(self) -> str:
        """A line for a report that is not of the whole crawl; "" if it is."""
        if len(self.parts) >= self.nodes:
            return ""
        one = len(self.parts) == 1
        return (
            f"{'One node' if one else f'{len(self.parts)} nodes'} of {self.nodes}: the figures are"
            f" {'its' if one else 'their'} part of the crawl. `scrapy report` with the folders of"
            " all nodes has the whole crawl"
        )

    @property
    def logs(self) -> list[Path]:
        """Files of the crawl log, the oldest first; of several shards one after the other."""
        found = [each for folder in log_folders(self.report_dir) for each in log_files(folder)]
        return [path for crawl, _, path in found if crawl == self.crawl]

    @property
    def frontiers(self) -> dict[int, Path]:
        """The folders of the frontier, by shard; empty for a memory store and a REPORT_DIR."""
        if self.jobdir is None:
            return {}
        if self.begun is not None:
            found = {shard: shard_folder(self.jobdir, shard) / FOLDER for shard in self.begun}
        else:
            found = {0: self.jobdir / FOLDER}
        return {shard: folder for shard, folder in sorted(found.items()) if folder.is_dir()}

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
        locks = [folder.with_name(LOCK) for folder in self.frontiers.values()]
        known = [is_locked(lock) for lock in locks if lock.exists()]
        return any(known) if known else None


def find_crawl(folder: Path, crawl: str = "") -> CrawlFolder:
    """The crawl in `folder`: the one with the ID `crawl`, else the latest. NoCrawlError."""
    if not folder.is_dir():
        raise NoCrawlError(f"{folder} is not a folder")
    card = read_card(folder)
    report_dir = Path(card.report_dir) if card is not None else folder
    # A JOBDIR has one crawl, whatever else lies in its report_dir.
    wanted = crawl or (card.crawl if card is not None else "")
    try:
        found = sorted({each for path in log_folders(report_dir) for each, _, _ in log_files(path)})
    except OSError as error:
        raise NoCrawlError(f"{report_dir}: {error.strerror}") from None
    if not found or (wanted and wanted not in found):
        missing = f"crawl-{wanted}-*.jsonl" if wanted else "crawl-*.jsonl, and no crawl.json"
        raise NoCrawlError(f"{report_dir} has no crawl log: no {missing}")
    chosen = wanted or found[-1]
    begun, nodes = _of_node(folder)
    is_jobdir = card is not None and chosen == card.crawl
    found_folder = CrawlFolder(
        crawl=chosen,
        jobdir=folder if is_jobdir else None,
        report_dir=report_dir,
        warc_dir=Path(card.warc_dir) if card is not None else report_dir,
        spider=card.spider if card is not None else "",
        others=tuple(each for each in found if each != chosen),
        begun=begun if is_jobdir else None,
    )
    reported = found_folder.final_report.get("cluster")
    if isinstance(reported, dict):
        nodes = max(nodes, int(reported.get("nodes_ever", 0)))
    return replace(found_folder, nodes=nodes)


def find_crawls(folders: Sequence[Path], crawl: str = "") -> CrawlFolder:
    """The crawl that all `folders` are of, one folder of each node. NoCrawlError."""
    first, *others = (find_crawl(folder, crawl) for folder in folders)
    for each, folder in zip(others, folders[1:], strict=True):
        if each.crawl != first.crawl:
            raise NoCrawlError(
                f"{folders[0]} has the crawl {first.crawl}, and {folder} the crawl {each.crawl}:"
                " several folders are those of the nodes of one crawl"
            )
    parts = [first, *others]
    if len({part.report_dir.resolve() for part in parts}) < len(parts):
        raise NoCrawlError("one folder is given twice: give one of each node")
    latest: dict[int, int] = {}
    for part in parts:
        for shard, epoch in (part.begun or {}).items():
            latest[shard] = max(epoch, latest.get(shard, 0))
    # A shard that was restored elsewhere may still lie on the machine that it was lost with.
    parts = [
        part
        if part.begun is None
        else replace(part, begun={k: e for k, e in part.begun.items() if latest[k] == e})
        for part in parts
    ]
    nodes = max(*(part.nodes for part in parts), len(parts) if others else 0)
    spider = next((part.spider for part in parts if part.spider), "")
    return replace(parts[0], beside=tuple(parts[1:]), nodes=nodes, spider=spider)


def log_folders(report_dir: Path) -> list[Path]:
    """The folders of crawl logs in `report_dir`: itself, and one for each shard of a node."""
    return [report_dir, *sorted(report_dir.glob(f"{SHARD_LOG}*/"))]


def _of_node(folder: Path) -> tuple[dict[int, int] | None, int]:
    """The shards of the node in a JOBDIR, and the number of nodes. (None, 0): it is no node's."""
    try:
        node = read_node(folder)
    except NodeFileError as error:
        raise NoCrawlError(str(error)) from None
    if node is None:
        return None, 0
    begun = {
        shard: epoch
        for shard, epoch in node.begun.items()
        if shard not in node.map or node.map[shard].epoch <= epoch
    }
    return begun, len({node.node, *(record.node for record in node.map.values())})


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
