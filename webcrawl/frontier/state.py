"""The state of one crawl, which the parts of the core share.

Each part owns what its module says; this is where it finds the others' part of the state. Decides
nothing.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from webcrawl.frontier.addresses import Addresses
from webcrawl.frontier.backlog import Backlog
from webcrawl.frontier.base import Policy
from webcrawl.frontier.caps import Caps
from webcrawl.frontier.counters import Counters
from webcrawl.frontier.disk.store import Store
from webcrawl.frontier.endings import Endings
from webcrawl.frontier.mailbox import Mailbox
from webcrawl.frontier.orderings import Level, Ordering

if TYPE_CHECKING:
    from webcrawl.frontier.visits import Visits


@dataclass(slots=True)
class CoreState:
    """Times are monotonic seconds.

    began_at -- the beginning of this run
    asked_until -- fetchers of an earlier run may send requests until then
    active_max -- active hosts at most
    addresses -- the IP addresses, if others ask them too
    mailbox -- None: all hosts are ours
    visits -- None: this crawl has never had RECRAWL
    """

    store: Store
    endings: Endings
    policy: Policy = field(default_factory=Policy)
    ordering: Ordering = field(default_factory=Level)
    caps: Caps = field(default_factory=Caps)
    counters: Counters = field(default_factory=Counters)
    began_at: float = 0.0
    asked_until: float = 0.0
    active_max: int = sys.maxsize
    addresses: Addresses | None = None
    mailbox: Mailbox | None = None
    visits: Visits | None = None
    backlog: Backlog = field(init=False)

    def __post_init__(self) -> None:
        self.ordering.open(self.store)
        self.caps.counts, self.caps.shared = self.store.counts("caps"), self.addresses
        is_recrawl = self.policy.recrawl is not None
        foreign_tasks = self.mailbox.robots_tasks if self.mailbox is not None else ()
        self.backlog = Backlog(
            self.counters, self.began_at, is_recrawl=is_recrawl, foreign_tasks=foreign_tasks
        )
