"""The arithmetic of a crawl with many hubs: buckets, politeness, machines.

For `benchmarks.scale`. Pure: no clock, no files; random draws are from the caller's seed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import exp
from random import Random
from typing import NamedTuple

from benchmarks.scale_web import Domains
from webcrawl.cluster.buckets import BUCKETS, bucket_of

Hosts = Counter[float]
"""How many hosts have a number of pages."""


# Domains to hubs


def buckets_of(web: Iterable[Domains], seed: int) -> list[Hosts]:
    """The hosts of each bucket. Named domains go by their hash; the others are drawn."""
    random, buckets = Random(seed), [Hosts() for _ in range(BUCKETS)]
    for size in web:
        pages = size.pages / size.hosts
        if size.name:
            buckets[bucket_of(size.name)][pages] += size.hosts
            continue
        for bucket in buckets:
            if drawn := poisson(random, size.number / BUCKETS):
                bucket[pages] += drawn * size.hosts
    return buckets


def poisson(random: Random, mean: float) -> int:
    """A draw of the Poisson distribution; from a mean of 50 on, of the normal one beside it."""
    if mean >= 50:
        return max(0, round(random.gauss(mean, mean**0.5)))
    count, product, end = 0, random.random(), exp(-mean)
    while product > end:
        count += 1
        product *= random.random()
    return count


def joined(parts: Iterable[Hosts]) -> Hosts:
    whole = Hosts()
    for part in parts:
        whole.update(part)
    return whole


def pages_of(hosts: Mapping[float, int]) -> float:
    return sum(pages * count for pages, count in hosts.items())


def imbalance(loads: Sequence[float]) -> float:
    """The largest load, divided by the mean."""
    return max(loads) * len(loads) / sum(loads)


# Politeness and time


class Course:
    """The pages of one hub, over time, if its hosts are asked equally often.

    Each host is asked every `delay_s` at most, and the hub serves `pages_per_s` at most. Between
    two points, in which hosts come to their ends, both rise in a straight line.
    """

    def __init__(self, hosts: Mapping[float, int], delay_s: float, pages_per_s: float) -> None:
        at_s = pages = fetched = 0.0  # `fetched` of each host that has not come to its end
        waiting = sum(hosts.values())
        self.times_s, self.pages = [0.0], [0.0]
        for size, count in sorted(hosts.items()):
            at_s += (size - fetched) * max(delay_s, waiting / pages_per_s)
            pages += (size - fetched) * waiting
            self.times_s.append(at_s)
            self.pages.append(pages)
            waiting, fetched = waiting - count, size

    @property
    def end_s(self) -> float:
        return self.times_s[-1]

    def pages_at(self, time_s: float) -> float:
        if time_s >= self.end_s:
            return self.pages[-1]
        after = max(1, bisect_left(self.times_s, time_s))
        (t0, t1), (p0, p1) = (each[after - 1 : after + 1] for each in (self.times_s, self.pages))
        return p0 + (p1 - p0) * (time_s - t0) / (t1 - t0)


def time_of_share(courses: Sequence[Course], share: float) -> float:
    """Seconds until `share` of the pages of all hubs are fetched. By bisection."""
    wanted = share * sum(course.pages[-1] for course in courses)
    low, high = 0.0, max(course.end_s for course in courses)
    for _ in range(50):
        middle = (low + high) / 2
        if sum(course.pages_at(middle) for course in courses) < wanted:
            low = middle
        else:
            high = middle
    return high


# Machines


class Needs(NamedTuple):
    """What a crawl needs in all, and one hub with a mean share of it."""

    cores: float
    hub_cores: float  # of these, of the hubs
    memory_gb: float
    frontier_tb: float
    archive_tb: float
    gbit_per_s: float


class Costs(NamedTuple):
    """Of a page and a URL, as measured (docs/machines.md)."""

    page_ms: float = 1.05  # in one process, `vs-scrapy`; 1.38 to 1.61 over an hour in `soak`
    tls: float = 0.76  # `https`: pages per CPU second against HTTP
    hub_ms: float = 0.32  # a page with ten new links from a fetcher, with the bus
    bus_ms: float = 0.024  # of the nats-server
    filter_bytes: float = 4.0  # memory per known URL, `store`
    row_bytes: float = 46.0  # disk per known URL, `store`
    host_bytes: float = 2000.0  # memory per active host, `memory --hosts 57000`
    hub_mb: float = 33.0  # `store` with 100,000 URLs, less Python
    process_mb: float = 151.0  # `memory`
    archive_bytes: float = 10_000.0  # per page of 25 kB
    page_bytes: float = 25_000.0


MEASURED = Costs()


def needs(
    pages: float,
    pages_per_s: float,
    urls: float,
    hubs: int,
    delay_s: float,
    costs: Costs = MEASURED,
) -> Needs:
    hub_cores = pages_per_s * costs.hub_ms / 1000
    cores = pages_per_s * (costs.page_ms / costs.tls + costs.bus_ms) / 1000 + hub_cores
    processes = max(cores, hubs)  # a process uses one core
    memory = (
        urls * costs.filter_bytes
        + pages_per_s * delay_s * costs.host_bytes
        + 1e6 * (hubs * costs.hub_mb + processes * costs.process_mb)
    )
    return Needs(
        cores,
        hub_cores,
        memory / 1e9,
        urls * costs.row_bytes / 1e12,
        pages * costs.archive_bytes / 1e12,
        pages_per_s * costs.page_bytes * 8 / 1e9,
    )


class Prices(NamedTuple):
    """US dollars per month. Assumptions of November 2026, no offer: set your own."""

    core: float = 7.0
    memory_gb: float = 1.75
    disk_tb: float = 80.0
    archive_tb: float = 18.0


def monthly(needed: Needs, prices: Prices, headroom: float) -> tuple[float, float]:
    """(machines, archive) in US dollars. `headroom` times the cores, memory and disk are rented."""
    machines = headroom * (
        needed.cores * prices.core
        + needed.memory_gb * prices.memory_gb
        + needed.frontier_tb * prices.disk_tb
    )
    return machines, needed.archive_tb * prices.archive_tb
