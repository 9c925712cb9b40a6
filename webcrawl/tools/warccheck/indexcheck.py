"""Checks the index (NAME.cdxj) beside a WARC file against the records. For `check`.

Fields that cdxj-indexer writes by default are compared; other fields may be there. Memory: the
index.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from webcrawl.warc.index import index_path
from webcrawl.warc.reader import Record
from webcrawl.warc.recovery import index_line

_NEEDED = frozenset({"urlkey", "timestamp", "url", "length", "filename"})


class IndexCheck:
    """Call `problems` for each record, then `at_end`. Without an index there are no problems."""

    def __init__(self, warc: Path) -> None:
        self._warc = warc
        self._path = index_path(warc)
        self._has_index = self._path != warc and self._path.is_file()
        self._lines: dict[str, dict[str, Any]] = {}  # by the offset of the record
        self._found: list[str] = []
        if self._has_index:
            self._load(self._path.read_bytes())

    def _load(self, data: bytes) -> None:
        lines = data.splitlines(keepends=True)
        if lines and not lines[-1].endswith(b"\n"):
            self._found.append("the last line is cut")
        if any(first > second for first, second in pairwise(lines)):
            self._found.append("the lines are not sorted")
        for number, line in enumerate(lines, 1):
            try:
                fields = _fields(line)
                offset = str(fields["offset"])
            except (ValueError, KeyError, TypeError, RecursionError):
                self._found.append(f"line {number} is not CDXJ")
                continue
            if offset in self._lines:
                self._found.append(f"two lines for the record at {offset}")
            self._lines[offset] = fields

    def problems(self, record: Record) -> Iterator[str]:
        """The problems of the line of `record`."""
        if not self._has_index:
            return
        line = self._lines.pop(str(record.offset), None)
        wanted = index_line(self._warc, self._warc.name, record)
        if wanted is None:
            return
        if line is None:
            yield f"{record.offset}: not in the index"
            return
        for name, value in _fields(wanted).items():
            if line.get(name, None if name in _NEEDED else value) != value:
                yield f"{record.offset}: the index has {name} {line.get(name)!r}, not {value!r}"

    def at_end(self) -> Iterator[str]:
        """The problems that belong to no record."""
        for problem in self._found:
            yield f"0: {self._path.name}: {problem}"
        for offset in self._lines:
            yield f"{offset}: in the index, but no record begins here"


def _fields(line: bytes) -> dict[str, Any]:
    """The fields of a line, with its key and time. ValueError, TypeError."""
    key, time, text = line.decode().split(" ", 2)
    return {"urlkey": key, "timestamp": time, **json.loads(text)}
