"""What a running crawl's hosts do: counted when a reader asks, and not before.

Owns the values of `Frontier.overview`, and the record of slow hosts that it needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import nlargest
from operator import attrgetter
from typing import Final, NamedTuple

from webcrawl.frontier.host import Host, State

ACTIVE: Final = (State.READY, State.PARKED, State.SNOOZED, State.LEASED)
_SLOW_MAX: Final = 1_000  # hosts in `SlowHosts`; cut back to the slower half beyond it
_WEIGHT: Final = 1 / 8  # of the newest answer, as in TCP's smoothed round-trip time (RFC 6298, 2)


class QueuedHost(NamedTuple):
    """A host of the workbench, and when its next request may be sent."""

    host: str
    urls: int  # queued
    ready_in_s: float  # 0.0: now, or as soon as its address is free


class SlowHost(NamedTuple):
    """A host whose answers take long."""

    host: str
    mean_ms: float  # from request to last byte, smoothed
    urls: int  # queued; 0 for a host that is not on the workbench


@dataclass(slots=True, frozen=True)
class Overview:
    """The hosts of a crawl at one moment.

    hosts -- number of hosts by state: each of `host.State`, and "retired". A retired host (its
        links are dropped or kept for a while) also counts in its state; only hosts on the workbench
        are known to be retired
    largest -- hosts of the workbench with the most queued URLs, most first
    slowest -- hosts with the slowest answers, slowest first
    """

    hosts: dict[str, int] = field(default_factory=dict)
    largest: list[QueuedHost] = field(default_factory=list)
    slowest: list[SlowHost] = field(default_factory=list)


class StoredHosts(NamedTuple):
    """Numbers of hosts of a store: all ever seen, and those that wait in it."""

    hosts: int
    waiting: int
    deferred: int


class SlowHosts:
    """The hosts with the slowest answers. Memory: _SLOW_MAX hosts, 200 KB.

    An answer costs 0.2 µs: a host that is not known is ignored unless its answer takes longer than
    the mean of all answers. So the mean of a known host begins with a slow answer; a host that was
    slow once moves towards its true mean with each answer.
    """

    def __init__(self) -> None:
        self._means: dict[str, float] = {}  # seconds, by host
        self._mean_s = 0.0  # of all answers, smoothed

    def add(self, host: str, took_s: float) -> None:
        """`host` gave an answer that took `took_s` seconds."""
        overall = self._mean_s
        self._mean_s = overall + (took_s - overall) * _WEIGHT
        mean_s = self._means.get(host)
        if mean_s is not None:
            self._means[host] = mean_s + (took_s - mean_s) * _WEIGHT
        elif took_s >= overall:
            self._means[host] = took_s
            if len(self._means) > _SLOW_MAX:
                self._means = dict(self.slowest(_SLOW_MAX // 2))

    def slowest(self, limit: int) -> list[tuple[str, float]]:
        """(host, smoothed seconds), slowest first."""
        return nlargest(limit, self._means.items(), key=lambda each: each[1])


def overview_of(
    hosts: Mapping[str, Host], stored: StoredHosts, slow: SlowHosts, now: float, limit: int
) -> Overview:
    """The overview of a crawl with `hosts` on its workbench, by name. O(hosts), 0.5 µs per host.

    `stored` counts the other hosts. `limit` is the longest length of `largest` and `slowest`.
    """
    each = hosts.values()
    # By identity: the hash of an enumeration's value takes 0.2 µs.
    found = Counter(map(id, map(attrgetter("state"), each)))
    counts = {state.value: found[id(state)] for state in State}
    active = sum(counts[state.value] for state in ACTIVE)
    idle = max(stored.hosts - active - stored.waiting - stored.deferred, 0)
    counts |= {"idle": idle, "waiting": stored.waiting, "deferred": stored.deferred}
    retired = sum(until > now for until in map(attrgetter("retired_until"), each))
    slowest = (
        SlowHost(name, 1000.0 * mean_s, hosts[name].queue.length if name in hosts else 0)
        for name, mean_s in slow.slowest(limit)
    )
    return Overview(
        counts | {"retired": retired},
        [_queued(host, now) for host in nlargest(limit, each, key=_length) if host.queue.length],
        list(slowest),
    )


def _queued(host: Host, now: float) -> QueuedHost:
    ready_at = host.due_at if host.state is State.DEFERRED else host.next_at
    return QueuedHost(host.name, host.queue.length, max(ready_at - now, 0.0))


def _length(host: Host) -> int:
    return host.queue.length
