"""A bar on standard error while files are read, if that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

Progress = Callable[[int], object]  # called with the bytes that were read since the last call


@contextmanager
def bar_of_bytes(text: str, total_bytes: int) -> Iterator[Progress]:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    console = Console(stderr=True)
    is_off = not sys.stderr.isatty()
    with Bar(*columns, TimeRemainingColumn(), console=console, disable=is_off) as bar:
        yield partial(bar.advance, bar.add_task(text, total=total_bytes))
