"""How many URLs the registered domains of the web have: for `benchmarks.scale`.

Published counts (https://github.com/commoncrawl/cc-crawl-statistics, CC-MAIN-2024-42): the URLs and
hosts of the 40 largest domains (scale_domains.csv), the URLs of the 500th, and the numbers of all
domains and URLs. Assumption: from the 41st on, the URLs of a domain fall with a power of its rank,
and it is one host. The power is the only one that leads through the 500th domain and to all URLs.
"""

from __future__ import annotations

import csv
import gzip
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from math import inf
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from webcrawl.parse.domains import registered_domain

LARGEST = Path(__file__).with_name("scale_domains.csv")
DOMAINS, HOSTS, URLS = 38_304_026, 47_552_457, 2_482_057_519
KNOWN_RANK, KNOWN_URLS = 500, 104_945
ONE_BY_ONE = 20_000  # ranks whose domains are modelled one by one; then in classes of a size
CLASS_WIDTH = 1.15  # last rank of a class, divided by its first


class Domains(NamedTuple):
    """`number` domains of one size. `name` decides the bucket of a single domain; "": anywhere."""

    pages: float  # of each
    hosts: int  # of each, with the same number of pages
    number: int = 1
    name: str = ""


def common_crawl(pages: float, *, even_hosts: bool = False) -> list[Domains]:
    """The domains of Common Crawl, enlarged by one factor so that they have `pages` together.

    With `even_hosts`, the hosts that are left over are on the domains after the 40th, in proportion
    to their pages: the other extreme to one host for each domain.
    """
    times = pages / URLS
    with LARGEST.open(encoding="utf-8", newline="") as file:
        named = [
            Domains(times * int(row["urls"]), int(row["hosts"]), 1, row["domain"])
            for row in csv.DictReader(file)
        ]
    rest = URLS - sum(each.pages for each in named) / times
    power = power_through(KNOWN_RANK, KNOWN_URLS, range(len(named) + 1, DOMAINS + 1), rest)
    spare = HOSTS - DOMAINS - sum(each.hosts - 1 for each in named)
    scale = times * KNOWN_URLS * KNOWN_RANK**power
    per_page = spare / (times * rest) if even_hosts else 0.0
    return [*named, *tail(scale, power, len(named) + 1, per_page)]


def power_through(rank: int, size: float, ranks: range, total: float) -> float:
    """The p for which sizes of `size * (rank / r) ** p` at all r of `ranks` have the sum `total`.

    By bisection between 0 and 1, where the sum falls with p if most of it is beyond `rank`.
    """
    low, high = 0.0, 1.0
    for _ in range(60):
        power = (low + high) / 2
        if size * rank**power * sum_of_powers(ranks, power) > total:
            low = power
        else:
            high = power
    return power


def sum_of_powers(ranks: range, power: float) -> float:
    """About the sum of r ** -power for all r of `ranks`: the integral around them."""
    begin, end, exponent = ranks.start - 0.5, ranks.stop - 0.5, 1 - power
    if abs(exponent) < 1e-9:
        exponent = 1e-9
    return float((end**exponent - begin**exponent) / exponent)


def tail(scale: float, power: float, first: int, hosts_per_page: float) -> Iterator[Domains]:
    """The domains from rank `first` on: one by one, then in classes of a mean size."""
    for rank in range(first, ONE_BY_ONE + 1):
        pages = scale * rank**-power
        yield Domains(pages, 1 + round(hosts_per_page * pages), 1, f"rank-{rank}.example")
    begin = ONE_BY_ONE + 1
    while begin <= DOMAINS:
        end = min(int(begin * CLASS_WIDTH) + 1, DOMAINS + 1)
        mean = scale * sum_of_powers(range(begin, end), power) / (end - begin)
        yield Domains(mean, 1 + round(hosts_per_page * mean), end - begin)
        begin = end


def of_list(path: Path, pages: float) -> list[Domains]:
    """The domains of a list of URLs (a line each, plain or gzip), enlarged to `pages` together."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", errors="replace") as file:
        hosts = Counter(filter(None, map(host_of, file)))
    urls: Counter[str] = Counter()
    for host, count in hosts.items():
        urls[registered_domain(host)] += count
    hosts_of = Counter(map(registered_domain, hosts))
    times = pages / urls.total()
    return [Domains(times * n, hosts_of[name], 1, name) for name, n in urls.most_common()]


def host_of(line: str) -> str:
    """The host of the URL in a line; "" if there is none."""
    try:
        return urlsplit(line.strip()).hostname or ""
    except ValueError:
        return ""


def with_budgets(web: Iterable[Domains], per_domain: float, per_host: float) -> list[Domains]:
    """With at most so many pages (MAX_PAGES_PER_DOMAIN, MAX_PAGES_PER_HOST); 0: no budget."""
    return [
        each._replace(pages=min(each.pages, per_domain or inf, (per_host or inf) * each.hosts))
        for each in web
    ]


def with_heavy(web: Iterable[Domains], share: float) -> list[Domains]:
    """With one more domain, of one host, that has `share` of all pages; their sum stays."""
    web = list(web)
    pages = sum(each.pages * each.number for each in web)
    others = (each._replace(pages=each.pages * (1 - share)) for each in web)
    heavy = [Domains(share * pages, 1, 1, "heavy.example")] if share else []
    return list(chain(others, heavy))
