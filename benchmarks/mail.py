"""Mail between shards: µs of CPU for a link sent and applied, and its bytes on the way.

Two shards with their frontiers on disk. One writes links (URLs of 69 characters, each with the page
that has it) to its outbox; couriers carry all of them over a bus that costs nothing. Then the same
batches are compressed in other ways, and written as columns with each page once.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import time
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from isal import isal_zlib
from msgspec.msgpack import encode

from benchmarks.crawls import NotDone
from benchmarks.here import cpu_us
from webcrawl.cluster.mail.courier import Courier
from webcrawl.cluster.mail.messages import ROWS_MAX, Batch, pack, unpack
from webcrawl.cluster.mail.offsets import Offsets
from webcrawl.frontier.disk.frontier import DiskFrontier
from webcrawl.frontier.lease import Link
from webcrawl.frontier.mailbox import FoundLink, Mail, Packed

PAGE_LINKS = 2_000  # links of one commit, as from some dozens of pages
URL_LENGTH = 69
HOSTS, PAGE_HOSTS = 3_000, 300
ROUNDS = 9


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--links", type=int, default=100_000, help="that are sent")
    parser.add_argument("--per-page", type=int, default=2, help="links of a page to one shard")


def measure(arguments: argparse.Namespace) -> str:
    links = [row.link for row in links_of(arguments.links, arguments.per_page)]
    with TemporaryDirectory(prefix="webcrawl-bench-") as name:
        carried = asyncio.run(carry(links, Path(name)))
    rows = links_of(ROWS_MAX, arguments.per_page)
    gc.freeze()
    forms = "; ".join(f"{form} {result}" for form, result in compared(rows).items())
    return f"{len(links)} links, {arguments.per_page} of each page: {carried}; {forms}"


async def carry(links: list[Link], folder: Path) -> str:
    """Send `links` from one shard to the other, and say what each part took."""
    ours, theirs = Metered(), Metered()
    sender = DiskFrontier(folder / "0", now=1.0, abroad=Elsewhere(1))
    receiver = DiskFrontier(folder / "1", now=1.0, abroad=Elsewhere(None))
    hub = Hub()
    crew = [
        Courier(n, 1, "x", each, hub, shards=2, offsets=Offsets(None), node={})
        for n, each in enumerate((ours.around(sender), theirs.around(receiver)))
    ]
    for courier in crew:
        await courier.open()
    began = time.process_time()
    for n in range(0, len(links), PAGE_LINKS):
        await sender.put(links[n : n + PAGE_LINKS], 1.0)
    written_s = time.process_time() - began
    now = 1.0
    spent_s = [0.0, 0.0]
    while crew[0].unapplied:
        now += 0.3
        for n, courier in enumerate(crew):
            began = time.process_time()
            await courier.turn(now)
            spent_s[n] += time.process_time() - began
            hub.deliver()
    applied = receiver.counters.pending
    await sender.close()
    await receiver.close()
    if applied != len(links) or crew[0].repeated or crew[1].refused:
        raise NotDone(f"{applied} of {len(links)} links were applied")

    def each(seconds: float) -> str:
        return f"{1e6 * seconds / len(links):.1f}"

    return (
        f"write {each(written_s)}, send {each(spent_s[0])} (of which read and delete rows"
        f" {each(ours.spent_s)}), apply {each(spent_s[1])} (of which put {each(theirs.spent_s)})"
        f" µs CPU a link, {hub.sent_bytes / len(links):.1f} bytes,"
        f" {1000 * hub.messages / len(links):.1f} messages per 1,000"
    )


class Elsewhere:
    """A `mailbox.Abroad`: all hosts are of one shard."""

    def __init__(self, shard: int | None) -> None:
        self._shard = shard

    def shard_of(self, host: str) -> int | None:
        return self._shard


class Hub:
    """A bus without faults and costs: messages wait for `deliver`."""

    is_connected = True

    def __init__(self) -> None:
        self._handlers: dict[str, Callable[[bytes], None]] = {}
        self._under_way: list[tuple[str, bytes]] = []
        self.sent_bytes = self.messages = 0

    async def subscribe(self, subject: str, handle: Callable[[bytes], None]) -> None:
        self._handlers[subject] = handle

    def publish(self, subject: str, data: bytes) -> None:
        self._under_way.append((subject, data))
        self.sent_bytes += len(data)
        self.messages += 1

    def deliver(self) -> None:
        messages, self._under_way = self._under_way, []
        for subject, data in messages:
            if subject in self._handlers:
                self._handlers[subject](data)


class Metered:
    """The frontier of a courier; counts the CPU time of its calls."""

    def __init__(self) -> None:
        self.spent_s = 0.0

    def around(self, frontier: DiskFrontier) -> Metered:
        self._frontier = frontier
        return self

    @property
    def outbox(self) -> Any:
        return self._frontier.outbox

    @property
    def inbox(self) -> Any:
        return self._frontier.inbox

    async def receive_each(
        self, batches: Sequence[tuple[int, int, Sequence[Mail]]], now: float
    ) -> None:
        began = time.process_time()
        await self._frontier.receive_each(batches, now)
        self.spent_s += time.process_time() - began

    async def packed(self, shard: int, after: int, limit: int, limit_bytes: int) -> Packed:
        began = time.process_time()
        rows = await self._frontier.packed(shard, after, limit, limit_bytes)
        self.spent_s += time.process_time() - began
        return rows

    async def sent(self, shard: int, upto: int) -> None:
        began = time.process_time()
        await self._frontier.sent(shard, upto)
        self.spent_s += time.process_time() - began


# The forms of a batch


def compared(rows: list[FoundLink]) -> dict[str, str]:
    """µs to write and to read 500 rows, per link, and bytes."""
    data, count = pack(list(rows))
    batch = Batch("x", 0, 1, 1, 1, 1, 1, count, data)
    raw, columns = encode(rows), encode(as_columns(rows))
    calls: dict[str, tuple[Callable[[], Any], Callable[[], Any], int]] = {
        "pack": (partial(pack, rows), partial(unpack, batch), len(data)),
        "isal alone": form(isal_zlib, raw),
        "zlib alone": form(zlib, raw),
        "columns": (
            lambda: isal_zlib.compress(encode(as_columns(rows)), 1),
            lambda: None,
            len(isal_zlib.compress(columns, 1)),
        ),
    }
    results = {}
    for name, (write, read, size) in calls.items():
        spent = [
            [cpu_us(partial(repeat, call), 20 * len(rows)) for call in (write, read)]
            for _ in range(ROUNDS)
        ]
        out, back = map(median, zip(*spent, strict=True))
        both = f"{out:.2f} and {back:.2f} µs" if name != "columns" else f"{out:.2f} µs to write"
        results[name] = f"{both}, {size / len(rows):.1f} bytes"
    return results


def form(library: Any, raw: bytes) -> tuple[Callable[[], Any], Callable[[], Any], int]:
    data = library.compress(raw, 1)
    return partial(library.compress, raw, 1), partial(library.decompress, data), len(data)


def repeat(call: Callable[[], Any]) -> None:
    for _ in range(20):
        call()


def as_columns(rows: list[FoundLink]) -> tuple[Any, ...]:
    """URLs in one text, and the rest once for the links of a page."""
    links, cash, _ = zip(*((row.link, row.cash, row.force) for row in rows), strict=True)
    urls, _, depths, redirects, vias, *_ = zip(*links, strict=True)
    pages = [
        (page, len(list(group)))
        for page, group in groupby(zip(vias, depths, redirects, cash, strict=True))
    ]
    return "\n".join(urls), pages


# The links


def links_of(count: int, per_page: int) -> list[FoundLink]:
    """Links of different pages to different hosts, in the order of the pages."""
    random = Random(3)
    words = ["".join(random.choices("abcdefghiklmnoprstu", k=n % 7 + 3)) for n in range(3_000)]

    def url(host: str) -> str:
        text = f"https://{host}/" + "-".join(random.choices(words, k=12)).replace("-", "/", 2)
        return text[:URL_LENGTH]

    hosts = [f"www.{''.join(random.choices(words, k=2))}.com" for _ in range(HOSTS)]
    rows: list[FoundLink] = []
    seen: set[str] = set()
    while len(rows) < count:
        via = url(hosts[random.randrange(PAGE_HOSTS)])
        depth = random.randint(1, 6)
        for _ in range(per_page):
            host = hosts[random.randrange(HOSTS)]
            found = url(host)
            if found not in seen:
                seen.add(found)
                rows.append(FoundLink(Link(found, host, depth, via=via)))
    return rows[:count]
