"""Which records of the archive the crawl log has lines of: the offsets in given WARC files.

Memory: 80 bytes for each capture in these files. Cost: 0.3 s for a file of the log.
"""

from __future__ import annotations

import gzip
import json
import re
import time
import zlib
from calendar import timegm
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Final

from msgspec.json import encode

from webcrawl.crawllog.files import log_files

CLOCK_S: Final = 60.0  # by which a clock may have been set back meanwhile
_PIECE: Final = 1 << 20
_BEGUN = re.compile(r"-(\d{14})-\d{5,}-")  # in the name of a WARC file: when it was begun
_PLACE = re.compile(rb'"warc": ?("(?:[^"\\]|\\.)*"), ?"offset": ?(\d+)')


def logged_offsets(
    folders: Iterable[Path], crawl: str, names: Iterable[str]
) -> dict[str, set[int]]:
    """By name of the WARC file, the offsets of its records in the log of `crawl` in `folders`.

    Reads only what was written after the first of these files was begun. OSError.
    """
    logged: dict[str, set[int]] = {name: set() for name in names}
    if not logged:
        return {}
    since = min(map(begun_time, logged)) - CLOCK_S
    by_text = {encode(name): offsets for name, offsets in logged.items()}
    by_text |= {json.dumps(name).encode(): offsets for name, offsets in logged.items()}
    for folder in folders:
        files = log_files(folder) if folder.is_dir() else []
        for path in (path for each, _, path in reversed(files) if each == crawl):
            if 0.0 < modified_time(path) < since:
                break
            for text, offset in _places_in(path):
                if text in by_text:
                    by_text[text].add(offset)
    return logged


def modified_time(path: Path) -> float:
    """When a file was last changed; 0.0 if it has been removed or renamed. OSError."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def begun_time(name: str) -> float:
    """When a WARC file was begun, by its name (UTC); 0.0 for another name."""
    found = _BEGUN.search(name)
    return timegm(time.strptime(found[1], "%Y%m%d%H%M%S")) if found else 0.0


def _places_in(path: Path) -> Iterator[tuple[bytes, int]]:
    """Those of a file of the log, up to about where it is damaged. OSError."""
    opened: Callable[[Path, str], Any] = gzip.open if path.suffix == ".gz" else Path.open
    try:
        with opened(path, "rb") as file:
            yield from _places(file)
    except FileNotFoundError:  # it has just been compressed, or a user has moved it away
        if path.suffix != ".gz":
            yield from _places_in(path.with_name(f"{path.name}.gz"))
    except (EOFError, zlib.error, gzip.BadGzipFile):  # after a loss of power
        pass


def _places(file: IO[bytes]) -> Iterator[tuple[bytes, int]]:
    """Name of the WARC file, as JSON, and offset in each line."""
    rest = b""
    while piece := file.read(_PIECE):
        whole, end, rest = (rest + piece).rpartition(b"\n")
        for found in _PLACE.finditer(whole + end):
            yield found[1], int(found[2])
