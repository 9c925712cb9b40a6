"""A survey: a long list of URLs for a crawl that follows no links, and the truth about it.

For measuring the funnel of lines, hosts, names, addresses, robots.txt and pages. The world is
uniform (`WorldSpec.uniform`): whichever URL of a host and whichever host of an address a crawler
takes first, with host and address uniqueness it counts the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from webcrawl.simweb.features import mix
from webcrawl.simweb.model import World
from webcrawl.simweb.spec import Place, WorldSpec

# Shares as in a list of a million URLs of the real web: 139,300 hosts, 95,460 addresses.
_HOSTS = 0.14
_IPS = 0.68
FEATURES = (
    "dns-a,dns-nxdomain,dns-servfail,robots-none,robots-disallow-all,robots-error,"
    "page-301,page-404,page-403,page-500"
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
    """`lines` URLs: every host once and, in among them, repetitions that favour a few hosts."""

    def __init__(self, world: World, lines: int) -> None:
        self.world = world
        self.count = max(lines, world.spec.hosts)

    def lines(self) -> Iterator[str]:
        """Shuffled, the same for the same seed. About 10 µs each."""
        world, hosts = self.world, self.world.spec.hosts
        rng = Random(mix(world.spec.seed, 20))
        order = [
            *range(hosts),
            *(int(hosts * rng.random() ** 3) for _ in range(self.count - hosts)),
        ]
        rng.shuffle(order)
        for host in order:
            size = world.host(host).site.size
            yield world.url(Place(host, int(size * rng.random())))

    def truth(self) -> dict[str, int]:
        """How many URLs pass each stage. O(hosts).

        An address counts as allowed, or as some status, by what all of its hosts do.
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
        }
        for host in allowed:
            status = world.reply(host, Place(host, 0)).status
            key = f"pages_{status // 100}xx"
            truth[key] = truth.get(key, 0) + 1
        return truth
