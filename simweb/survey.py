"""A survey: a long list of URLs for a crawl that follows no links, and the expected counts.

It measures the funnel of lines, hosts, names, addresses, robots.txt and pages. The world is uniform
(`WorldSpec.uniform`): with one page per host and per address, the counts do not depend on the order
in which a crawler takes URLs and hosts.

Its shares are those of a list of a million URLs of the real web: 139,300 hosts at 95,460 addresses,
and 59,904 pages, of which 47,185 answer with 2xx, 5,826 with 3xx, 6,691 with 4xx and 202 with 5xx.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from random import Random

from simweb.features import mix
from simweb.model import World
from simweb.spec import Place, WorldSpec

_HOSTS = 0.1393  # per line
_IPS = 0.733  # per host; 8 % of the hosts are not in DNS, so some addresses are unused
FEATURES = (
    "dns-a,dns-nxdomain,dns-servfail,"
    "robots-allow-all=27.5,robots-none=35,robots-disallow-all=35,robots-error=2.5,"
    "page-plain=788,page-301=97,page-404=93,page-403=19,page-500=3"
)


def spec(lines: int, seed: int, page_bytes: int, menu: int = 0) -> WorldSpec:
    """The world of a survey of `lines` URLs."""
    hosts = max(1, int(lines * _HOSTS))
    return WorldSpec(
        seed=seed,
        hosts=hosts,
        ips=max(1, int(hosts * _IPS)),
        features=FEATURES,
        page_bytes=page_bytes,
        menu=menu,
        uniform=True,
    )


class Survey:
    """`lines` different URLs. Each host has at least one; large hosts have many."""

    def __init__(self, world: World, lines: int) -> None:
        self.world = world
        self.count = max(lines, world.spec.hosts)

    def lines(self) -> Iterator[str]:
        """The URLs, shuffled by the seed. About 10 µs and 200 bytes of memory each."""
        world, hosts = self.world, self.world.spec.hosts
        rng = Random(mix(world.spec.seed, 20))
        # All pages but the home pages are numbered through: the last number of each host.
        ends = list(accumulate(world.size(host) - 1 for host in range(hosts)))
        chosen = rng.sample(range(ends[-1]), self.count - hosts)
        chosen.sort(reverse=True)
        lines = []
        for host, end in enumerate(ends):
            lines.append(world.url(Place(host, 0)))
            while chosen and chosen[-1] < end:
                lines.append(world.url(Place(host, end - chosen.pop())))
        rng.shuffle(lines)
        return iter(lines)

    def truth(self) -> dict[str, int]:
        """How many URLs pass each stage. O(hosts).

        All hosts of an address behave alike, so each address counts once.
        """
        world = self.world
        names = [host for host in range(world.spec.hosts) if world.host(host).in_dns]
        first = {world.host(host).dns.addresses[0]: host for host in reversed(names)}
        allowed = [host for host in first.values() if world.host(host).robots.allows("/")]
        truth = {
            "lines": self.count,
            "hosts": world.spec.hosts,
            "hosts_in_dns": len(names),
            "addresses": len(first),
            "robots_4xx": sum(
                400 <= world.host(host).robots.replies[0].status < 500 for host in first.values()
            ),
            "robots_allowed": len(allowed),
            **{f"pages_{family}xx": 0 for family in (2, 3, 4, 5)},
        }
        for host in allowed:
            status = world.reply(host, Place(host, 0)).status
            truth[f"pages_{status // 100}xx"] += 1
        return truth
