"""What visits have shown of each host: whose sitemaps' dates are trusted, and whose 304s (RECRAWL).

A date (`lastmod`) of a page is a hint: "changed after your last visit", or "not changed". Visits
show which hints are right. Those of a host that was right are trusted: with RECRAWL=adaptive they
are as good as a visit that only looked whether the page has changed (Azar and others 2018 call them
change-indicating signals).

A 304 that is checked counts as no answer. Its page is asked again at once, by a plain request: that
shows whether the page had changed. The first 304s of each host are checked, then one in twenty; and
those that something else contradicts.

Owns the numbers of each host in the store. Times are UTC seconds.
"""

from __future__ import annotations

from typing import Final

from xxhash import xxh3_64_intdigest

from webcrawl.frontier.caps import Counts
from webcrawl.frontier.lease import Fetched, Visited
from webcrawl.frontier.revisit import learned
from webcrawl.frontier.visitstate import VisitState

_RIGHT, _WRONG = "right ", "wrong "  # "changed", in all visits
_TOLD, _UNTOLD = "told ", "untold "  # changes that a hint told, in visits that no hint brought
_OTHER: Final = {_RIGHT: _WRONG, _WRONG: _RIGHT, _TOLD: _UNTOLD, _UNTOLD: _TOLD}
_PROVED: Final = 3  # so many "changed" must have proved right
_LEAST: Final = 4  # times as many must be right as wrong
_MEMORY: Final = 64  # at this count two numbers are halved: a site may change its habit
_AUDITED: Final = 20  # one page of so many is visited whatever its host's sitemap says

_ANSWERS: Final = "304s "  # the first 304s of a host, _FIRST at most
TRUST: Final = "trust "  # from 0: the host gets no conditional request any more
_FIRST: Final = 16  # of these the 1st, 2nd, 4th, 8th and 16th are checked
_CHECKED: Final = 20  # later one of so many is; until a check finds a change
# Deviation: one check is no proof. An honest server's page may change between its 304 and the
# check, which is a delay of the host later. It hardly does so twice, before conditional requests
# have found a change: each of these restores what one such check took.
_TRUST_FIRST: Final = 2
_TRUST_MAX: Final = 4


class SitemapHints:
    """Trusts a host whose dates were right at least four times as often as wrong, and told at least
    four times as many changes as they left out.

    A change counts for the second only if its visit did not come because of a hint: else omissions,
    which bring no visit, would not be seen.
    """

    def __init__(self, hosts: Counts) -> None:
        self._hosts = hosts

    def trusts(self, host: str) -> bool:
        right, told = self._hosts.get(_RIGHT + host, 0), self._hosts.get(_TOLD + host, 0)
        return (
            right >= max(_PROVED, _LEAST * self._hosts.get(_WRONG + host, 0))
            and told >= _LEAST * self._hosts.get(_UNTOLD + host, 0)
        )  # fmt: skip

    def judge(self, url: str, host: str, state: VisitState, *, is_unchanged: bool) -> None:
        """A visit of `url` has shown whether the hint was right. `state`: as before it."""
        if state.hint > 0:
            self._count(_WRONG if is_unchanged else _RIGHT, host)
        if not state.hint or is_unchanged:
            return
        if state.hint < 0:
            self._count(_UNTOLD, host)
        elif not state.hinted_s or is_audited(url, state):
            self._count(_TOLD, host)

    def forget(self, host: str) -> None:
        """Forget what visits have shown of `host`: they were misled (`NotModified`)."""
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
    """Whether "not changed" is not trusted for `url` before its next visit."""
    return xxh3_64_intdigest(url.encode(), int(state.last_at)) % _AUDITED == 0


def learn_hint(state: VisitState, lastmod: float, now: float) -> None:
    """Learn the rate of a page from a date that is trusted, as from a visit at `now`.

    A sitemap may be older than its reading. So a date before the last reading is a change too if it
    is the first one after the last visit.
    """
    since = state.last_at + state.hinted_s
    has_changed = lastmod > (since if state.hint > 0 else state.last_at)
    after_s = max(now - since, 1e-3)
    state.rate = learned(state.rate, after_s, has_changed=has_changed, age_s=now - lastmod)
    state.hinted_s = now - state.last_at


class NotModified:
    """The checks of 304s, and what they have shown. `hosts`: numbers by name, of `Visits`."""

    def __init__(self, hosts: Counts, hints: SitemapHints) -> None:
        self._hosts = hosts
        self._hints = hints

    def is_trusted(self, host: str) -> bool:
        """Whether `host` gets conditional requests."""
        return self._hosts.get(TRUST + host, _TRUST_FIRST) > 0

    def is_checked(self, url: str, host: str, state: VisitState, seen: Visited) -> bool:
        """Whether the 304 `seen` is checked. `state`: as before it. Counts the 304.

        A sitemap may contradict it, or its own validators: a 304 has those of the page (RFC 9110,
        15.4.5). After the first ones only dates of trusted hosts count, or a host that dates all
        pages with today would have each of its 304s checked.
        """
        count = self._hosts.get(_ANSWERS + host, 0)
        if count < _FIRST:
            count = self._hosts[_ANSWERS + host] = count + 1
            sent = state.capture.validators
            is_denied = state.hint > 0 or seen.capture.validators != sent
            return is_denied or not count & count - 1
        if state.hint > 0 and self._hints.trusts(host):
            return True
        return xxh3_64_intdigest(url.encode(), int(state.last_at * 1000)) % _CHECKED == 0

    def judge(self, host: str, state: VisitState, outcome: Fetched) -> bool:
        """Learn from a visit of a page of `host`. True if its 304s have just proved false.

        `state`: as before the visit. Then what was learned of the host's sitemaps is forgotten.
        """
        change = _change(state, outcome)
        if not change:
            return False
        trust = self._hosts.get(TRUST + host, _TRUST_FIRST)
        changed = min(max(trust + change, 0), _TRUST_MAX)
        if changed == trust:
            return False
        self._hosts[TRUST + host] = changed
        if change < 0:
            self._hosts[_ANSWERS + host] = 0  # the next ones are checked as the first ones were
        if not changed:
            self._hints.forget(host)
        return not changed


def _change(state: VisitState, outcome: Fetched) -> int:
    """What an answer adds to the trust in its host."""
    seen = outcome.visited
    if seen is None or outcome.status >= 300:  # a 304 here is one to a plain request
        is_nonsense = state.is_check and outcome.status == 304 and seen is None
        return -_TRUST_MAX if is_nonsense else 0
    if seen.is_unchanged is not False:
        return 0
    if seen.validators_held is None:  # no plain request: the server has found the change
        return int(any(state.capture.validators))
    if seen.validators_held:  # another text, and the server would have said 304
        return -_TRUST_MAX
    return -1 if state.is_check else 0
