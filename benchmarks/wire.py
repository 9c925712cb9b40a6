"""Messages between processes and rows of hosts: MessagePack (msgspec) against pickled tuples.

A process releases 30 pages with 40 links each and gets 30 leases; a host's row has an address and a
robots.txt. Each is written and read in both forms, in turns. In use are MessagePack for messages,
pickle for rows.
"""

from __future__ import annotations

import argparse
import gc
import pickle
from collections import Counter
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from statistics import median
from typing import Any, cast

from msgspec.msgpack import Decoder, Encoder
from msgspec.structs import fields

from benchmarks.here import cpu_us
from webcrawl.frontier.disk import rows
from webcrawl.frontier.disk.database import Database
from webcrawl.frontier.disk.hostrows import host_row
from webcrawl.frontier.disk.queue import DiskQueue
from webcrawl.frontier.host import Host, Rules
from webcrawl.frontier.lease import Fetched, Lease, Link, Step
from webcrawl.frontier.outlinks import Outlinks
from webcrawl.frontier.shared.wire import Answers, Calls, Leased, Release, Status, decode, encode
from webcrawl.scope import Scope

PAGES, LINKS, LINKS_AWAY = 30, 40, 10
ROUNDS = 9
HOST_ROW = tuple[
    tuple[int, bytes, int, tuple[int, int] | None],
    tuple[float, float],
    tuple[float, int, int, int],
    tuple[tuple[str, ...], float, float, int],
    tuple[float, str],
    dict[str, tuple[float, float, str, bool, int]],
    tuple[int, int, int, dict[str, int] | None],
]

Form = tuple[Callable[[], bytes], Callable[[bytes], Any]]  # writes, reads


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--times", type=int, default=20, help="of each message in a round")


def measure(arguments: argparse.Namespace) -> str:
    done = [(number, fetched(number)) for number in range(PAGES)]
    leases = [(number, lease(number)) for number in range(PAGES)]
    calls = Calls(7, [Release([*done], 1.5)], {"links": PAGES * LINKS}, 0.5)
    answers = Answers(7, [Leased(leases)], Status(1.5, 2.5, False, None, False))
    host = known_host()
    row = rows.plain(host_row(host, 1.7e9, 1))
    row_read = Decoder(HOST_ROW).decode
    packed_done: Form = (
        lambda: pickle.dumps([(key, pack_fetched(each)) for key, each in done], 5),
        lambda data: [(key, unpack_fetched(each)) for key, each in pickle.loads(data)],
    )
    packed_leases: Form = (
        lambda: pickle.dumps([(key, pack_lease(each)) for key, each in leases], 5),
        lambda data: [(key, unpack_lease(each)) for key, each in pickle.loads(data)],
    )
    pickled_row: Form = (lambda: pickle.dumps(row, 5), rows.plain)
    gc.freeze()
    results = {
        f"{PAGES} pages": compared((partial(encode, calls), decode), packed_done, arguments.times),
        "leases": compared((partial(encode, answers), decode), packed_leases, arguments.times),
        "a host's row": compared(
            (partial(Encoder().encode, row), row_read), pickled_row, 50 * arguments.times
        ),
    }
    return "µs CPU, and part of pickle's: " + "; ".join(map(": ".join, results.items()))


def compared(form: Form, pickled: Form, times: int) -> str:
    """How `form` does beside the pickled one."""
    data = [write() for write, _ in (form, pickled)]
    calls: list[Callable[[], Any]] = [form[0], pickled[0]]
    calls += [partial(form[1], data[0]), partial(pickled[1], data[1])]
    spent = [[cpu_us(partial(repeat, call, times), times) for call in calls] for _ in range(ROUNDS)]
    write, pickled_write, read, pickled_read = map(median, zip(*spent, strict=True))
    size, pickled_size = map(len, data)
    return (
        f"write {write:.1f} ({write / pickled_write:.2f}), read {read:.1f}"
        f" ({read / pickled_read:.2f}), {size:,} bytes ({size / pickled_size:.2f})"
    )


def repeat(call: Callable[[], Any], times: int) -> None:
    for _ in range(times):
        call()


# The values


def page(number: int) -> Link:
    host = f"www.site-{number}.example.com"
    return Link(f"http://{host}/section/article-{number}.html", host, 2, via=f"http://{host}/")


def lease(number: int) -> Lease:
    link = page(number)
    return Lease(link.host, Step.PAGE, link.url, f"10.1.{number}.7", link)


def fetched(number: int) -> Fetched:
    link = page(number)
    urls = [f"http://{link.host}/section/{n}/title-of-{n}.html" for n in range(LINKS - LINKS_AWAY)]
    urls += [f"https://www.other-{number}-{n}.example.org/{n}?q=1" for n in range(LINKS_AWAY)]
    links = Outlinks(Scope(), Counter(), 20).of_page(urls, link)
    return Fetched(200, 1234.5, 1234.9, tuple(links), 0.0, 31_234 + number, 0.345)


def known_host() -> Host:
    queue = DiskQueue(cast("Database", None), "www.site.example.com", 1234, 37, (2, 998_877))
    queue.place = rows.active_key(1234)
    host = Host("www.site.example.com", queue)
    host.asked_at, host.next_at, host.resolved_until = 1234.5, 1249.5, 87_654.3
    host.addresses = ("10.1.2.3",)
    host.rules = {"https://www.site.example.com": Rules(87_000.1, allows_all=True)}
    return host


# Leases and outcomes as tuples, which pickle in a quarter of the time

FETCHED, LEASE = (attrgetter(*(each.name for each in fields(kind))) for kind in (Fetched, Lease))
Packed = tuple[Any, ...]


def pack_fetched(outcome: Fetched) -> Packed:
    values = FETCHED(outcome)
    return (*values[:3], [tuple(link) for link in values[3]], *values[4:])


def unpack_fetched(values: Packed) -> Fetched:
    status, asked_at, ended_at, links, *rest = values
    return Fetched(status, asked_at, ended_at, tuple(map(Link._make, links)), *rest)


def pack_lease(each: Lease) -> Packed:
    host, step, url, address, link, *rest = LEASE(each)
    return (host, step.value, url, address, tuple(link), *rest)


def unpack_lease(values: Packed) -> Lease:
    host, step, url, address, link, *rest = values
    return Lease(host, Step(step), url, address, Link._make(link), *rest)
