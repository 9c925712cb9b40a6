"""The links of a page, in two forms: as places, for `reach`, and as attribute values, for the HTML.

Owns the targets of a page's links and the choice of their spellings; `links` owns the spellings.
Both forms draw the same random numbers in the same order, so that they agree. Must not know how
pages behave or which hosts are mirrors: callers pass only pages that have links, and the original
of a mirror's page. Pure, with a bounded cache of menus and layouts.

A page links to its home page, along the two trees (see `model`), at random until it has 5 to 50
links, and to the menu of its host. In a uniform world it has the links of its layout instead.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from random import Random
from typing import TYPE_CHECKING

from simweb.features import Draw, mix
from simweb.links import LinkStyle, Target
from simweb.site import Site, Tree, path
from simweb.spec import Place, WorldSpec

if TYPE_CHECKING:
    from simweb.model import World

_MENUS_KEPT = 8192  # 100 bytes a link
_OWN = -1  # in place of a host: the host of the page with the link

Link = tuple[
    int, int, bool
]  # host, page, and whether the link says http: although the host has moved to HTTPS


class Weaver:
    """The links of all pages of a world.

    `tree` is the tree of the hosts. Some links to hosts that have `moved` still say `http:`. Of
    `hosts` only facts are asked that are cheap: no site is made.
    """

    def __init__(
        self,
        spec: WorldSpec,
        styles: Draw[LinkStyle],
        tree: Tree,
        moved: frozenset[int],
        hosts: World,
    ) -> None:
        self._spec = spec
        self._styles = styles
        self._tree = tree
        self._moved = moved
        self._hosts = hosts
        self._menu = lru_cache(_MENUS_KEPT)(self._write_menu)
        self._layout = lru_cache(_MENUS_KEPT)(self._write_layout)

    def outlinks(self, site: Site, place: Place) -> list[Place]:
        """The targets of this page's links, with repeats."""
        host = site.host
        if self._spec.uniform:
            links = self._draw_layout(site.salt, site.size)
        else:
            links = self._draw_links(site, place, self._rng(place))
            links += [(host, page, False) for page in self._menu_pages(host, site.size)]
        return [Place(host if to == _OWN else to, page, 0, plain) for to, page, plain in links]

    def hrefs(self, site: Site, place: Place, whole: bool) -> list[str]:
        """The same links as attribute values. `whole`: absolute URLs, for pages with a mirror."""
        if self._spec.uniform:
            return self._layout(site.salt, site.size)
        rng = self._rng(place)
        links = self._draw_links(site, place, rng)
        styles = self._styles.many(rng, len(links)) if self._styles.rows[1:] else bytes(len(links))
        written = self._write(_OWN if whole else site.host, site.salt, links, styles)
        return [*written, *self._menu(site.host, whole)]

    def _rng(self, place: Place) -> Random:
        return Random(mix(self._spec.seed, 10, *place))

    # Drawing.

    def _draw_links(self, site: Site, place: Place, rng: Random) -> list[Link]:
        """The links of the trees, then 5 to 50 in all."""
        owner = site.host
        links: list[Link] = [(owner, 0, False)]
        if place.step == 0:
            links += [(owner, page, False) for page in site.tree.children(place.page)]
            links += [(host, 0, False) for host in self._child_hosts(site, place.page)]
        links = self._fill(links, owner, site.size, rng.random)
        if self._moved:  # some links still say http:
            moved, random = self._moved, rng.random
            return [(host, page, host in moved and random() < 0.3) for host, page, _ in links]
        return links

    def _child_hosts(self, site: Site, page: int) -> list[int]:
        """The children in the tree of hosts that this page links to."""
        pages = site.tree.sound
        return [
            child
            for turn, child in enumerate(self._tree.children(site.host))
            if pages[turn % len(pages)] == page
        ]

    def _fill(
        self, links: list[Link], owner: int, size: int, random: Callable[[], float]
    ) -> list[Link]:
        """Adds links, up to 5 to 50 in all: four in five to the `size` pages of `owner`."""
        hosts = self._spec.hosts
        for _ in range(5 + int(45 * random() ** 2) - len(links)):
            if random() < 0.8:
                links.append((owner, int(size * random()), False))
            else:
                links.append(self._far(int(hosts * random()), random()))
        return links

    def _far(self, host: int, where: float) -> Link:
        return host, 0 if where < 0.7 else int((where - 0.7) / 0.3 * self._hosts.size(host)), False

    def _draw_layout(self, salt: int, size: int) -> list[Link]:
        """In a uniform world: the links of every page of every host with this salt and size."""
        random = Random(mix(self._spec.seed, 10, salt, size)).random
        links = self._fill([], _OWN, size, random)
        return links + [(_OWN, int(size * random()), False) for _ in range(self._spec.menu)]

    def _menu_pages(self, host: int, size: int) -> list[int]:
        """The menu: pages to which each page of the host links. A small host has repeats."""
        random = Random(mix(self._spec.seed, 12, host)).random
        return [int(size * random()) for _ in range(self._spec.menu)]

    # Writing.

    def _write_layout(self, salt: int, size: int) -> list[str]:
        links = self._draw_layout(salt, size)
        return self._write(_OWN, salt, links, bytes(len(links)))

    def _write_menu(self, host: int, whole: bool) -> tuple[str, ...]:
        origin, salt = self._hosts.origin(host) if whole else "", self._hosts.salt(host)
        return tuple(
            origin + path(salt, page) for page in self._menu_pages(host, self._hosts.size(host))
        )

    def _write(self, near: int, salt: int, links: list[Link], styles: bytes) -> list[str]:
        """The links on a page of the host `near`, which has this salt. Most are a path."""
        return [
            path(salt, link[1])
            if link[0] == near and not style and not link[2]
            else self._href(near, link, style)
            for link, style in zip(links, styles, strict=True)
        ]

    def _href(self, near: int, link: Link, style: int) -> str:
        """A link that is more than a path."""
        hosts = self._hosts
        host, page, plain = link
        where = path(hosts.salt(host), page)
        if not style:
            return hosts.origin(host, plain) + where
        scheme, name, port = hosts.origin_parts(host, plain)
        page_scheme = "" if near == _OWN else hosts.origin_parts(near)[0]
        is_near = host == near and not plain
        target = Target(name, port, where, "", is_near, scheme, page_scheme)
        return self._styles.rows[style].spell(target)
