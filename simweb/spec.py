"""The arguments of a world, and the values that name its parts."""

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
from simweb.sitemaps import Maps

ROBOTS_PAGE = -1  # Place.page of a robots.txt
SITEMAP_PAGE = -2  # of a sitemap; `step` is its number


@dataclass(frozen=True, slots=True)
class WorldSpec:
    """The arguments of a world. `features.select` reads `features`."""

    seed: int = 1
    hosts: int = 200
    pages_per_host: float = 20.0  # on average; sizes of hosts follow a power law
    ips: int = 0  # 0: two for every three hosts
    features: str = "default"
    br_share: float = 0.6  # of hosts under .br
    page_bytes: int = 25_000  # on average; sizes of pages are log-normal
    menu: int = 0  # links on every page of a host, in addition to 5 to 50 other links
    seeds: int = 0  # 0: one for every ten hosts
    host_delay_s: float = 0.5  # crawl delays are multiples of this
    token: str = "webcrawl"  # the crawler's product token in robots.txt
    change_cycle_s: float = 0.0  # pages change (`changes`); 0: never
    uniform: bool = False  # all pages of all hosts of an address behave alike; see `model`


class Place(NamedTuple):
    """A page, independent of the spelling of its URL."""

    host: int
    page: int  # or ROBOTS_PAGE, SITEMAP_PAGE
    step: int = 0  # 0: the page's own URL; 1: `?passo=1` ...
    plain: bool = False  # requested by HTTP from a host that has moved to HTTPS


@dataclass(frozen=True)
class Host:
    """One host. Its rules and pages are made on first use: never, if only its name is looked up."""

    name: str
    dns: Answer
    kind: HostKind
    in_dns: bool
    origin: OriginKind
    draw_robots: Callable[[], Robots]
    draw_site: Callable[[], Site]
    draw_maps: Callable[[], Maps] = Maps

    @cached_property
    def robots(self) -> Robots:
        return self.draw_robots()

    @cached_property
    def maps(self) -> Maps:
        return self.draw_maps()

    @cached_property
    def site(self) -> Site:
        return self.draw_site()

    @property
    def open(self) -> bool:
        """Whether a crawler can reach its pages."""
        return self.in_dns and self.serves and self.robots.reachable

    @property
    def serves(self) -> bool:
        """Whether it answers by HTTP."""
        return self.kind.reachable and self.origin.reachable


def in_scope(name: str, suffix: str) -> bool:
    """True for `br` itself and names that end in `.br`, if `suffix` is `.br` or `br`; "": all."""
    bare = suffix.lstrip(".")
    return not bare or name == bare or name.endswith(f".{bare}")
