"""Page requisites in a frontier: the files that a page shows (PAGE_REQUISITES).

A URL may be a page and a requisite, and is fetched as each: so a requisite has a name of its own
for the URL-seen test. The name has a blank: no URL is equal to one.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final

from webcrawl.frontier.lease import Link
from webcrawl.parse.urls import host_of

if TYPE_CHECKING:  # it imports the store, which uses this module
    from webcrawl.frontier.host import Host

NAME_END: Final = " requisite"
_FIRST_MAX: Final = 100
_WAIT_MAX_S: Final = 3600.0  # a hostile style sheet may name others without end


def name_of(requisite: Link) -> str:
    """Its name for the URL-seen test."""
    return requisite.url + NAME_END


def is_first(host: Host, requisite: Link) -> bool:
    """Whether `requisite`, which is to be queued, goes before the pages of its host.

    So it follows its page soon. But where `host` has pages of its own, the pages of other hosts get
    only _FIRST_MAX requisites between two of them: it would never come to its pages. Those of its
    own pages come with each of them, and are bounded (`parse.requisites`).
    """
    if not host.pages or host_of(requisite.via) == host.name:
        return True
    host.requisites_first += 1
    return host.requisites_first <= _FIRST_MAX


class TargetWait:
    """How long a crawl that has its target goes on, for the requisites of its pages.

    settle_s -- so long after none was seen: they may be on their way from hub to hub
    """

    def __init__(self, settle_s: float = 0.0) -> None:
        self._settle_s = settle_s
        self._seen_at = -inf
        self.met_at = inf  # when the target was met

    def is_over(self, now: float, *, has_requisites: bool) -> bool:
        """Whether the crawl, whose target is met, ends now."""
        self.met_at = min(self.met_at, now)
        if has_requisites:
            self._seen_at = now
        is_settled = not has_requisites and now >= self._seen_at + self._settle_s
        return is_settled or now >= self.met_at + _WAIT_MAX_S
