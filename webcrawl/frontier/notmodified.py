"""Whose 304 Not Modified is believed (RECRAWL): each host's are checked, and a host may lose them.

A 304 that is checked counts as no answer. Its page is asked again at once, by a plain request: that
shows whether the page had changed. The first 304s of each host are checked, then one in twenty; and
those that something else contradicts. Owns two numbers of each host in the store.
"""

from __future__ import annotations

from typing import Final

from xxhash import xxh3_64_intdigest

from webcrawl.frontier.caps import Counts
from webcrawl.frontier.claims import Claims
from webcrawl.frontier.lease import Fetched, Visited
from webcrawl.frontier.visitstate import VisitState

_ANSWERS: Final = "304s "  # the first 304s of a host, _FIRST at most
TRUST: Final = "trust "  # from 0: the host gets no conditional request any more
_FIRST: Final = 16  # of these the 1st, 2nd, 4th, 8th and 16th are checked
_CHECKED: Final = 20  # later one of so many is; until a check finds a change
# Deviation: one check is no proof. An honest server's page may change between its 304 and the
# check, which is a delay of the host later. It hardly does so twice, before conditional requests
# have found a change: each of these restores what one such check took.
_TRUST_FIRST: Final = 2
_TRUST_MAX: Final = 4


class NotModified:
    """The checks of 304s, and what they have shown. `hosts`: numbers by name, of `Visits`."""

    def __init__(self, hosts: Counts, claims: Claims) -> None:
        self._hosts = hosts
        self._claims = claims

    def is_trusted(self, host: str) -> bool:
        """Whether `host` gets conditional requests."""
        return self._hosts.get(TRUST + host, _TRUST_FIRST) > 0

    def is_checked(self, url: str, host: str, state: VisitState, seen: Visited) -> bool:
        """Whether the 304 `seen` is checked. `state`: as before it. Counts the 304.

        A sitemap may contradict it, or its own validators: a 304 has those of the page (RFC 9110,
        15.4.5). After the first ones only dates that are believed count, or a host that dates all
        pages with today would have each of its 304s checked.
        """
        count = self._hosts.get(_ANSWERS + host, 0)
        if count < _FIRST:
            count = self._hosts[_ANSWERS + host] = count + 1
            sent = state.capture.validators
            is_denied = state.claim > 0 or seen.capture.validators != sent
            return is_denied or not count & count - 1
        if state.claim > 0 and self._claims.believes(host):
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
            self._claims.forget(host)
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
