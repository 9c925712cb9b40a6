"""Finds the answers that a killed process has archived, and that have no line in the crawl log.

A line is written when the lease of a page is given back. So an answer without a line was leased
after `Frontier.unlogged_since`, and is in a WARC file that was changed after that time. Only these
files are read, and the crawl log since the first of them was begun.

Memory: 80 bytes for each capture in these files, mostly one or two of WARC_MAX_SIZE: 8 MB for
100,000 captures. Cost: 2 s for 1 GB of WARC files, 0.3 s for a file of the log.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import re
import time
from calendar import timegm
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from math import inf
from pathlib import Path
from typing import IO, Any, Final

from msgspec.json import encode

from webcrawl.crawllog.files import log_files
from webcrawl.crawllog.line import Details, Kind, Turn, joined, to_bytes
from webcrawl.frontier.base import Frontier
from webcrawl.parse.page import media_type_of
from webcrawl.parse.urls import canonicalize, host_of
from webcrawl.warc.captures import Archived, captures, crawls_of
from webcrawl.warc.cdxj import answer_of_record

logger = logging.getLogger(__name__)

CLOCK_S: Final = 60.0  # by which a clock may have been set back meanwhile
_LINES_AT_A_TIME: Final = 1_000
_PIECE: Final = 1 << 20
_BEGUN = re.compile(r"-(\d{14})-\d{5,}-")  # in the name of a WARC file: when it was begun
_PLACE = re.compile(rb'"warc": ?("(?:[^"\\]|\\.)*"), ?"offset": ?(\d+)')
_HOPS = re.compile(rb"^hopsFromSeed: (L*)(R*)", re.MULTILINE)
_VIA = re.compile(rb"^via: ([^\r\n]*)", re.MULTILINE)
_OF_PAGE: Final = b"fetchTimeMs: "  # the metadata of a page has it, that of a robots.txt has not


async def log_lost(
    frontier: Frontier, folder: Path, pid: int, is_ours: Callable[[str], bool], *, is_all: bool
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
        await frontier.log_lost(batch, time.monotonic())
    if is_all:
        await frontier.log_lost([], time.monotonic())
    if count:
        logger.info("%d answers of a killed run were archived, and not in the crawl log", count)


def _changed_since(folder: Path, of: str, since: float, crawl: str) -> list[Path]:
    """The finished WARC files of `crawl` that may have answers without a line."""
    paths = sorted(path for path in folder.glob(of) if path.stat().st_mtime >= since - CLOCK_S)
    return [path for path in paths if crawl in crawls_of(path)]


def unlogged(
    paths: Iterable[Path], folders: Iterable[Path], crawl: str, is_ours: Callable[[str], bool]
) -> Iterator[bytes]:
    """A line for each answer in the WARC files `paths` that no line of the log in `folders` has."""
    logged: dict[str, set[int]] = {path.name: set() for path in paths}
    begun = [_BEGUN.search(name) for name in logged]
    times = [timegm(time.strptime(found[1], "%Y%m%d%H%M%S")) for found in begun if found]
    if logged:
        _read_log(folders, crawl, min(times, default=0) - CLOCK_S, logged)
    for path in paths:
        for each in captures(path):
            if each.offset not in logged[path.name]:
                line = line_of(each, path.name, is_ours)
                if line is not None:
                    yield line


def _read_log(
    folders: Iterable[Path], crawl: str, since: float, logged: dict[str, set[int]]
) -> None:
    """Add the offsets in the lines that were written after `since` to those of `logged`."""
    by_text = {encode(name): offsets for name, offsets in logged.items()}
    by_text |= {json.dumps(name).encode(): offsets for name, offsets in logged.items()}
    for folder in folders:
        files = log_files(folder) if folder.is_dir() else []
        for path in (path for each, _, path in reversed(files) if each == crawl):
            if path.stat().st_mtime < since:
                break
            opened: Callable[[Path, str], Any] = gzip.open if path.suffix == ".gz" else Path.open
            with opened(path, "rb") as file:
                for text, offset in _places(file):
                    if text in by_text:
                        by_text[text].add(offset)


def _places(file: IO[bytes]) -> Iterator[tuple[bytes, int]]:
    """Name of the WARC file, as JSON, and offset in each line."""
    rest = b""
    while piece := file.read(_PIECE):
        whole, end, rest = (rest + piece).rpartition(b"\n")
        for found in _PLACE.finditer(whole + end):
            yield found[1], int(found[2])


def line_of(
    archived: Archived, filename: str, is_ours: Callable[[str], bool] = lambda host: True
) -> bytes | None:
    """The line of an answer, as far as its records tell; None if its host is not ours.

    Its `time` is when the answer was asked for.
    """
    fields, metadata = archived.fields, archived.metadata
    url = fields.get("warc-target-uri", "")
    canonical = canonicalize(url)
    host = host_of(canonical) if canonical else ""
    if not is_ours(host):
        return None
    hops, via = _HOPS.search(metadata), _VIA.search(metadata)
    date = fields.get("warc-date", "")
    turn = Turn(
        *(date[:23] + "Z", _kind(archived, url), url, host, "lost"),
        depth=len(hops[1]) if hops else 0,
        redirects=len(hops[2]) if hops else 0,
        via=via[1].decode("utf-8", "replace") if via else "",
    )
    answer = answer_of_record({**fields, "warc-profile": ""}, archived.block, lambda _: "")
    status = answer.status if answer is not None else ""
    details = Details(
        int(status or 0),
        media_type=media_type_of(answer.mime) if answer and "/revisit" not in answer.mime else "",
        digest=fields.get("warc-payload-digest", ""),
        truncated=fields.get("warc-truncated", ""),
        ip=fields.get("warc-ip-address", ""),
        warc=filename,
        offset=archived.offset,
    )
    return joined(to_bytes(turn), to_bytes(details))


def _kind(archived: Archived, url: str) -> Kind:
    """A page has metadata. Of a robots.txt that has moved elsewhere it is no longer known what it
    was: it counts as a sitemap.
    """
    if _OF_PAGE in archived.metadata:
        return "page"
    if url.partition("?")[0].endswith("/robots.txt"):
        return "robots"
    return "page" if archived.is_cut else "sitemap"
