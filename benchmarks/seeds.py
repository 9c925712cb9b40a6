"""Seconds from the start of the process to the first request, with a long list of seeds."""

from __future__ import annotations

import argparse
import socket
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.crawls import NotDone, say
from benchmarks.here import ROOT

TARGET_S = 3
HOSTS = 10_000
LONGEST_S = 120.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seeds", type=int, default=1_000_000, help="lines of the list")
    parser.add_argument("--store", choices=("disk", "memory"), default="disk", help="frontier")
    parser.add_argument("--turns", type=int, default=3, help="runs of the start")


def measure(arguments: argparse.Namespace) -> str:
    took_s = []
    with TemporaryDirectory(prefix="webcrawl-bench-") as name:
        for turn in range(arguments.turns):
            folder = Path(name) / str(turn)  # a new crawl, not a resumed one
            folder.mkdir()
            with socket.create_server(("0.0.0.0", 0)) as server:  # all of 127.0.0.0/8
                server.settimeout(LONGEST_S)
                write_seeds(folder / "seeds.txt", arguments.seeds, server.getsockname()[1])
                took_s.append(first_request_s(server, folder, arguments.store))
                say(f"  {turn + 1}/{arguments.turns}: {took_s[-1]:.2f} s")
    return (
        f"{arguments.seeds} seeds on {HOSTS} hosts: first request after {median(took_s):.2f} s"
        f" (target {TARGET_S})"
    )


def write_seeds(path: Path, count: int, port: int) -> None:
    """Write a list whose hosts are IP addresses, one URL per address."""
    with path.open("w") as file:
        for number in range(count):
            rest, last = divmod(number % HOSTS, 250)
            file.write(f"http://127.1.{rest}.{last + 1}:{port}/section/{number}.html\n")


def first_request_s(server: socket.socket, folder: Path, store: str) -> float:
    """Seconds from the start of a crawl to its first request; then end the crawl."""
    settings = (
        *("ALLOW_PRIVATE_ADDRESSES=1", f"FRONTIER_STORE={store}", f"JOBDIR={folder / 'job'}"),
        f"WARC_DIR={folder / 'warc'}",
    )
    options = [part for setting in settings for part in ("-s", setting)]
    command = ["scrapy", "crawl", "broad", "-a", f"seeds={folder / 'seeds.txt'}", *options]
    began = time.monotonic()
    with (folder / "log.txt").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        connection, _ = server.accept()
        with connection:
            request = connection.recv(4096)
    except TimeoutError:
        raise NotDone(f"no request in {LONGEST_S:.0f} s") from None
    finally:
        process.kill()
        process.wait()
    if not request.startswith(b"GET /robots.txt "):
        raise NotDone(f"the first request is {request[:100]!r}")
    return time.monotonic() - began
