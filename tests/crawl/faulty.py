"""`python -m tests.crawl.faulty FAULTS REPORT PORT -- ...` runs `scrapy ...` and kills it often.

FAULTS is a list with commas. "before-commit:7" kills at the 7th commit, before it is made; POINTS
has the names of the places. "random:400" kills 400 ms after the start. Each fault is one run, in a
process forked after Scrapy is imported and before the crawl starts. A run starts once no process of
the run before is left and the servers at PORT have read all requests. The last run is not killed.
REPORT gets one line of JSON per kill: the fault, and the URLs leased at that moment.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from scrapy.cmdline import execute

from tests.crawl.crawling import wait_for_servers
from tests.forkedworkers import fork_workers
from webcrawl.downloader import handler
from webcrawl.extensions import feeds
from webcrawl.frontier.disk.database import Database
from webcrawl.frontier.disk.frontier import LocalFrontier
from webcrawl.frontier.lease import Lease
from webcrawl.pipelines import warc
from webcrawl.scheduler import scheduler
from webcrawl.warc import files, recovery
from webcrawl.warc.files import WarcFiles
from webcrawl.warc.index import Index

PRELOADED = (handler, scheduler, warc, feeds)  # imported once, not by each run

# Where a run can be killed: before, within or after a call of this method or function.
POINTS: dict[str, tuple[Any, str]] = {
    "open": (Database, "__init__"),
    "commit": (Database, "commit"),
    "write": (WarcFiles, "write"),  # the records of a page
    "append": (files._File, "append"),  # their bytes; a kill within leaves half of them written
    "flush": (feeds, "_flush"),  # an item of a feed; a kill within leaves it torn
    "release": (LocalFrontier, "release"),  # a page is archived, but not committed
    "index": (Index, "publish"),  # the index of a file; after it the file is not yet renamed
    "mend": (recovery, "publish"),  # a file of a killed run: cut, but not yet renamed
}

_PR_SET_CHILD_SUBREAPER = 36  # prctl(2)


def main() -> None:
    faults, report, port, _, *sys.argv[1:] = sys.argv[1:]
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)  # adopt the child processes of a killed run
    for fault in faults.split(","):
        child = os.fork()
        if not child:
            run(fault, Path(report))
        _, status = os.waitpid(child, 0)
        with suppress(ChildProcessError):
            while True:
                os.wait()
        if not os.WIFSIGNALED(status):  # the crawl ended before the fault
            sys.exit(os.waitstatus_to_exitcode(status))
        wait_for_servers(int(port))
    fork_workers(sys.argv)
    sys.exit(execute())


def run(fault: str, report: Path) -> None:
    """Run a crawl until `fault` kills it."""
    fork_workers(sys.argv)
    leased: dict[Lease, None] = {}
    keep_account(leased)

    def die() -> None:
        line = {"fault": fault, "leased": [lease.url for lease in list(leased)]}
        with report.open("a") as out:
            out.write(json.dumps(line) + "\n")
        os.kill(os.getpid(), signal.SIGKILL)

    place, _, number = fault.partition(":")
    if place == "random":
        signal.signal(signal.SIGALRM, lambda *_: die())
        signal.setitimer(signal.ITIMER_REAL, int(number) / 1000)
    else:
        side, _, point = place.partition("-")
        arm(*POINTS[point], side, int(number), die)
    sys.exit(execute())


def keep_account(leased: dict[Lease, None]) -> None:
    """Keep in `leased` the leases whose release is not committed."""
    acquire, release = LocalFrontier.acquire, LocalFrontier.release

    async def acquired(self: LocalFrontier, *args: Any, **kwargs: Any) -> list[Lease]:
        leases = await acquire(self, *args, **kwargs)
        leased.update(dict.fromkeys(leases))
        return leases

    async def released(self: LocalFrontier, done: list[Any], now: float) -> None:
        await release(self, done, now)
        for lease, _ in done:
            del leased[lease]

    LocalFrontier.acquire, LocalFrontier.release = acquired, released  # type: ignore[method-assign,assignment]


def arm(owner: Any, name: str, side: str, number: int, die: Callable[[], None]) -> None:
    """Make the `number`-th call of `owner.name` kill this process."""
    real, calls = getattr(owner, name), 0

    def faulty(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls != number:
            return real(*args, **kwargs)
        if side == "before":
            die()
        if side == "within":
            if owner is feeds:
                real(*args)
                os.truncate(args[0].storage.path, os.path.getsize(args[0].storage.path) - 7)
                die()
            file, members = args
            data = b"".join(members)
            os.pwrite(file.fd, data[: len(data) // 2], file.size)
            die()
        result = real(*args, **kwargs)
        die()
        return result

    setattr(owner, name, faulty)


if __name__ == "__main__":
    main()
