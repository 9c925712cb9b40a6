"""What a world is asked for, and the values that name its parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from simweb.addresses import Answer
from simweb.hosts import HostKind
from simweb.origins import OriginKind
from simweb.robots import Robots
from simweb.site import Site

ROBOTS_PAGE = -1  # Place.page of a robots.txt


@dataclass(frozen=True, slots=True)
class WorldSpec:
    """All that a world depends on. `features` as `features.select` reads it."""

    seed: int = 1
    hosts: int = 200
    pages_per_host: float = 20.0  # on average; sizes of hosts follow a power law
    ips: int = 0  # 0: two for every three hosts
    features: str = "default"
    br_share: float = 0.6  # of hosts under .br
    page_bytes: int = 25_000  # on average; sizes of pages are log-normal
    menu: int = 0  # links that all pages of a host share, beside 5 to 50 of their own
    seeds: int = 0  # 0: one for every ten hosts
    host_delay_s: float = 0.5  # what crawl delays are multiples of
    token: str = "webcrawl"  # the crawler's product token in robots.txt
    uniform: bool = False  # every page of every host of one address behaves the same; see `model`


class Place(NamedTuple):
    """Which page, whatever the spelling of its URL."""

    host: int
    page: int  # ROBOTS_PAGE for robots.txt
    step: int = 0  # the page's own URL, then `?passo=1` ...
    plain: bool = False  # by HTTP, of a host that has moved to HTTPS


@dataclass(frozen=True)
class Host:
    """What is known of one host. Rules and pages are made when they are first asked for: of a
    host of which only the name is looked up, they never are."""

    name: str
    dns: Answer
    kind: HostKind
    in_dns: bool
    origin: OriginKind
    draw_robots: Callable[[], Robots]
    draw_site: Callable[[], Site]

    @cached_property
    def robots(self) -> Robots:
        return self.draw_robots()

    @cached_property
    def site(self) -> Site:
        return self.draw_site()

    @property
    def open(self) -> bool:
        """Whether a crawler can get as far as its pages."""
        return self.in_dns and self.serves and self.robots.reachable

    @property
    def serves(self) -> bool:
        """Whether it answers at all."""
        return self.kind.reachable and self.origin.reachable
