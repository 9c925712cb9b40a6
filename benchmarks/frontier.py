"""`python benchmarks/frontier.py`: time and memory of the frontier as it grows.

One process, no network: links are put, leased and released as fast as possible, with delays of 0.
Host names have the usual length. Each page has links to random hosts: new URLs, and with `--known`
also URLs put before. One line per size, then one line for the end. Times are CPU time of all
threads. With several `--order` the orders take turns, and a last line compares them.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count, islice
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.here import cpu_us, rss_mb  # noqa: E402  (needs the path set above)
from webcrawl.frontier.base import Policy  # noqa: E402
from webcrawl.frontier.core import CrawlState  # noqa: E402
from webcrawl.frontier.disk.database import size_bytes  # noqa: E402
from webcrawl.frontier.disk.store import Store  # noqa: E402
from webcrawl.frontier.lease import (  # noqa: E402
    Fetched,
    Lane,
    Lease,
    Link,
    Outcome,
    Resolved,
    RobotsFetched,
    Step,
)
from webcrawl.frontier.orderings import ORDERINGS  # noqa: E402
from webcrawl.frontier.politeness import Politeness  # noqa: E402
from webcrawl.parse.robots import RobotsRules  # noqa: E402

FOREVER = 1e12
BATCH = 1000
TURN = 50  # leases per acquire, as in a turn of the scheduler's pump
RULES = RobotsRules.parse(b"user-agent: *\ndisallow: /private\ndisallow: /*.cgi\n", "webcrawl")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--urls", type=int, default=1_000_000)
    parser.add_argument("--hosts", type=int, default=100_000)
    parser.add_argument("--active", type=int, default=50_000)
    parser.add_argument("--pages", type=int, default=20_000, help="pages leased at each size")
    parser.add_argument("--big", type=int, default=0, help="links of one host, put first")
    parser.add_argument("--store", choices=("disk", "memory"), default="disk")
    parser.add_argument("--known", type=int, default=0, help="links per page to known URLs")
    parser.add_argument("--order", choices=ORDERINGS, nargs="+", default=["level"])
    parser.add_argument("--rounds", type=int, default=1)
    arguments = parser.parse_args()
    spent: dict[str, list[float]] = {order: [] for order in arguments.order}
    for order in arguments.order * arguments.rounds:
        with tempfile.TemporaryDirectory() as folder:
            began = time.process_time()
            run(order, arguments, Path(folder) / "f")
            spent[order].append(time.process_time() - began)
    first = min(spent[arguments.order[0]])
    for order in arguments.order[1:]:
        print(
            f"{order}: {min(spent[order]) / first:.2f} times the CPU time of {arguments.order[0]}"
        )
    return 0


def run(order: str, arguments: argparse.Namespace, folder: Path) -> None:
    ordering = ORDERINGS[order]()
    store = Store(folder if arguments.store == "disk" else None)
    policy = Policy(politeness=Politeness(delay_s=0.0, ip_delay_s=0.0))
    state = CrawlState(store, policy, ordering=ordering, active_max=arguments.active)
    links = RandomLinks(Random(1), arguments.hosts, arguments.known)
    put(state, big_links(arguments.big))
    size, put_so_far = max(arguments.urls // 100, BATCH), 0
    while put_so_far < arguments.urls:
        more = min(size, arguments.urls) - put_so_far
        put_us = cpu_us(partial(put, state, islice(links.seeds(), more)), more)
        put_so_far += more
        times = work(state, links, arguments.pages)
        disk = size_bytes(folder) // 1_000_000 if folder.exists() else 0
        print(
            f"{arguments.store}, {order}: {put_so_far:>11,} URLs  {rss_mb():4} MB memory"
            f"  {disk:5} MB disk"
            f"  µs: put {put_us:5.1f}  acquire {times['acquire']:5.1f}"
            f"  release {times['release']:5.1f} with {LINKS + arguments.known} links at most",
            flush=True,
        )
        size *= 10
    store.close()


LINKS = 10


class RandomLinks:
    """Links to URLs of random hosts.

    Three in four of a page's known URLs are on its own host. The others are on any host; URLs made
    earlier are linked to more often."""

    def __init__(self, random: Random, hosts: int, known: int) -> None:
        self._random = random
        self._hosts = hosts
        self._known = known
        self._numbers = count()
        self._made: list[str] = []
        self._of_host: dict[str, list[str]] = defaultdict(list)

    def seeds(self) -> Iterator[Link]:
        while True:
            yield Link(*self._new())

    def of_page(self, host: str) -> tuple[Link, ...]:
        random, made, near = self._random.random, self._made, self._of_host.get(host, ())
        on_host = self._known * 3 // 4
        links = [self._new() for _ in range(LINKS)]
        links += [(near[int(len(near) * random())], host) for _ in range(on_host)]
        for _ in range(self._known - on_host):
            url = made[int(len(made) * random() ** 3)]
            links.append((url, url.split("/", 3)[2]))
        via = "http://www.example.com/some/other/page.html"
        return tuple(Link(url, host, 1, via=via) for url, host in dict(links).items())

    def _new(self) -> tuple[str, str]:
        random = self._random
        host = f"www.host-{random.randrange(self._hosts)}.example.com"
        path = "/".join(("section", "article", "page")[: random.randrange(4)])
        url = f"http://{host}/{path}/{next(self._numbers)}.html"
        if self._known:  # otherwise all memory belongs to the frontier
            self._made.append(url)
            self._of_host[host].append(url)
        return url, host


def big_links(links: int) -> Iterator[Link]:
    """Links of one host, queued after the links of all other hosts."""
    for number in range(links):
        yield Link(f"http://big.example.com/a/b/c/d/{number}.html", "big.example.com", 3)


def put(state: CrawlState, links: Iterator[Link]) -> None:
    while batch := list(islice(links, BATCH)):
        state.put(batch, 1.0)


def work(state: CrawlState, links: RandomLinks, pages: int) -> dict[str, float]:
    """Fetch this many pages; return the µs per page of each call, admissions counted separately."""
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
        outcomes = [(lease, page(links, lease)) for lease in leases]
        timed("release", partial(state.release, outcomes, 1.0))
        done += len(leases)
    return {name: 1e6 * seconds / done for name, seconds in spent.items()}


def iter_admissions(state: CrawlState) -> Iterator[Lease]:
    """Admit hosts until TURN pages are ready, or no host is left."""
    for _ in range(4):
        yield from state.acquire(1.0, TURN, Lane.ADMISSIONS)


def admitted(lease: Lease) -> Outcome:
    if lease.step is Step.RESOLVE:
        return Resolved((f"10.{hash(lease.host) % 255}.1.1",), FOREVER)
    return RobotsFetched(RULES, FOREVER, 0.5, 0.5)


def page(links: RandomLinks, lease: Lease) -> Outcome:
    return Fetched(200, 0.5, 0.5, links.of_page(lease.host))


if __name__ == "__main__":
    sys.exit(main())
