"""Turns a `Host` into its row, and a row into a `Host`.

A row has all values that the next run needs. It leaves out robots tasks: their hosts ask for
robots.txt again. A later run forgets the failures of a host that did not answer, and tries it
without a wait.
"""

from __future__ import annotations

from collections.abc import Callable

from webcrawl.frontier.backlog import begin_epoch
from webcrawl.frontier.disk import rows
from webcrawl.frontier.disk.database import Database
from webcrawl.frontier.disk.queue import HostQueue
from webcrawl.frontier.host import Host, Rules, State
from webcrawl.frontier.pace import NO_PACE, Pace

_ROUNDING_S = 1e-6  # UTC seconds as a float are exact to 0.2 µs; no clock may be early


def host_row(
    host: Host, links: tuple[int, tuple[int, int] | None], utc_s: float, run: int
) -> bytes:
    """The row of `host`. `links`: what its queue has on disk (`HostQueue.stored`).

    `utc_s` turns monotonic times into UTC; `run` is this run's number.
    """
    queue = host.queue
    known = {}
    for origin, rules in host.rules.items():
        known[origin] = rules[0] + utc_s, *rules[1:]
    pace = host.pace if host.pace != NO_PACE else ()
    row = (
        (queue.host_id, queue.place, *links),
        (host.asked_at and host.asked_at + utc_s, host.next_at + utc_s),
        (host.crawl_delay_s, host.failures, host.dead_addresses, host.has_ip_slot, *pace),
        (host.addresses, host.resolved_until + utc_s, host.resolve_at + utc_s, host.resolve_tries),
        (host.retired_until + utc_s, host.retired_reason),
        known,
        (run, host.deferrals, host.epoch, host.kept, host.pages, host.received_bytes),
    )
    return rows.encode(row)


def host_row_set_back(row: bytes, now: float, of: Callable[[float], float]) -> bytes:
    """`row` without times ahead of `now` (UTC): `of` sets one back.

    A back-off that began before stays as it is. A host with a request since then, or none ever,
    has its clock from a run whose time is ahead.
    """
    line, (asked, next_time), tallies, dns, retired, known, deferred = rows.read_plain(row)
    if asked > now or not asked:
        asked, next_time = of(asked), of(next_time)
    changed = (
        *(line, (asked, next_time), tallies),
        (dns[0], of(dns[1]), of(dns[2]), *dns[3:]),
        (of(retired[0]), *retired[1:]),
        {origin: (of(r[0]), *r[1:]) for origin, r in known.items()},
        deferred,
    )
    return rows.encode(changed)


def has_kept(row: bytes) -> bool:
    """Whether `row` is of a host with kept links."""
    *_, deferred = rows.read_plain(row)
    return bool(deferred[3])


def read_host(db: Database, name: str, row: bytes, utc_s: float, run: int) -> Host:
    """The host that `host_row` wrote: idle, waiting or deferred. StoreError for a bad row."""
    line, clocks, tallies, dns, retired, known, deferred = rows.read_plain(row)
    host_id, place, length, best = line
    queue = HostQueue(db, host_id, length, best and tuple(best))
    queue.place = place
    host = Host(name, queue)
    if place.startswith(rows.WAITING):
        host.state, host.rank = State.WAITING, rows.waiting_place(place)[0]
    elif place.startswith(rows.DEFERRED):
        host.state, host.due_at = State.DEFERRED, rows.deferred_place(place)[1] - utc_s
    host.asked_at = clocks[0] and clocks[0] - utc_s + _ROUNDING_S
    host.next_at = clocks[1] - utc_s + _ROUNDING_S
    host.crawl_delay_s, host.failures, host.dead_addresses, host.has_ip_slot, *pace = tallies
    host.pace = Pace(*pace) if pace else NO_PACE
    host.addresses, host.resolve_tries = tuple(dns[0]), dns[3]
    host.resolved_until, host.resolve_at = dns[1] - utc_s, dns[2] - utc_s
    if retired[1]:  # else it never was; 0.0 has become a time
        host.retired_until, host.retired_reason = retired[0] - utc_s, retired[1]
    host.rules = {origin: Rules(r[0] - utc_s, *r[1:]) for origin, r in known.items()}
    written_in, host.deferrals, host.epoch, host.kept, host.pages, host.received_bytes = deferred
    if written_in != run:
        host.clear_failures()
        begin_epoch(host)
    return host
