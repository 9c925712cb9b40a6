"""The file of a crawl's time series: one JSON object per line, bounded.

Owns the file and its thinning; knows neither the crawl nor the clock. Does I/O: all calls are made
by one thread at a time. Invariants: whatever ends the process, each line but the last is whole, and
the next `open` cuts a torn last line off; a failed call leaves the file as it was before.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from webcrawl.base.synced import replace_file

POINTS_MAX: Final = 2_000  # some 2.5 KB each
FIRST_INTERVAL_S: Final = 2.0  # as the stats lines


def series_path(folder: Path, crawl_id: str) -> Path:
    return folder / f"series-{crawl_id}.jsonl"


def read_series(path: Path) -> Iterator[dict[str, Any]]:
    """The points of a file, oldest first, also while it is written. OSError.

    A line that is no point is left out.
    """
    with path.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n"):  # it is torn, or is being written
                return
            try:
                point = msgspec.json.decode(line, type=dict[str, Any])
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
            if isinstance(point.get("t"), int | float):
                yield point


class SeriesFile:
    """Appends points. When there are more than POINTS_MAX, every second one is left out.

    So a crawl of any length has between 1,000 and 2,000 points at about equal distances, and the
    first point stays. `interval_s` is the distance; it doubles with each thinning.
    """

    def __init__(self, path: Path) -> None:
        self.interval_s = FIRST_INTERVAL_S
        self._path = path
        self._run = 0  # 0: the file is not open yet
        self._points = 0
        self._size_bytes = 0  # of the whole lines

    def append(self, point: dict[str, Any]) -> None:
        """Write `point`, with the number of the run.

        The first call continues the file of earlier runs, or begins one. OSError if `point` cannot
        be written; a later call may succeed.
        """
        if not self._run:
            self._open()
        line = json.dumps(point | {"run": self._run}, separators=(",", ":")).encode() + b"\n"
        with self._path.open("r+b") as file:
            file.truncate(self._size_bytes)  # what a failed call has left
            file.seek(self._size_bytes)
            file.write(line)
        self._size_bytes += len(line)
        self._points += 1
        if self._points > POINTS_MAX:
            self._thin()

    def _open(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._points = self._size_bytes = 0
        last = b""
        with self._path.open("a+b") as file:
            file.seek(0)
            for line in file:
                if line.endswith(b"\n"):  # a torn line is cut off by `append`
                    self._points += 1
                    self._size_bytes += len(line)
                    last = line
        elapsed_s, run = 0.0, 0
        if last:
            try:
                point = json.loads(last)
                elapsed_s, run = float(point["t"]), int(point["run"])
            except (ValueError, TypeError, KeyError):
                raise OSError(f"{self._path} is no time series") from None
        while self.interval_s * self._points < elapsed_s / 2:
            self.interval_s *= 2
        self._run = run + 1

    def _thin(self) -> None:
        """Leave every second point out. The file is replaced whole."""
        with self._path.open("rb") as file:
            points = [line for number, line in enumerate(file) if number % 2 == 0]
        replace_file(self._path, b"".join(points))
        self._points, self._size_bytes = len(points), sum(map(len, points))
        self.interval_s *= 2
