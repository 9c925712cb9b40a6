"""`python benchmarks/frontier.py`: what the frontier costs as it grows, in time and in memory.

One process, no network: links are put, leased and released as fast as it goes, with delays of 0.
The hosts have names of usual length, and each page brings links to random ones. One line for each
size, then one for the end; times are CPU time of all threads.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from webcrawl.admission.robots import RobotsRules  # noqa: E402  (found by the line above)
from webcrawl.frontier.base import Policy  # noqa: E402
from webcrawl.frontier.core import CrawlState  # noqa: E402
from webcrawl.frontier.database import size_bytes  # noqa: E402
from webcrawl.frontier.diskstore import DiskStore  # noqa: E402
from webcrawl.frontier.lease import (  # noqa: E402
    Fetched,
    Lease,
    Link,
    Outcome,
    Resolved,
    RobotsFetched,
    Step,
)
from webcrawl.frontier.store import MemoryStore  # noqa: E402
from webcrawl.politeness.clocks import Politeness  # noqa: E402

FOREVER = 1e12
BATCH = 1000
TURN = 50  # leases at a time, as a pump's turn has them
RULES = RobotsRules.parse(b"user-agent: *\ndisallow: /private\ndisallow: /*.cgi\n", "webcrawl")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--urls", type=int, default=1_000_000)
    parser.add_argument("--hosts", type=int, default=100_000)
    parser.add_argument("--active", type=int, default=50_000)
    parser.add_argument("--pages", type=int, default=20_000, help="leased at each size")
    parser.add_argument("--big", type=int, default=0, help="links that one host has beforehand")
    parser.add_argument("--store", choices=("disk", "memory"), default="disk")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = DiskStore(Path(folder) / "f") if arguments.store == "disk" else MemoryStore()
        run(store, arguments, Path(folder) / "f")
    return 0


def run(store: DiskStore | MemoryStore, arguments: argparse.Namespace, folder: Path) -> None:
    policy = Policy(politeness=Politeness(delay_s=0.0, ip_delay_s=0.0))
    state = CrawlState(store, policy, active_max=arguments.active)
    links = random_links(Random(1), arguments.hosts)
    put(state, big_links(), arguments.big)
    size, put_so_far = max(arguments.urls // 100, BATCH), 0
    while put_so_far < arguments.urls:
        more = min(size, arguments.urls) - put_so_far
        put_us = cost(partial(put, state, links, more), more)
        put_so_far += more
        times = work(state, links, arguments.pages)
        disk = size_bytes(folder) >> 20 if folder.exists() else 0
        print(
            f"{arguments.store}: {put_so_far:>11,} URLs  {rss_mb():4} MB memory  {disk:5} MB disk"
            f"  µs: put {put_us:5.1f}  acquire {times['acquire']:5.1f}"
            f"  release {times['release']:5.1f} with {LINKS} links",
            flush=True,
        )
        size *= 10
    if isinstance(store, DiskStore):
        store.close()


LINKS = 10


def random_links(random: Random, hosts: int) -> Iterator[Link]:
    """Links that are all new, a page's in a row."""
    number = 0
    while True:
        host = f"www.host-{random.randrange(hosts)}.example.com"
        number += 1
        path = "/".join(("section", "article", "page")[: random.randrange(4)])
        url = f"http://{host}/{path}/{number}.html"
        yield Link(url, host, 3, via="http://www.example.com/some/other/page.html")


def big_links() -> Iterator[Link]:
    """Links of one host, behind those of the others."""
    for number in count():
        yield Link(f"http://big.example.com/a/b/c/d/{number}.html", "big.example.com", 3)


def take(links: Iterator[Link], count: int) -> list[Link]:
    return [next(links) for _ in range(count)]


def put(state: CrawlState, links: Iterator[Link], count: int) -> None:
    for _ in range(0, count, BATCH):
        state.put(take(links, BATCH), 1.0)


def work(state: CrawlState, links: Iterator[Link], pages: int) -> dict[str, float]:
    """Fetch so many pages; µs a page of each call, admissions of new hosts apart."""
    spent, done = {"acquire": 0.0, "release": 0.0}, 0

    def timed(name: str, call: Callable[[], Any]) -> Any:
        began = time.process_time()
        result = call()
        spent[name] += time.process_time() - began
        return result

    while done < pages:
        for lease in iter_admissions(state):
            state.release([(lease, admitted(lease))], 1.0)
        leases = timed("acquire", partial(state.acquire, 1.0, TURN))
        outcomes = [(lease, page(links)) for lease in leases]
        timed("release", partial(state.release, outcomes, 1.0))
        done += len(leases)
    return {name: 1e6 * seconds / done for name, seconds in spent.items()}


def iter_admissions(state: CrawlState) -> Iterator[Lease]:
    """Admissions until a turn's worth of pages is ready, or nothing is left to admit."""
    for _ in range(4):
        yield from state.acquire(1.0, TURN, admissions=True)


def admitted(lease: Lease) -> Outcome:
    if lease.step is Step.RESOLVE:
        return Resolved((f"10.{hash(lease.host) % 255}.1.1",), FOREVER)
    return RobotsFetched(RULES, FOREVER, 0.5, 0.5)


def page(links: Iterator[Link]) -> Outcome:
    return Fetched(200, 0.5, 0.5, tuple(take(links, LINKS)))


def cost(call: Callable[[], None], count: int) -> float:
    began = time.process_time()
    call()
    return 1e6 * (time.process_time() - began) / count


def rss_mb() -> int:
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(fields["VmRSS"].split()[0]) // 1024


if __name__ == "__main__":
    sys.exit(main())
