"""The microseconds of a page: webcrawl's parts one by one, without sockets.

Each part does its work on the same pages of a simulated web, in one thread. The time of `floor`
beyond the sum of the parts is sockets and event loop. The time of a crawl beyond `floor` is
Scrapy's engine.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from benchmarks.crawls import described_world, project_settings, world
from simweb.model import World
from simweb.spec import Place
from webcrawl.config import build
from webcrawl.config.fetch import headers_from, limits_from
from webcrawl.extensions import tuning
from webcrawl.fetch.decode import decode
from webcrawl.fetch.exchange import Exchange
from webcrawl.fetch.http1 import ResponseReader
from webcrawl.fetch.requesthead import build_request, split_url
from webcrawl.frontier.core import CrawlState
from webcrawl.frontier.disk.store import Store
from webcrawl.frontier.lease import (
    Fetched,
    Lane,
    Lease,
    Link,
    Outcome,
    Resolved,
    RobotsFetched,
    Step,
)
from webcrawl.items import Page
from webcrawl.parse.page import read_page
from webcrawl.parse.robots import ALLOW_ALL
from webcrawl.parse.urls import host_of
from webcrawl.warc.files import WarcFiles
from webcrawl.warc.metadata import page_metadata
from webcrawl.warc.records import Capture, payload_digest

FOREVER = 1e12
TURN = 50  # leases per acquire, as in a turn of the scheduler's pump
SETTINGS = project_settings("DOWNLOAD_DELAY=0", "IP_DELAY=0")
LIMITS, HEADERS = limits_from(SETTINGS), headers_from(SETTINGS)
A = TypeVar("A")
B = TypeVar("B")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--hosts", type=int, default=200, help="hosts of the simulated web")
    parser.add_argument("--pages-per-host", type=int, default=20, help="average pages per host")


def measure(arguments: argparse.Namespace) -> str:
    times = Times()
    known = described_world(world(arguments.hosts, arguments.pages_per_host))
    wires = answers(known)
    gc.freeze()
    gc.set_threshold(*tuning.THRESHOLD)
    exchanges = times.each("HTTP", exchange_of, wires.items())
    digests = times.each("digest", payload_digest, exchanges)
    pages = times.each("links", page_of, exchanges)
    outlinks = build.outlinks_from(SETTINGS, Counter())
    urls = outlinks.url_cache
    assert urls is not None

    def lead_on(page: Page) -> list[Link]:
        links = outlinks.of_page(page.links, link_to(page.url))
        urls.add(links)
        return links

    found = times.each("scope", lead_on, pages)
    by_url = {url: tuple(links) for url, links in zip(wires, found, strict=True)}
    with TemporaryDirectory(prefix="webcrawl-bench-") as name:
        files = WarcFiles(Path(name), "parts", 1_000_000_000)

        def archive(each: tuple[Exchange, str, Page]) -> None:
            exchange, digest, page = each
            files.write(Capture(exchange, digest, None, page_metadata(page, exchange)))

        times.each("WARC", archive, zip(exchanges, digests, pages, strict=True))
        files.close()
        disk = Store(Path(name) / "frontier")
        times.each("frontier on disk", lambda store: walk(store, by_url), [disk])
        disk.close()
    times.each("in memory", lambda store: walk(store, by_url), [Store(None)])
    shares = ", ".join(f"{part} {1e6 * s / len(wires):.0f}" for part, s in times.spent_s.items())
    return f"{len(wires)} pages, µs CPU each: {shares}"


class Times:
    """CPU time by part."""

    def __init__(self) -> None:
        self.spent_s: dict[str, float] = {}

    def each(self, part: str, work: Callable[[A], B], inputs: Iterable[A]) -> list[B]:
        """The results of `work`."""
        began = time.process_time()
        results = [work(each) for each in inputs]
        self.spent_s[part] = time.process_time() - began
        return results


def answers(known: World) -> dict[str, bytes]:
    """The servers' answers by URL: all pages of the hosts."""
    found = {}
    for host in range(known.spec.hosts):
        for page in range(known.host(host).site.size):
            place = Place(host, page)
            reply = known.reply(host, place)
            body = b"".join(part for part in reply.body if isinstance(part, bytes))
            found[known.url(place)] = reply.head + b"Connection: close\r\n\r\n" + body
    return found


def exchange_of(answer: tuple[str, bytes]) -> Exchange:
    """Make a request, and read its answer as the client does."""
    url, wire = answer
    request = build_request("GET", split_url(url), HEADERS, b"")
    reader = ResponseReader("GET", LIMITS.max_header_bytes, LIMITS.max_size_bytes)
    reader.feed(wire)
    content = reader.content if reader.chunked else reader.body
    payload, _, _ = decode(content, reader.headers, LIMITS.max_size_bytes)
    head, body = reader.head, reader.body
    return Exchange("GET", url, request, head, reader.status, "1.1", reader.headers, "127.0.0.1",
                    body, payload, started_time=time.time())  # fmt: skip


def page_of(exchange: Exchange) -> Page:
    page = Page(exchange.url, exchange.status)
    if exchange.status == 200:
        media_type = exchange.header(b"content-type").decode("latin-1")
        page.links = read_page(exchange.payload, media_type, exchange.url).links
    return page


def link_to(url: str) -> Link:
    return Link(url, host_of(url))


def walk(store: Store, links: dict[str, tuple[Link, ...]]) -> None:
    """A crawl of all pages, reduced to the calls of the frontier."""
    state = CrawlState(store, build.policy_from(SETTINGS))
    state.put(map(link_to, links), 1.0)
    while not state.is_finished():
        for lane in reversed(Lane):
            leases = state.acquire(1.0, TURN, lane)
            state.release([(lease, outcome(lease, links)) for lease in leases], 1.0)


def outcome(lease: Lease, links: dict[str, tuple[Link, ...]]) -> Outcome:
    match lease.step:
        case Step.RESOLVE:
            return Resolved(("10.1.1.1",), FOREVER)
        case Step.ROBOTS:
            return RobotsFetched(ALLOW_ALL, FOREVER, 0.5, 0.5)
        case _:
            return Fetched(200, 0.5, 0.5, links[lease.url])
