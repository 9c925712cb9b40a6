"""Pages per second of one crawl in one process, in two ...: how much of the machine is used?

The servers run on the same machine and use a part of it.
"""

from __future__ import annotations

import argparse

from benchmarks.crawls import MENU, check, crawl, pages_per_s, say, serving, world

TARGET = 1000  # pages per second on two cores, sustained


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pages", type=int, default=100_000, help="pages of each crawl")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2], help="CRAWL_PROCESSES")
    parser.add_argument(
        "--menu", type=int, default=MENU, help="links shared by all pages of a host"
    )


def measure(arguments: argparse.Namespace) -> str:
    hosts = max(arguments.pages // 20, 100)
    told = []
    with serving(*world(hosts, 40, "--partial", f"--menu={arguments.menu}")) as place:
        for processes in arguments.processes:
            cost = crawl(
                place,
                CLOSESPIDER_PAGECOUNT=arguments.pages,
                CRAWL_PROCESSES=processes,
                STATS_INTERVAL=1,
            )
            check(cost)
            late = [sample for sample in cost.samples if sample.pages > arguments.pages / 2]
            told.append(
                f"{processes}: {cost.pages_per_s:.0f} pages/s, {pages_per_s(late):.0f} in the"
                f" second half, {cost.cpu_ms:.2f} ms CPU a page"
            )
            say(f"  {told[-1]}")
    return f"{arguments.pages} pages, by processes (target {TARGET}): {'; '.join(told)}"
