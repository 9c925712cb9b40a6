"""The cost of what a crawl may leave out, each compared with a crawl without it.

- durability: a JOBDIR that is kept, compared with a frontier on disk that is deleted at the end
- live page: the server of `LIVE`, which nobody asks
- reader: one open live page, compared with that
"""

from __future__ import annotations

import argparse
import json
import socket
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.crawls import (
    PREPARED,
    Cost,
    NotDone,
    Place,
    crawl,
    ratio,
    serving,
    taking_turns,
    world,
)
from webcrawl.live.address import SOCKET, address_of

REPORT = "webcrawl.extensions.report.CrawlReport"
# A cost: the crawl with it, the one without it.
COMPARED = {
    "stats lines": ("default", "no stats lines"),
    "reports": ("default", "no report"),
    "durability": ("JOBDIR", "default"),
    "live page": ("LIVE", "JOBDIR"),
    "reader": ("a reader", "LIVE"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--hosts", type=int, default=300, help="hosts of the simulated web")
    parser.add_argument("--pages-per-host", type=int, default=15, help="average pages per host")
    parser.add_argument("--turns", type=int, default=6, help="runs of each crawl")


def measure(arguments: argparse.Namespace) -> str:
    with serving(*world(arguments.hosts, arguments.pages_per_host, PREPARED)) as place:
        disk: dict[str, Any] = {"FRONTIER_STORE": "disk"}
        without_report = json.dumps({REPORT: None})
        live: dict[str, Any] = {"JOBDIR": jobdir(place), "LIVE": 1}
        costs = taking_turns(
            {
                "default": partial(crawl, place, **disk),
                "no stats lines": partial(crawl, place, STATS_INTERVAL=0, **disk),
                "no report": partial(crawl, place, EXTENSIONS=without_report, **disk),
                "JOBDIR": partial(crawl, place, JOBDIR=jobdir(place)),
                "LIVE": partial(crawl, place, **live),
                "a reader": partial(crawl_with_reader, place, **live),
            },
            arguments.turns,
        )
    times = {name: [cost.cpu_ms for cost in row] for name, row in costs.items()}
    added = (
        f"{name} {100 * ratio(times[with_it], times[without_it]) - 100:+.1f} %"
        for name, (with_it, without_it) in COMPARED.items()
    )
    return f"{costs['default'][0].pages} pages: {', '.join(added)} CPU (target 3 each)"


def crawl_with_reader(place: Place, **settings: Any) -> Cost:
    """Run a crawl whose live page is open, in this process. NotDone if it shows nothing."""
    ended = threading.Event()
    received: list[int] = []
    reader = threading.Thread(target=lambda: received.append(read(jobdir(place), ended)))
    reader.start()
    try:
        return crawl(place, **settings)
    finally:
        ended.set()
        reader.join()
        if received[0] < 10_000:
            raise NotDone(f"the reader received {received[0]} bytes")


def read(folder: Path, ended: threading.Event) -> int:
    """Read the events of the crawl in `folder` as long as it runs; the number of bytes."""
    while not (folder / SOCKET).exists():
        if ended.is_set():
            return 0
        time.sleep(0.05)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        with address_of(folder) as address:
            connection.connect(address)
        connection.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        size = 0
        while data := connection.recv(1 << 16):
            size += len(data)
        return size


def jobdir(place: Place) -> Path:
    return place.crawled / "job"
