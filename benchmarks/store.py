"""The frontier's store on disk by itself, with up to a hundred million URLs.

Each URL is tested, marked as seen and queued, in commits of a thousand. At each power of ten it
looks up known URLs, unknown URLs, and the first links of random hosts.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from benchmarks.crawls import say
from benchmarks.here import cpu_us, rss_mb
from webcrawl.frontier.disk import rows
from webcrawl.frontier.disk.database import Database, size_bytes
from webcrawl.frontier.disk.seenrows import fingerprint
from webcrawl.frontier.lease import Link

BATCH = 1000
LOOKUPS = 20_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--urls", type=int, default=1_000_000)
    parser.add_argument("--hosts", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="for the store (default: a temporary folder)")


def measure(arguments: argparse.Namespace) -> str:
    with TemporaryDirectory(dir=arguments.folder) as folder:
        place = Path(folder) / "frontier"
        store = Database(place)
        told, done = [], 0
        for size in sizes(arguments.urls):
            fresh = range(done, size)
            put_us = cpu_us(partial(put, store, fresh, arguments.hosts), len(fresh))
            done = size
            line = f"{done:,} URLs: put {put_us:.1f} {looks(store, done, arguments.hosts)}"
            told.append(f"{line}, {rss_mb()} MB memory, {size_bytes(place) // 1_000_000:,} MB disk")
            say(f"  {told[-1]}")
        store.close()
    return "µs CPU, all threads: " + "; ".join(told)


def sizes(urls: int) -> Iterator[int]:
    size = 100_000
    while size < urls:
        yield size
        size *= 10
    yield urls


def url_of(number: int, hosts: int) -> tuple[str, str, int]:
    """URL, host and host id of a number."""
    host_id = number * 2_654_435_761 % hosts
    host = f"www.host-{host_id}.example.com"
    return f"http://{host}/section/article/{number}.html", host, host_id


def put(store: Database, numbers: range, hosts: int) -> None:
    for begin in range(numbers.start, numbers.stop, BATCH):
        for number in range(begin, min(begin + BATCH, numbers.stop)):
            url, host, host_id = url_of(number, hosts)
            seen = rows.SEEN + fingerprint(url, 0)
            if store.get(seen) is not None:
                raise AssertionError(f"{url} is taken for a known one")
            store.put(seen, b"")
            link = Link(url, host, 3, via=f"http://{host}/")
            store.put(rows.queue_key(host_id, number % 10, number), rows.encode(link))
        store.commit()


def looks(store: Database, urls: int, hosts: int) -> str:
    random = Random(urls)
    known = [url_of(random.randrange(urls), hosts) for _ in range(LOOKUPS)]
    known_us = cpu_us(lambda: look(store, [url for url, _, _ in known], new=False), LOOKUPS)
    unknown = [url_of(urls + number, hosts)[0] + "?" for number in range(LOOKUPS)]
    new_us = cpu_us(lambda: look(store, unknown, new=True), LOOKUPS)
    first_us = cpu_us(lambda: first(store, [host_id for _, _, host_id in known]), LOOKUPS)
    return f"known {known_us:.1f} new {new_us:.1f} first of a queue {first_us:.1f}"


def look(store: Database, urls: list[str], *, new: bool) -> None:
    for url in urls:
        if (store.get(rows.SEEN + fingerprint(url, 0)) is None) is not new:
            raise AssertionError(f"{url} is {'known' if new else 'new'}")


def first(store: Database, hosts: list[int]) -> None:
    for host_id in hosts:
        next(store.rows(rows.queue_prefix(host_id)))
