"""What the dates of sitemaps say of pages that are known, and whose dates are believed.

A date (`lastmod`) of a page is a claim: "changed after your last visit", or "not changed". Visits
show which claims are right. Those of a host that was right are believed: with RECRAWL=adaptive they
are as good as a visit that only looked whether the page has changed (Azar and others 2018 call them
change-indicating signals). Owns the numbers of each host in the store. Times are UTC seconds.
"""

from __future__ import annotations

from typing import Final

from xxhash import xxh3_64_intdigest

from webcrawl.frontier.caps import Counts
from webcrawl.frontier.revisit import learned
from webcrawl.frontier.visitstate import VisitState

_RIGHT, _WRONG = "right ", "wrong "  # "changed", in all visits
_TOLD, _UNTOLD = "told ", "untold "  # changes that a claim told, in visits that no claim brought
_OTHER: Final = {_RIGHT: _WRONG, _WRONG: _RIGHT, _TOLD: _UNTOLD, _UNTOLD: _TOLD}
_PROVED: Final = 3  # so many "changed" must have proved right
_LEAST: Final = 4  # times as many must be right as wrong
_MEMORY: Final = 64  # at this count two numbers are halved: a site may change its habit
_AUDITED: Final = 20  # one page of so many is visited whatever its host's sitemap says


class Claims:
    """Whom to believe: a host that says of few unchanged pages that they changed, and that tells
    most changes.

    The second is counted only where the visit did not come because of a claim. Or omissions, which
    bring no visit, would not be seen among the changes that are told.
    """

    def __init__(self, hosts: Counts) -> None:
        self._hosts = hosts

    def believes(self, host: str) -> bool:
        right, told = self._hosts.get(_RIGHT + host, 0), self._hosts.get(_TOLD + host, 0)
        return (
            right >= max(_PROVED, _LEAST * self._hosts.get(_WRONG + host, 0))
            and told >= _LEAST * self._hosts.get(_UNTOLD + host, 0)
        )  # fmt: skip

    def judge(self, url: str, host: str, state: VisitState, *, is_unchanged: bool) -> None:
        """A visit of `url` has shown whether the claim was right. `state`: as before it."""
        if state.claim > 0:
            self._count(_WRONG if is_unchanged else _RIGHT, host)
        if not state.claim or is_unchanged:
            return
        if state.claim < 0:
            self._count(_UNTOLD, host)
        elif not state.told_s or is_audited(url, state):
            self._count(_TOLD, host)

    def forget(self, host: str) -> None:
        """Forget what visits have shown of `host`: they were misled (`notmodified`)."""
        for kind in _OTHER:
            if self._hosts.get(kind + host, 0):
                self._hosts[kind + host] = 0

    def _count(self, kind: str, host: str) -> None:
        counts = self._hosts
        count = counts[kind + host] = counts.get(kind + host, 0) + 1
        if count >= _MEMORY:
            counts[kind + host] = count // 2
            other = _OTHER[kind] + host
            counts[other] = counts.get(other, 0) // 2


def is_audited(url: str, state: VisitState) -> bool:
    """Whether "not changed" is not believed for `url` before its next visit."""
    return xxh3_64_intdigest(url.encode(), int(state.last_at)) % _AUDITED == 0


def learn(state: VisitState, lastmod: float, now: float) -> None:
    """Learn the rate of a page from a date that is believed, as from a visit at `now`.

    A sitemap may be older than its reading. So a date before the last reading is a change too if it
    is the first one after the last visit.
    """
    since = state.last_at + state.told_s
    has_changed = lastmod > (since if state.claim > 0 else state.last_at)
    after_s = max(now - since, 1e-3)
    state.rate = learned(state.rate, after_s, has_changed=has_changed, age_s=now - lastmod)
    state.told_s = now - state.last_at
