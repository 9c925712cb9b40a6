"""Tokens and links of the pages in the WARC files, read by several processes.

The crawl log says where each record is, so only records of wanted pages are unpacked, and one file
can be read by all processes at a time. Links are the `outlink` lines of the metadata record behind
a response; a page without such lines (it forbids following its links, or has none) is parsed again.

Memory: a record of RECORD_MAX bytes and its text per process, and a few hundred bytes per page of a
task. A file that is torn or missing costs its pages: they are counted in `unread`.
"""

from __future__ import annotations

import multiprocessing
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple

import duckdb

from webcrawl.fetch.decode import decode
from webcrawl.fetch.exchange import FetchFailed
from webcrawl.fetch.http1 import ResponseReader
from webcrawl.parse.page import PARSERS, read_page
from webcrawl.parse.urls import host_of
from webcrawl.tools.report.words import count_tokens
from webcrawl.tools.stored import StoredFile
from webcrawl.tools.warccheck.reader import Record, read_from
from webcrawl.warc.files import OPEN

RECORD_MAX = 64 << 20  # bytes of a record that are read
PAGES_A_TASK = 500
_OUTLINK = b"\noutlink: "


class Place(NamedTuple):
    """Where the record of a page is."""

    url: str
    offset: int


@dataclass(slots=True)
class Task:
    """Pages of one file. `domain`: "" if links are not wanted."""

    path: Path | StoredFile
    places: list[Place]
    has_tokens: bool
    domain: str


@dataclass(slots=True)
class Found:
    """What was found in some pages."""

    tokens: Counter[int] = field(default_factory=Counter)  # pages by their number of tokens
    linking: list[tuple[str, bool]] = field(default_factory=list)  # URL, is it inside the domain
    pages: int = 0
    unread: int = 0

    def add(self, other: Found) -> None:
        self.tokens.update(other.tokens)
        self.linking += other.linking
        self.pages += other.pages
        self.unread += other.unread


def read_archive(
    log: duckdb.DuckDBPyConnection,
    folders: Sequence[tuple[Path, str]],
    *,
    has_tokens: bool,
    domain: str = "",
    processes: int = 0,
    progress: Callable[[int], object] = lambda pages: None,
) -> Found:
    """Read the records of all documents of the log. `progress` is called with pages read.

    `folders`: WARC_DIR of each hub, and the URL of the files that are not there, or "".
    """
    found = Found()
    processes = processes or len(os.sched_getaffinity(0))
    tasks = _tasks(log, folders, has_tokens, domain)
    context = multiprocessing.get_context("spawn")  # DuckDB has threads: no fork
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        running: set[Future[Found]] = set()
        for task in tasks:
            running.add(pool.submit(read_task, task))
            if len(running) > 2 * processes:
                running = _collect(found, running, progress)
        while running:
            running = _collect(found, running, progress)
    return found


def archived_pages(log: duckdb.DuckDBPyConnection) -> int:
    (count,) = log.execute("SELECT count(warc) FROM document").fetchall()[0]
    return int(count)


def _collect(
    found: Found, running: set[Future[Found]], progress: Callable[[int], object]
) -> set[Future[Found]]:
    done, running = wait(running, return_when=FIRST_COMPLETED)
    for future in done:
        part = future.result()
        found.add(part)
        progress(part.pages + part.unread)
    return running


def _tasks(
    log: duckdb.DuckDBPyConnection,
    folders: Sequence[tuple[Path, str]],
    has_tokens: bool,
    domain: str,
) -> Iterator[Task]:
    files = log.execute("SELECT DISTINCT hub, warc FROM body ORDER BY ALL")
    for hub, name in files.fetchall():
        folder, url = folders[int(hub)]
        path = _file_of(folder, url, Path(name).name)  # the log may be another's: no path leads out
        with log.cursor() as cursor:
            rows = cursor.execute(
                'SELECT url, "offset" FROM body WHERE hub = ? AND warc = ? ORDER BY "offset"',
                [hub, name],
            )
            while some := rows.fetchmany(PAGES_A_TASK):
                places = [Place(url, offset or 0) for url, offset in some]
                yield Task(path, places, has_tokens, domain)


def _file_of(folder: Path, url: str, name: str) -> Path | StoredFile:
    path, open_path = folder / name, folder / f"{name}{OPEN}"
    if path.exists() or not url:
        return path if path.exists() else open_path
    return open_path if open_path.exists() else StoredFile(url, name)


def read_task(task: Task) -> Found:
    """What the pages of `task` have. Never raises for any bytes of the file."""
    found = Found()
    try:
        file = task.path.open("rb")
    except OSError:
        found.unread = len(task.places)
        return found
    with file:
        for place in task.places:
            try:
                _read_page(file, place, task, found)
                found.pages += 1
            except (ValueError, StopIteration, FetchFailed, OSError):
                found.unread += 1
    return found


def _read_page(file: BinaryIO, place: Place, task: Task, found: Found) -> None:
    records = read_from(file, place.offset, RECORD_MAX)
    record = next(records)
    is_revisit = record.type == "revisit"
    payload, content_type = b"", ""
    if not is_revisit and (task.has_tokens or task.domain):
        payload, content_type = _payload(record.block)
    if task.has_tokens and not is_revisit:
        is_html = content_type.partition(";")[0].strip().lower() in PARSERS
        found.tokens[count_tokens(payload, content_type) if is_html else 0] += 1
    if task.domain:
        links = _outlinks(records)
        if not links:
            page = read_page(payload, content_type, place.url, obey_nofollow=False)
            links = page.links
        if any(is_in(host_of(link), task.domain) for link in links if task.domain in link):
            found.linking.append((place.url, is_in(host_of(place.url), task.domain)))


def is_in(host: str, domain: str) -> bool:
    """Whether `host` is `domain` or one of its subdomains."""
    return host == domain or host.endswith(f".{domain}")


def _payload(block: bytes) -> tuple[bytes, str]:
    """Payload and Content-Type of an HTTP response. FetchFailed if it is none."""
    reader = ResponseReader("GET", 1 << 20, RECORD_MAX)
    reader.feed(block)
    reader.end("eof")
    types = [value for name, value in reader.headers if name == b"content-type"]
    payload = decode(reader.content, reader.headers, RECORD_MAX).payload
    return payload, types[0].decode("latin-1") if types else ""


def _outlinks(records: Iterator[Record]) -> list[str]:
    """The outlinks of the metadata record of this page; none if another page's record comes."""
    for record in records:
        if record.type == "metadata":
            lines = (b"\n" + record.block).split(_OUTLINK)[1:]
            return [line.partition(b"\r")[0].decode("utf-8", "replace") for line in lines]
        if record.type != "request":
            break
    return []
