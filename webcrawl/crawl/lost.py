"""Finds the answers that a killed process has archived, and that have no line in the crawl log.

A line is written when the lease of a page is given back. So an answer without a line was leased
after `LocalFrontier.unlogged_since`, and is in a WARC file that was changed after that time. Only
these files are read, and the crawl log since the first of them was begun.

Memory: 80 bytes for each capture in these files, mostly one or two of WARC_MAX_SIZE: 8 MB for
100,000 captures. Cost: 2 s for 1 GB of WARC files, 0.3 s for a file of the log.

On another machine a fetcher has the files, and its hubs have the log (`report_lost`).
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from glob import escape
from itertools import islice
from math import inf
from pathlib import Path
from typing import Final

from webcrawl.crawllog.line import Details, Kind, LostLine, Turn, joined, to_bytes
from webcrawl.crawllog.places import CLOCK_S, logged_offsets, modified_time
from webcrawl.frontier.base import Frontier
from webcrawl.frontier.disk.frontier import LocalFrontier
from webcrawl.parse.page import media_type_of
from webcrawl.parse.urls import canonicalize, host_of
from webcrawl.warc.captures import Archived, captures_in, crawls_of
from webcrawl.warc.cdxj import answer_of_record
from webcrawl.warc.files import OPEN, lock, open_files

logger = logging.getLogger(__name__)

_LINES_AT_A_TIME: Final = 1_000
_UNLOGGED_S: Final = 60.0  # from an answer in a WARC file to its line, at most
_SERIAL = re.compile(r"(.+)-(\d{14})-(\d{5,})-(\w*-\d+\.warc\.gz)")  # as `warc.files` names it
_VIA = re.compile(rb"^via: ([^\r\n]*)", re.MULTILINE)


async def log_lost(
    frontier: LocalFrontier, folder: Path, pid: int, is_ours: Callable[[str], bool], *, is_all: bool
) -> None:
    """Write a line for each answer in the finished WARC files in `folder` that has none. OSError.

    Only in those of the process `pid`, if it is not 0. No process may write them any more.
    `is_ours`: whether a host is of this frontier, if it is one of several. `is_all`: then no answer
    is without a line.
    """
    log, since = frontier.log, frontier.unlogged_since
    if log is None or since == inf:
        return
    of = f"*-{pid or '*'}.warc.gz"
    paths = await asyncio.to_thread(_changed_since, folder, of, since, frontier.crawl_id)
    lines = unlogged(paths, log.folders, frontier.crawl_id, is_ours)
    count = 0
    while batch := await asyncio.to_thread(lambda: [*islice(lines, _LINES_AT_A_TIME)]):
        count += len(batch)
        await frontier.log_lost(batch)
    if is_all:
        await frontier.log_lost([])
    if count:
        logger.info("%d answers of a killed run were archived, and not in the crawl log", count)


def _changed_since(folder: Path, of: str, since: float, crawl: str) -> list[Path]:
    """The finished WARC files of `crawl` that may have answers without a line."""
    paths = [path for path in sorted(folder.glob(of)) if modified_time(path) >= since - CLOCK_S]
    return [path for path in paths if crawl in crawls_of(path)]


def unlogged(
    paths: Sequence[Path], folders: Iterable[Path], crawl: str, is_ours: Callable[[str], bool]
) -> Iterator[bytes]:
    """A line for each answer in the WARC files `paths` that no line of the log in `folders` has."""
    logged = logged_offsets(folders, crawl, [path.name for path in paths])
    for path in paths:
        with suppress(FileNotFoundError):  # a user has moved it away
            for offset, host, line in lines_of(path, path.name):
                if offset not in logged[path.name] and is_ours(host):
                    yield line


async def report_lost(frontier: Frontier, folder: Path, is_ours: Callable[[str], bool]) -> None:
    """Tell the hubs of the answers in the last files of fetchers that were killed: they have the
    log. OSError.

    Waits for them. A file is recovered afterwards: until then the next fetcher tells them again.
    """
    for path in await asyncio.to_thread(open_files, folder):
        with suppress(FileNotFoundError), path.open("r+b") as file:  # another has recovered it
            if not lock(file.fileno()):
                continue
            if frontier.crawl_id in await asyncio.to_thread(crawls_of, path):
                for each in [*_files_before(path), path]:
                    await _report(frontier, each, is_ours)


async def _report(frontier: Frontier, path: Path, is_ours: Callable[[str], bool]) -> None:
    name = path.name.removesuffix(OPEN)
    lines = (each for each in lines_of(path, name) if is_ours(each[1]))
    while batch := await asyncio.to_thread(lambda: [*islice(lines, _LINES_AT_A_TIME)]):
        await frontier.log_if_lost(name, batch)


def _files_before(path: Path) -> list[Path]:
    """The files that the process of `path` wrote before it, whose answers may have no line: the
    last one, and those of its last _UNLOGGED_S.
    """
    found = _SERIAL.fullmatch(path.name.removesuffix(OPEN))
    if found is None:
        return []
    names = f"{escape(found[1])}-{'[0-9]' * 14}-*-{escape(found[4])}"
    serials = {
        int(each[3]): other
        for other in path.parent.glob(names)
        if (each := _SERIAL.fullmatch(other.name)) and int(each[3]) < int(found[3])
    }
    since = modified_time(path) - _UNLOGGED_S
    last = max(serials, default=0)
    return [
        serials[each]
        for each in sorted(serials)
        if each == last or modified_time(serials[each]) >= since
    ]


def lines_of(path: Path, name: str) -> Iterator[LostLine]:
    """A line for each answer in a WARC file, with its offset and host. OSError."""
    for each in captures_in(path):
        url = canonicalize(each.record.fields.get("warc-target-uri", ""))
        host = host_of(url) if url else ""
        yield each.record.offset, host, line_of(each, name, host)


def line_of(archived: Archived, filename: str, host: str) -> bytes:
    """The line of an answer, as far as its records tell. Its `time` is when it was asked for."""
    record, hops = archived.record, archived.hops
    fields = record.fields
    url = fields.get("warc-target-uri", "")
    via = _VIA.search(archived.metadata)
    date = fields.get("warc-date", "")
    turn = Turn(
        *(date[:23] + "Z", archived.kind or _kind(archived, url), url, host, "lost"),
        depth=hops.count("L"),
        redirects=hops.count("R"),
        via=via[1].decode("utf-8", "replace") if via else "",
    )
    answer = answer_of_record({**fields, "warc-profile": ""}, record.block, lambda _: "")
    status = answer.status if answer is not None else ""
    details = Details(
        int(status or 0),
        media_type=media_type_of(answer.mime) if answer and "/revisit" not in answer.mime else "",
        digest=fields.get("warc-payload-digest", ""),
        truncated=fields.get("warc-truncated", ""),
        ip=fields.get("warc-ip-address", ""),
        warc=filename,
        offset=record.offset,
    )
    return joined(to_bytes(turn), to_bytes(details))


def _kind(archived: Archived, url: str) -> Kind:
    """Of a robots.txt that has moved elsewhere it is no longer known what it was: it counts as a
    sitemap.
    """
    if url.partition("?")[0].endswith("/robots.txt"):
        return "robots"
    return "page" if archived.is_cut else "sitemap"
