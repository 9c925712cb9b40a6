"""The core parts of a frontier, put together as `CrawlState` does, for tests of one part."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from webcrawl.frontier.backlog import Backlog
from webcrawl.frontier.base import Policy
from webcrawl.frontier.candidates import Candidates
from webcrawl.frontier.caps import Caps
from webcrawl.frontier.counters import Counters
from webcrawl.frontier.disk.store import Store
from webcrawl.frontier.disposition import Disposition
from webcrawl.frontier.distributor import Distributor
from webcrawl.frontier.host import Host
from webcrawl.frontier.lease import Link, Resolved
from webcrawl.frontier.politeness import Politeness
from webcrawl.frontier.state import CoreState
from webcrawl.parse.urls import host_of

FOREVER = 1e9
POLITE = Politeness(delay_s=10.0, ip_delay_s=1.0)
NOW = 100.0


def link(url: str, depth: int = 0, payload: bytes = b"") -> Link:
    return Link(url, host_of(url), depth, payload=payload)


@dataclass
class Parts:
    """One of each part; the clock stands still at NOW."""

    store: Store
    counters: Counters
    backlog: Backlog
    distributor: Distributor
    candidates: Candidates
    disposition: Disposition

    def put(self, *urls: str, depth: int = 0, payload: bytes = b"") -> int:
        return self.candidates.put([link(url, depth, payload) for url in urls], NOW)

    def host(self, name: str) -> Host:
        return self.distributor.host(name)

    def resolve(self, name: str, *addresses: str) -> Host:
        """Give `name` addresses, without a request."""
        host = self.host(name)
        self.disposition.resolved(host, Resolved(addresses or (f"ip of {name}",), FOREVER))
        return host

    def commit(self) -> None:
        numbers = {"queued": self.backlog.queued, "arrivals": self.backlog.arrivals}
        counters = {"counters": self.counters.to_dict()}
        self.distributor.commit({"utc": NOW, "began": NOW, **numbers, **counters})


def parts(
    policy: Policy | None = None,
    caps: Caps | None = None,
    *,
    store: Store | None = None,
    active_max: int = sys.maxsize,
    began_at: float = NOW,
) -> Parts:
    store = store or Store(None)
    policy = policy or Policy(politeness=POLITE)
    state = CoreState(store, policy, caps=caps, now=began_at, active_max=active_max)
    distributor = Distributor(state)
    candidates, disposition = Candidates(state, distributor), Disposition(state, distributor)
    return Parts(store, state.counters, state.backlog, distributor, candidates, disposition)
