"""The hosts on disk: the row of each, and the lines of those that wait.

A row has all values that the next run needs. It leaves out robots tasks: their hosts ask for
robots.txt again. A later run forgets the failures of a host that did not answer, and tries it
without a wait.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Iterable, Mapping
from itertools import islice
from math import inf
from typing import Any, Final

from webcrawl.frontier.backlog import begin_epoch
from webcrawl.frontier.disk import rows
from webcrawl.frontier.disk.database import Database
from webcrawl.frontier.disk.queue import HostQueue
from webcrawl.frontier.disk.rowline import RowLine
from webcrawl.frontier.host import Host, Rules, State
from webcrawl.frontier.overview import StoredHosts
from webcrawl.frontier.politeness import NO_PACE, Pace

NONE_WAITS: Final = (sys.maxsize, 0)
_ROUNDING_S = 1e-6  # UTC seconds as a float are exact to 0.2 µs; no clock may be early


class HostRows:
    """The hosts that are not on the workbench, and the rows of all.

    The lines hold the first hosts that wait for a place, and the first that are deferred.
    """

    def __init__(self, db: Database, numbers: Mapping[str, Any], run: int, utc_s: float) -> None:
        """`numbers`: of the last commit; `run`: of this run; `utc_s` makes UTC of its times."""
        self._db = db
        self._run = run
        self._utc_s = utc_s
        self._hosts: int = numbers.get("hosts", 0)
        self.before = self._hosts  # hosts with an ID up to it were created by earlier runs
        self.waiting = RowLine(db, rows.WAITING, numbers.get("waiting", 0))
        self.deferred = RowLine(db, rows.DEFERRED, numbers.get("deferred", 0))
        self._lines = {rows.WAITING: self.waiting, rows.DEFERRED: self.deferred}
        self._taken: set[str] = set()  # hosts taken from a line since the last commit

    def numbers(self) -> dict[str, int]:
        """JSON values for the next run."""
        waiting, deferred = self.waiting.length, self.deferred.length
        return {"hosts": self._hosts, "waiting": waiting, "deferred": deferred}

    def host(self, name: str) -> Host:
        """A host that is not on the workbench: as of its last commit, or new."""
        row = self._db.get(rows.HOST + name.encode())
        if row is not None:
            return read_host(self._db, name, row, self._utc_s, self._run)
        self._hosts += 1
        return Host(name, HostQueue(self._db, self._hosts), {})

    def active_before(self) -> list[str]:
        """Names of the hosts that were active when an earlier run ended."""
        return [name.decode() for _, name in self._db.rows(rows.ACTIVE)]

    def best_waiting(self) -> tuple[int, int]:
        """(rank, number) of the best waiting host; NONE_WAITS, behind all hosts, if none waits."""
        first = self.waiting.first() if self.waiting.length else None
        return rows.waiting_place(first[0]) if first else NONE_WAITS

    def next_due_at(self) -> float:
        """When the first deferred host is due; inf without one; 0.0 for one of an earlier run."""
        first = self.deferred.first() if self.deferred.length else None
        if first is None:
            return inf
        run, at = rows.deferred_place(first[0])
        return at - self._utc_s if run == self._run else 0.0

    def stored(self) -> StoredHosts:
        """Numbers of hosts, as of the last commit."""
        return StoredHosts(self._hosts, self.waiting.length, self.deferred.length)

    def with_kept(
        self, reasons: Container[str], after: bytes, limit: int
    ) -> tuple[list[str], bytes | None]:
        """Hosts with kept links at the last commit, among the next `limit` behind the key `after`.

        Returns their names, and the key for the next call; None at the end.
        """
        found = list(islice(self._db.rows(rows.HOST, after), limit))
        names = [key[len(rows.HOST) :].decode() for key, row in found if _has_kept(row, reasons)]
        return names, found[-1][0] if len(found) == limit else None

    def every(self, at_hand: Mapping[str, Host]) -> list[Host]:
        """Every host ever seen; `at_hand` are those on the workbench. For tests."""
        hosts = dict(at_hand)
        for key, row in self._db.rows(rows.HOST):
            name = key[len(rows.HOST) :].decode()
            if name not in hosts:
                hosts[name] = read_host(self._db, name, row, self._utc_s, self._run)
        return list(hosts.values())

    def write(self, changed: Iterable[Host]) -> list[Host]:
        """Write the rows of `changed`. Returns those that may leave the workbench."""
        dispensable = []
        for host in changed:
            links = host.queue.stored()
            self._move(host, has_links=links[0] > 0)
            row = _host_row(host, links, self._utc_s, self._run)
            self._db.put(rows.HOST + host.name.encode(), row)
            if not (host.state.is_active or host.robots_tasks or host.robots_elsewhere):
                dispensable.append(host)
        self._taken.clear()
        return dispensable

    def pop_first(self, line: RowLine) -> str | None:
        """Remove the first host of `waiting` or `deferred`; its name, None if there is none."""
        row = line.pop() if line.length else None  # most often none waits
        if row is None:
            return None
        name = row[1].decode()
        self._taken.add(name)
        return name

    def _move(self, host: Host, *, has_links: bool) -> None:
        """Write the one WAITING, DEFERRED or ACTIVE row of `host`; no row if it has no links."""
        queue = host.queue
        before = b"" if host.name in self._taken else queue.place
        if host.state is State.WAITING:
            number = queue.best[1] if queue.best else 0
            place = rows.waiting_key(host.rank, number, queue.host_id)
        elif host.state is State.DEFERRED:
            place = rows.deferred_key(self._run, host.due_at + self._utc_s, queue.host_id)
        elif has_links and before[:1] == rows.ACTIVE:
            return
        else:
            place = rows.active_key(queue.host_id) if has_links else b""
        queue.place = place
        if place == before:
            return
        if line := self._lines.get(before[:1]):
            line.remove(before)
        elif before:
            self._db.delete(before)
        if line := self._lines.get(place[:1]):
            line.add(place, host.name.encode())
        elif place:
            self._db.put(place, host.name.encode())


def _host_row(
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


def _has_kept(row: bytes, reasons: Container[str]) -> bool:
    """Whether `row` is of a host with links kept for one of `reasons`."""
    *_, deferred = rows.read_plain(row)
    return any(reason in reasons for reason in deferred[3] or ())


def read_host(db: Database, name: str, row: bytes, utc_s: float, run: int) -> Host:
    """The host that `_host_row` wrote: idle, waiting or deferred. StoreError for a bad row."""
    line, clocks, tallies, dns, retired, known, deferred = rows.read_plain(row)
    host_id, place, length, best = line
    queue = HostQueue(db, host_id, length, best and tuple(best))
    queue.place = place
    host = Host(name, queue, {})
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
