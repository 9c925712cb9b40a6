"""Carries out tasks in processes of their own: of `report` and `corpus`, which read WARC files."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing.connection import wait as wait_for
from resource import RLIMIT_DATA, setrlimit
from typing import TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")

DATA_MAX = 400 << 20  # bytes of memory that a process may ask for
# glibc gives the memory of each page's tree back and asks for it again, which is 4 % of the time.
_KEPT_BYTES = 31 << 20


def in_processes(
    function: Callable[[Task], Result],
    tasks: Iterable[Task],
    processes: int = 0,
    *,
    more_bytes: int = 0,
) -> Iterator[tuple[Task, Result]]:
    """Each of `tasks` with the result of `function`, in the order in which they end.

    At most twice as many are under way as there are processes, by default one per core. After an
    exception, such as KeyboardInterrupt, none goes on. `more_bytes`: of memory, beside DATA_MAX.
    BrokenProcessPool.
    """
    processes = processes or len(os.sched_getaffinity(0))
    context = multiprocessing.get_context("spawn")  # DuckDB has threads: no fork
    running: dict[Future[Result], Task] = {}
    with ProcessPoolExecutor(processes, context, _begin, (DATA_MAX + more_bytes,)) as pool:
        try:
            for task in tasks:
                # A process that this starts inherits the mask; Ctrl-C of this one comes afterwards.
                before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
                try:
                    running[pool.submit(function, task)] = task
                finally:
                    signal.pthread_sigmask(signal.SIG_SETMASK, before)
                if len(running) > 2 * processes:
                    yield from _ended(running)
            while running:
                yield from _ended(running)
        except BaseException:
            for process in multiprocessing.active_children():
                process.terminate()
            raise


def _ended(running: dict[Future[Result], Task]) -> Iterator[tuple[Task, Result]]:
    for future in wait(running, return_when=FIRST_COMPLETED).done:
        yield running.pop(future), future.result()


def _begin(data_max: int) -> None:
    """Begin a process of the pool: it ends with its parent, and its memory is bounded."""
    setrlimit(RLIMIT_DATA, (data_max, data_max))
    bytes(_KEPT_BYTES)  # mallopt(3), M_TRIM_THRESHOLD: a freed mapping raises it to twice its size
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end_with_parent() -> None:
        wait_for([parent.sentinel])
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
