"""A look into a frontier on disk, also while its crawl runs: what is in it, and why a URL is where.

Reads the last commit at the moment of opening, and changes nothing. Times are UTC.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from heapq import nlargest
from pathlib import Path

from webcrawl.admission.robots import RobotsRules
from webcrawl.frontier import rows
from webcrawl.frontier.counters import Counters
from webcrawl.frontier.database import Database, size_bytes
from webcrawl.frontier.host import Host, State
from webcrawl.frontier.hostrows import queue_of, read_host
from webcrawl.frontier.lease import Link
from webcrawl.frontier.seen import fingerprint
from webcrawl.parse.urls import host_of, origin_of, target_of

LARGEST = 10


class Inspection:
    """One moment of a crawl. StoreError if `folder` is no frontier."""

    def __init__(self, folder: Path) -> None:
        self._db = Database(folder, read_only=True)
        self.identity = json.loads(self._db.get(rows.IDENTITY) or b"{}")
        numbers = json.loads(self._db.get(rows.NUMBERS) or b"{}")
        self.counters = Counters()
        self.counters.restore(numbers.get("counters", {}))
        self._order = self.identity.get("settings", {}).get("FRONTIER_ORDER", "")

    def close(self) -> None:
        self._db.close()

    def hosts(self) -> Iterator[Host]:
        """Every host ever seen, in the order of the names."""
        for key, row in self._db.rows(rows.HOST):
            yield read_host(self._db, key[len(rows.HOST) :].decode(), row, 0.0)

    def pending(self) -> Iterator[tuple[int, str]]:
        """(priority, URL) of all links in line or leased, host by host, the best first."""
        for key, row in self._db.rows(rows.QUEUE):
            yield rows.queue_place(key)[0], rows.read_link(row, "").url

    def summary(self, now: float) -> list[str]:
        """The crawl in some lines. O(hosts + pending): 2 µs each."""
        states: Counter[str] = Counter()
        sizes = []
        for host in self.hosts():
            length = queue_of(host).stored()[0]
            if host.retired_until > now:
                states["retired"] += 1
            elif host.state is State.WAITING:
                states["waiting"] += 1
            elif length:
                states["active"] += 1
            else:
                states["without URLs"] += 1
            if length:
                sizes.append((length, host.name))
        priorities = Counter(priority for priority, _ in self.pending())
        c, size_mb = self.counters, size_bytes(self._db.folder) / 1e6
        pending = sum(priorities.values())
        begun, order = self.identity.get("created"), self._order
        unit = "level" if order == "level" else "priority"
        return [
            f"begun {begun}, in order {order}, {size_mb:.1f} MB on disk",
            f"{c.crawled} pages crawled, {c.extracted} URLs extracted, {pending} pending",
            "hosts: " + ", ".join(f"{n} {state}" for state, n in sorted(states.items())),
            *(f"{unit} {priority}: {n} pending" for priority, n in sorted(priorities.items())),
            *(f"{length} of {name}" for length, name in nlargest(LARGEST, sizes)),
        ]

    def explain(self, url: str, now: float) -> list[str]:
        """Where `url` (canonical) is and why. O(queue of its host)."""
        key = rows.SEEN + fingerprint(url, self.identity["seen_key"])
        if self._db.get(key) is None:
            return ["It was never put: no seed is it and no page that was fetched links to it."]
        name = host_of(url)
        row = self._db.get(rows.HOST + name.encode())
        if row is None:
            return ["It was found, and a cap refused it before its host had any URL."]
        host = read_host(self._db, name, row, 0.0)
        found = self._in_line(url, host)
        if found is None:
            lines = ["It is not in line: its turn has come, or a cap refused it when it was found."]
        else:
            ahead, priority, link = found
            lines = [
                f"It waits, with {ahead} URLs of its host before it, at {self._order} {priority}.",
                f"It was found {link.depth} hops from a seed, {_on(link)}."
                + (f" It was tried {link.retries} times." if link.retries else ""),
            ]
        return [*lines, *self._of_robots(url, host), *_of_host(host, now)]

    def _in_line(self, url: str, host: Host) -> tuple[int, int, Link] | None:
        """How many are before `url` in its host's queue, its priority, and the link."""
        in_line = self._db.rows(rows.queue_prefix(queue_of(host).host_id))
        for ahead, (key, row) in enumerate(in_line):
            link = rows.read_link(row, host.name)
            if link.url == url:
                return ahead, rows.queue_place(key)[0], link
        return None

    def _of_robots(self, url: str, host: Host) -> Iterator[str]:
        origin = origin_of(url)
        known = host.rules.get(origin)
        row = self._db.get(rows.RULES + origin.encode())
        if known is None:
            yield f"The robots.txt of {origin} is not known yet."
        elif known.reason:
            yield f"All of {origin} is refused until {_utc(known.expires_at)}: {known.reason}."
        elif row is not None:
            allows = RobotsRules.from_bytes(row).allows(target_of(url))
            yield f"robots.txt {'allows' if allows else 'disallows'} it."


def _of_host(host: Host, now: float) -> Iterator[str]:
    if host.retired_until > now:
        yield f"{host.name} is given up until {_utc(host.retired_until)}: {host.retired_reason}."
    elif host.next_at > now:
        yield f"{host.name} is not asked before {_utc(host.next_at)}."
    elif host.state is State.WAITING:
        yield f"{host.name} waits for a place among the active hosts."
    if host.addresses:
        yield f"{host.name} is at {', '.join(host.addresses)}."


def _on(link: Link) -> str:
    if not link.via:
        return "as a seed"
    return f"{'as a redirect of' if link.redirects else 'on'} {link.via}"


def _utc(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).isoformat(timespec="seconds")
