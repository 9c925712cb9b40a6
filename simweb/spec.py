"""The arguments of a world, and the values that name its parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from simweb.addresses import Answer
from simweb.hosts import HostKind
from simweb.options import option
from simweb.origins import OriginKind
from simweb.robots import Robots
from simweb.site import Site
from simweb.sitemaps import Maps

ROBOTS_PAGE = -1  # Place.page of a robots.txt
SITEMAP_PAGE = -2  # of a sitemap; `step` is its number


@dataclass(frozen=True, slots=True)
class WorldSpec:
    """The arguments of a world. `features.select` reads `features`."""

    seed: int = option(1, "N", "each N makes another web")
    hosts: int = option(200, "N", "hosts")
    # Sizes of hosts follow a power law.
    pages_per_host: float = option(20.0, "N", "mean number of pages per host")
    ips: int = option(0, "N", "IP addresses; 0: 2/3 of hosts")
    seeds: int = option(0, "N", "seed URLs; 0: 1/10 of hosts")
    page_bytes: int = option(25_000, "N", "mean size of a page")  # sizes are log-normal
    menu: int = option(0, "N", "links on every page of a host, in addition to 5 to 50 other links")
    br_share: float = option(0.6, "X", "share of hosts in .br")
    features: str = option(
        "default",
        "LIST",
        "default, all, none, a,b (only these) or -a,-b (without these); * matches any characters,"
        " a=9 sets a weight; see --list-features",
    )
    change_cycle_s: float = option(
        0.0,
        "S",
        "pages change: 12 %% 28 times in S seconds, 18 %% 4 times, the others seldom; the ledger"
        " tells how fresh a crawl keeps them; 0: never",
        name="changes",
    )
    token: str = option("webcrawl", "NAME", "the crawler's product token in robots.txt")
    host_delay_s: float = 0.5  # crawl delays are multiples of this
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
