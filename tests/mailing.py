"""The mail between two frontiers, without the hubs' courier."""

from __future__ import annotations

from collections.abc import Sequence

from webcrawl.frontier.core import CrawlState
from webcrawl.frontier.mailbox import Mail, decode_all

_ROWS_BYTES = 1 << 20


def unsent(state: CrawlState, to: int, after: int, limit: int) -> list[Mail]:
    """The mail for hub `to` behind number `after`, as of the last commit."""
    mail: list[Mail] = []
    while len(mail) < limit:
        packed = state.packed(to, after, limit - len(mail), _ROWS_BYTES)
        if not packed.number:
            break
        mail += decode_all(packed.data)
        after = packed.first + packed.number - 1
    return mail


def receive(state: CrawlState, sender: int, first: int, mail: Sequence[Mail], now: float) -> int:
    """Apply `mail` of `sender`, numbered from `first` on: the number of the last one applied."""
    state.receive_each([(sender, first + len(mail) - 1, mail)], now)
    return state.inbox.get(sender, 0)
