"""The state of one crawl, which the parts of the core share.

Each part owns what its module says; this is where it finds the others' part of the state. Decides
nothing.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypedDict, Unpack

from webcrawl.crawllog.files import CrawlLog
from webcrawl.frontier.addresses import Addresses
from webcrawl.frontier.backlog import Backlog
from webcrawl.frontier.base import Policy
from webcrawl.frontier.caps import Caps
from webcrawl.frontier.counters import Counters
from webcrawl.frontier.disk.store import Store
from webcrawl.frontier.endings import Endings
from webcrawl.frontier.mailbox import Mailbox, Partition
from webcrawl.frontier.orderings import Level, Ordering

if TYPE_CHECKING:
    from webcrawl.frontier.visits import Visits


class Given(TypedDict, total=False):
    """What a crawl is given beside its policy, and keeps for one run.

    active_max -- active hosts at most
    now, utc_s -- the beginning of the run (monotonic), and what makes UTC of such times
    partition -- this is one of several hubs, and these are the others
    addresses -- the IP addresses, if others ask them too
    others_ask_s -- fetchers of an earlier run may send requests for so long (`hub`)
    """

    ordering: Ordering | None
    caps: Caps | None
    active_max: int
    now: float
    utc_s: float
    partition: Partition | None
    addresses: Addresses | None
    others_ask_s: float


class CoreState:
    """Times are monotonic seconds.

    utc_s -- makes UTC of monotonic times, by the clock of this machine
    asked_until -- fetchers of an earlier run may send requests until then
    mailbox -- None: all hosts are ours
    visits -- None: this crawl has never had RECRAWL
    """

    visits: Visits | None = None

    def __init__(
        self, store: Store, policy: Policy, log: CrawlLog | None = None, **given: Unpack[Given]
    ) -> None:
        self.store = store
        self.policy = policy
        self.utc_s = given.get("utc_s", 0.0)
        self.endings = Endings(store, log, self.utc_s)
        self.counters = Counters()
        self.began_at = given.get("now", 0.0)
        self.asked_until = self.began_at + given.get("others_ask_s", 0.0)
        self.active_max = given.get("active_max", sys.maxsize)
        self.addresses = given.get("addresses")
        self.ordering = given.get("ordering") or Level()
        self.ordering.open(store)
        self.caps = given.get("caps") or Caps()
        self.caps.counts, self.caps.shared = store.counts("caps"), self.addresses
        partition = given.get("partition")
        self.mailbox: Mailbox | None = None
        if partition is not None or "mail" in store.numbers:
            self.mailbox = Mailbox(store, partition, self.utc_s + self.began_at)
        self.backlog = Backlog(
            self.counters,
            self.began_at,
            is_recrawl=policy.recrawl is not None,
            foreign_tasks=self.mailbox.robots_tasks if self.mailbox is not None else (),
        )
