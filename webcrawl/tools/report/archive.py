"""Tokens and links of the pages in the WARC files, read by several processes.

The crawl log says where each record is, so only records of wanted pages are unpacked, and one file
can be read by all processes at a time. Links are the `outlink` lines of the metadata record behind
a response; a page without such lines (it forbids following its links, or has none) is parsed again.

Memory: at most three times RECORD_MAX and a text per process, and a few hundred bytes per page of
a task. A file that is torn or missing costs its pages: they are counted in `unread`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple

import duckdb

from webcrawl.parse.page import PARSERS, media_type_of, read_page
from webcrawl.parse.urls import host_of
from webcrawl.tools.pool import in_processes
from webcrawl.tools.stored import StoredFile
from webcrawl.tools.words import count_tokens
from webcrawl.warc.files import OPEN
from webcrawl.warc.payload import message_of
from webcrawl.warc.reader import Broken, Record, records_at

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
    progress: Callable[[int], object],
) -> Found:
    """Read the records of all documents of the log. `progress` is called with pages read.

    `folders`: WARC_DIR of each hub, and the URL of the files that are not there, or "".
    """
    found = Found()
    tasks = _tasks(log, folders, has_tokens, domain)
    for _, part in in_processes(read_task, tasks):
        found.add(part)
        progress(part.pages + part.unread)
    return found


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
    here = [path for path in (folder / name, folder / f"{name}{OPEN}") if path.exists()]
    return here[0] if here else StoredFile(url, name) if url else folder / name


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
            except (ValueError, StopIteration, MemoryError, OSError):
                found.unread += 1
    return found


def _read_page(file: BinaryIO, place: Place, task: Task, found: Found) -> None:
    file.seek(place.offset)
    records = map(_whole, records_at(file, RECORD_MAX))
    record = next(records)
    is_revisit = record.type == "revisit"
    payload, content_type = b"", ""
    if not is_revisit:
        message = message_of(record.block)
        payload, content_type = message.payload(RECORD_MAX), message.header(b"content-type")
    if task.has_tokens and not is_revisit:
        is_html = media_type_of(content_type) in PARSERS
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


def _whole(record: Record | Broken) -> Record:
    if isinstance(record, Broken) or not record.is_whole:
        raise ValueError("no record, or a larger one")
    return record


def _outlinks(records: Iterator[Record]) -> list[str]:
    """The outlinks of the metadata record of this page; none if another page's record comes."""
    for record in records:
        if record.type == "metadata":
            lines = (b"\n" + record.block).split(_OUTLINK)[1:]
            return [line.partition(b"\r")[0].decode("utf-8", "replace") for line in lines]
        if record.type != "request":
            break
    return []
