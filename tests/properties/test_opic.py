"""The opic ordering compared with PageRank, computed over the whole graph.

A graph with a power law of in-degrees is crawled page by page, in each order, with the frontier in
memory. The order of a crawl is good when the pages that it fetches early have most of the PageRank.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.contracts.frontier import FOREVER, link, memory_frontier
from webcrawl.frontier.base import Policy
from webcrawl.frontier.disk.frontier import LocalFrontier
from webcrawl.frontier.lease import Fetched, Lane, Link, Resolved, Step
from webcrawl.frontier.orderings import ORDERINGS, Ordering
from webcrawl.frontier.politeness import Politeness

PAGES, HOSTS = 2000, 130
POLICY = Policy(politeness=Politeness(0.0, 0.0), obey_robots=False)

TRAP = "http://trap/"

Graph = dict[str, list[str]]  # outlinks by URL


class Shuffled(Ordering):
    """A random known URL."""

    def __init__(self) -> None:
        self._random = Random(1)

    def enter(self, link: Link, number: int, cash: float | None) -> int:
        return self._random.randrange(1 << 30)


ORDERS: dict[str, Callable[[], Ordering]] = {**ORDERINGS, "shuffled": Shuffled}


def scale_free(seed: int) -> Graph:
    """Pages whose in-degrees follow a power law; some have no links. The first ten reach all."""
    random = Random(seed)
    words = ("", "a/", "a/b/", "a/b/c/")
    urls = [f"http://h{random.randrange(HOSTS)}/{random.choice(words)}{n}" for n in range(PAGES)]
    ranks = list(range(PAGES))
    random.shuffle(ranks)
    weights = list(itertools.accumulate((1 + rank) ** -0.7 for rank in ranks))
    graph = {}
    for url in urls:
        count = min(int(random.paretovariate(1.2) * 3), 60) if random.random() < 0.9 else 0
        graph[url] = random.choices(urls, cum_weights=weights, k=count)
    found = urls[:10]
    known = set(found)
    for url in found:
        new = [target for target in dict.fromkeys(graph[url]) if target not in known]
        found += new
        known.update(new)
    return {url: graph[url] for url in found}


def pagerank(graph: Graph, damping: float = 0.9) -> dict[str, float]:
    """PageRank by power iteration. A page without links leads to all pages."""
    rank = dict.fromkeys(graph, 1 / len(graph))
    for _ in range(50):
        loose = sum(rank[url] for url in graph if not graph[url])
        following = dict.fromkeys(graph, (1 - damping + damping * loose) / len(graph))
        for url, targets in graph.items():
            distinct = set(targets)
            for target in distinct:
                following[target] += damping * rank[url] / len(distinct)
        rank = following
    return rank


def crawl(
    order: str,
    seeds: list[str],
    links_of: Callable[[str], list[str]],
    pages_max: int = PAGES,
    *,
    jobdir: Path | None = None,
) -> list[str]:
    """The pages in the order in which they are fetched, one at a time.

    With a `jobdir` the frontier is on disk, and the crawler is killed during each fiftieth page.
    """

    def begin(now: float) -> LocalFrontier:
        if jobdir is None:
            return memory_frontier(POLICY, ordering=ORDERS[order]())
        return LocalFrontier(jobdir, POLICY, ordering=ORDERS[order](), now=now)

    async def run() -> list[str]:
        frontier, fetched, deaths = begin(0.0), [], 0
        await frontier.put([link(url) for url in seeds], 0.0)
        for now in itertools.count(1.0):
            for lease in await frontier.acquire(now, 1000, Lane.ADMISSIONS):
                assert lease.step is Step.RESOLVE
                await frontier.release([(lease, Resolved(("10.0.0.1",), FOREVER))], now)
            [lease] = await frontier.acquire(now, 1)
            if jobdir is not None and len(fetched) // 50 > deaths:
                deaths += 1
                await frontier.close()
                frontier = begin(now)
                continue
            fetched.append(lease.url)
            assert lease.link is not None
            depth, targets = lease.link.depth + 1, links_of(lease.url)
            links = tuple(link(target, depth=depth, via=lease.url) for target in targets)
            await frontier.release([(lease, Fetched(200, now, now, links))], now)
            if frontier.is_finished() or len(fetched) == pages_max:
                break
        frontier.audit()
        await frontier.close()
        return fetched

    return asyncio.run(run())


def correlation(order: list[str], value: dict[str, float]) -> float:
    """Spearman's rank correlation of early fetches with high importance."""
    by_value = sorted(order, key=lambda url: -value[url])
    place = {url: at for at, url in enumerate(by_value)}
    n = len(order)
    return 1 - 6 * sum((at - place[url]) ** 2 for at, url in enumerate(order)) / (n * (n * n - 1))


@pytest.fixture(scope="module")
def graph() -> Graph:
    return scale_free(1)


def test_important_pages_come_early(graph: Graph) -> None:
    importance, seeds = pagerank(graph), list(graph)[:10]
    orders = {
        order: crawl(order, seeds, graph.__getitem__) for order in ("opic", "level", "shuffled")
    }
    assert {len(fetched) for fetched in orders.values()} == {len(graph)}
    opic = orders.pop("opic")
    best = sorted(graph, key=importance.__getitem__, reverse=True)
    for first in (len(graph) // 10, len(graph) // 5):
        found = sum(importance[url] for url in opic[:first])
        assert found > 0.75 * sum(importance[url] for url in best[:first])
        for order, fetched in orders.items():
            assert found > 1.12 * sum(importance[url] for url in fetched[:first]), order
    assert correlation(opic, importance) > 0.8
    for order, fetched in orders.items():
        assert correlation(fetched, importance) < 0.65, order


def with_trap(graph: Graph) -> Callable[[str], list[str]]:
    """The links of `graph` and of a trap: a host that links each of its pages to ten new ones.

    Every twentieth page of `graph` links to the trap.
    """
    numbers, linking = itertools.count(), set(list(graph)[::20])

    def links_of(url: str) -> list[str]:
        if url.startswith(TRAP):
            return [f"{TRAP}{next(numbers)}" for _ in range(10)]
        return [*graph[url], TRAP] if url in linking else graph[url]

    return links_of


def test_a_link_trap_starves(graph: Graph) -> None:
    seeds, pages_max = list(graph)[:10], 600

    def trapped(order: str) -> int:
        fetched = crawl(order, seeds, with_trap(graph), pages_max)
        return sum(url.startswith(TRAP) for url in fetched)

    assert trapped("level") > 0.9 * pages_max
    assert trapped("opic") < 0.02 * pages_max


def test_a_crawl_that_is_killed_keeps_its_cash_and_so_its_order(
    graph: Graph, tmp_path: Path
) -> None:
    seeds = list(graph)[:10]
    killed = crawl("opic", seeds, graph.__getitem__, 300, jobdir=tmp_path)
    assert killed == crawl("opic", seeds, graph.__getitem__, 300)
