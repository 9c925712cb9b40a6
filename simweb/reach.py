"""The pages that a crawl of a world must reach: a walk along the links of its pages."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from simweb.model import World
from simweb.spec import Place, in_scope


@dataclass
class Reach:
    """`pages` must be requested; `documents`, a part of them, by GET.

    `hosts` are the hosts whose names must be looked up.
    """

    pages: set[Place] = field(default_factory=set)
    documents: set[Place] = field(default_factory=set)
    hosts: set[int] = field(default_factory=set)


def reach(world: World, scope_suffix: str = "") -> Reach:
    """Breadth first from the seeds. About 25 µs and 300 bytes per page.

    A page must be reached when a chain of sound pages and redirects leads to it from a seed, each
    of them in scope, allowed by its host's robots.txt, and on a host that can be reached.
    """
    found = Reach()
    start = [Place(host, 0) for host in range(world.seed_count)]
    seen = set(start)
    queue = deque(start)
    while queue:
        place = queue.popleft()
        host = world.host(place.host)
        if not in_scope(host.name, scope_suffix):
            continue
        if place.host not in found.hosts and host.open:
            queue.extend(world.listed(place.host, scope_suffix))
        found.hosts.add(place.host)
        if not host.open or not host.robots.allows(world.target(place)):
            continue
        found.pages.add(place)
        kind = world.kind(place)
        if kind.sound and not place.plain:
            found.documents.add(place)
        for link in world.outlinks(place):
            if link not in seen:
                seen.add(link)
                queue.append(link)
    return found
