"""The mail between two frontiers, without the hubs' courier."""

from __future__ import annotations

from collections.abc import Sequence

from webcrawl.frontier.core import CrawlState
from webcrawl.frontier.mailbox import Mail, decode_all

_ROWS, _ROWS_BYTES = 500, 1 << 20


def numbered(state: CrawlState, to: int) -> list[tuple[int, Mail]]:
    """The mail that is kept for hub `to`, each with its number."""
    first = state.outbox.get(to, (1, 0))[0]
    mail: list[tuple[int, Mail]] = []
    after = first - 1
    while (packed := state.packed(to, after, _ROWS, _ROWS_BYTES)).number:
        mail += enumerate(decode_all(packed.data), packed.first)
        after = mail[-1][0]
    return [each for each in mail if each[0] >= first]


def unsent(state: CrawlState, to: int, after: int, limit: int) -> list[Mail]:
    """The mail for hub `to` behind number `after`, as of the last commit."""
    return [mail for number, mail in numbered(state, to) if number > after][:limit]


def receive(state: CrawlState, sender: int, first: int, mail: Sequence[Mail], now: float) -> int:
    """Apply `mail` of `sender`, numbered from `first` on: the number of the last one applied."""
    state.receive_each([(sender, first + len(mail) - 1, mail)], now)
    return state.inbox.get(sender, 0)
