"""The meaning of an answer to a request for robots.txt (RFC 9309, 2.3.1), decided only here.

The frontier's admissions and the drop-in middleware both ask `robots_answer`. Pure: no I/O, no
clock. The rules inside a robots.txt are `parse.robots`.

| answer | meaning | RFC 9309 |
| --- | --- | --- |
| 2xx | the rules in its body | 2.3.1.1 |
| 3xx with a usable Location, up to the fifth in a row | ask there | 2.3.1.2 |
| any other 3xx | no rules: everything is allowed | 2.3.1.2 |
| 4xx, 429 included | no rules: everything is allowed | 2.3.1.3 |
| 5xx, no answer, any other status | unreachable: everything is disallowed | 2.3.1.4 |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from webcrawl.parse.urls import redirect_target

ROBOTS_EXPIRY_S: Final = 24 * 3600.0  # 2.4: a cached robots.txt is used for 24 hours at most
ROBOTS_REDIRECTS_MAX: Final = 5  # 2.3.1.2: at least five are followed


@dataclass(slots=True, frozen=True)
class HasRules:
    """The body is a robots.txt."""


@dataclass(slots=True, frozen=True)
class AllowsAll:
    """There are no rules. `kind` is a statistic: `webcrawl/robots/<kind>`."""

    kind: Literal["4xx", "redirects"]


@dataclass(slots=True, frozen=True)
class Redirects:
    """The robots.txt is at `url` (canonical), perhaps on another host."""

    url: str


@dataclass(slots=True, frozen=True)
class Unreachable:
    """Nothing is allowed until a later request is answered."""


RobotsAnswer = HasRules | AllowsAll | Redirects | Unreachable


def robots_answer(status: int, location: bytes, url: str, redirects: int) -> RobotsAnswer:
    """The meaning of the answer `status` of `url` (canonical), reached by `redirects` redirects.

    `location` is the value of the Location header, or b"".
    """
    if 200 <= status < 300:
        return HasRules()
    if 300 <= status < 400:
        target = redirect_target(location, url)
        if target is None or redirects >= ROBOTS_REDIRECTS_MAX:
            return AllowsAll("redirects")
        return Redirects(target)
    if 400 <= status < 500:
        return AllowsAll("4xx")
    return Unreachable()
