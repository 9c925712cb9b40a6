"""The simulated web as a function of its seed: names, addresses, pages, rules, answers.

Owns the hosts and pages and their behaviour; `weaving` owns their links. Pure, without sockets or
clocks. Memory: three small numbers per host, and a bounded cache of the last results.

Two trees of links: hosts are numbered, and host 0 is sound. A sound host with a smaller number
links to the home page of host `i`. On each host, a sound page with a smaller number links to page
`j`; page 0 is the home page. So every page of every host can be reached from host 0 alone. Random
links come on top. `reach` walks the same links to find the pages that a crawl of a given scope must
reach. A uniform world has no such trees: it is not meant for following links, and its hosts share a
few layouts of paths and links, as sites made by one program do.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial
from random import Random
from urllib.parse import urlsplit

from simweb.addresses import DNS, DnsKind
from simweb.changes import Changes
from simweb.features import Draw, Feature, mix, select, unit
from simweb.hosts import HOSTS, HostKind
from simweb.links import LINKS, LinkStyle
from simweb.origins import ORIGINS, OriginKind, Ports
from simweb.pagekinds import PAGES, PageKind
from simweb.pages import SIZES, Page
from simweb.reply import Reply, answer
from simweb.robots import ROBOTS, Request, Robots, RobotsKind, with_sitemaps
from simweb.site import Site, Tree, path
from simweb.sitemaps import ORPHANS, SITEMAPS, MapKind, MapRequest, Maps, dated
from simweb.spec import ROBOTS_PAGE, SITEMAP_PAGE, Host, Place, WorldSpec, in_scope
from simweb.tongues import TONGUES, Tongue
from simweb.weaving import Weaver
from simweb.words import BR_SUFFIXES, OTHER_SUFFIXES, WORDS

FEATURES: tuple[Feature, ...] = (
    *DNS,
    *ORIGINS,
    *ROBOTS,
    *SITEMAPS,
    *HOSTS,
    *PAGES,
    *LINKS,
    *TONGUES,
)

_PORTS = Ports()
_CHILD_HOSTS = 3  # links to new hosts from each sound host
_HOSTS_KEPT = 32768  # 2 to 3 kB each
_LAYOUTS = 16  # of a uniform world, for each size of a host


class World:
    """A world. `ports` are the ports in its URLs."""

    def __init__(self, spec: WorldSpec, ports: Ports = _PORTS) -> None:
        self.spec = spec
        self._ports = {name: ports.suffix(name) for name in Ports._fields}
        self.ips = min(spec.hosts, spec.ips or max(1, spec.hosts * 2 // 3))
        self.seed_count = min(spec.hosts, spec.seeds or max(1, spec.hosts // 10))
        weights = select(spec.features, FEATURES)
        self._dns = Draw[DnsKind](DNS, weights)
        self._origins = Draw[OriginKind](ORIGINS, weights)
        self._robots = Draw[RobotsKind](ROBOTS, weights)
        self._maps = Draw[MapKind](SITEMAPS, weights)
        self._kinds = Draw[HostKind](HOSTS, weights)
        self._pages = Draw[PageKind](PAGES, weights)
        self._tongues = Draw[Tongue](TONGUES, weights)
        self._draw_hosts()
        self.host = lru_cache(_HOSTS_KEPT)(self._host)
        self.salt = lru_cache(_HOSTS_KEPT)(self._make_salt)
        styles = Draw[LinkStyle](LINKS, weights)
        self._weaver = Weaver(spec, styles, self._tree, self._moved, hosts=self)
        self.changes = Changes(spec.seed, spec.change_cycle_s) if spec.change_cycle_s else None

    def _draw_hosts(self) -> None:
        spec = self.spec
        rng = Random(mix(spec.seed, 1))
        numbers = range(spec.hosts)
        self._dns_of = self._dns.many(rng, spec.hosts)
        self._address_of = [self._draw_address(rng, host) for host in numbers]
        robots, kinds = (draw.many(rng, spec.hosts) for draw in (self._robots, self._kinds))
        origins = self._origins.many(Random(mix(spec.seed, 30)), spec.hosts)
        if spec.uniform:
            robots = bytes(robots[self._address_of[host]] for host in numbers)
            kinds = bytes(kinds[self._address_of[host]] for host in numbers)
            origins = bytes(origins[self._address_of[host]] for host in numbers)
        self._robots_of, self._kind_of, self._origin_of = robots, kinds, origins
        self._map_of = self._maps.many(Random(mix(spec.seed, 31)), spec.hosts)
        self._tongue_of = self._tongues.many(Random(mix(spec.seed, 32)), spec.hosts)
        self._moved = frozenset(host for host in numbers if self._origins.rows[origins[host]].moved)
        self._names = [self._name(host) for host in numbers]
        self._numbers = {name: host for host, name in enumerate(self._names)}
        br_only = spec.br_share >= 0.1
        self._tree = Tree(
            (host == 0 or self._is_sound(host, br_only) for host in numbers), _CHILD_HOSTS
        )
        sound = self._tree.sound
        self._original_of = {
            host: sound[mix(spec.seed, 2, host) % len(sound)]
            for host in numbers
            if self._kinds.rows[kinds[host]].mirror
        }
        self._mirrored = frozenset(self._original_of.values())

    def _draw_address(self, rng: Random, host: int) -> int:
        """Each address has one host. The other hosts share mostly the first addresses."""
        return host if host < self.ips else int(self.ips * rng.random() ** 3)

    def _is_sound(self, host: int, br_only: bool) -> bool:
        return (
            self._dns.rows[self._dns_of[host]].sound
            and self.origin_kind(host).sound
            and (self._has_maps(host) or self._robots.rows[self._robots_of[host]].sound)
            and self._kinds.rows[self._kind_of[host]].sound
            and (not br_only or self._names[host].endswith(".br"))
        )

    def _name(self, host: int) -> str:
        """Every fifth host is a subdomain of the one before it."""
        number = mix(self.spec.seed, 3, host)
        if host % 5 == 4:
            return f"{WORDS[number & 63]}{host}.{self._domain(host - 1)}"
        return ("www." if number & 3 else "") + self._domain(host)

    def _domain(self, host: int) -> str:
        number = mix(self.spec.seed, 4, host)
        # Host 0 is the root of the tree of hosts, so it must be in scope where most hosts are.
        local = unit(number) < self.spec.br_share or (host == 0 and self.spec.br_share >= 0.1)
        suffixes = BR_SUFFIXES if local else OTHER_SUFFIXES
        suffix = suffixes[(number >> 8) % len(suffixes)]
        return f"{WORDS[number & 63]}-{WORDS[(number >> 6) & 63]}-{host}.{suffix}"

    def _host(self, host: int) -> Host:
        name = self._names[host]
        address = self._address_of[host]
        kind = self._dns.rows[self._dns_of[host]]
        ips = [self.address(address), self.address((address * 7 + 1) % self.ips)]
        return Host(
            name=name,
            dns=kind.answer(name, ips),
            kind=self._kinds.rows[self._kind_of[host]],
            in_dns=kind.sound,
            origin=self.origin_kind(host),
            draw_robots=partial(self._draw_robots, host),
            draw_site=partial(self._draw_site, host),
            draw_maps=partial(self._draw_maps, host),
        )

    def _draw_robots(self, host: int) -> Robots:
        spec, kind = self.spec, self._robots.rows[self._robots_of[host]]
        has_maps = self._has_maps(host)
        if kind.same and not has_maps:
            return kind.same
        elsewhere = self.origin(self._other_sound(host, 0))
        maps = self.host(host).maps if has_maps else Maps()
        return (with_sitemaps if has_maps else kind.make)(
            Request(
                sitemaps=maps.named,
                more=maps.rules,
                rng=Random(mix(spec.seed, 5, self._address_of[host] if spec.uniform else host)),
                token=spec.token,
                delay_s=spec.host_delay_s,
                elsewhere=f"{elsewhere}/robots-de/{self._names[host]}.txt",
            )
        )

    def _draw_site(self, host: int) -> Site:
        spec = self.spec
        original = self._original_of.get(host, host)
        if original != host:
            return self.host(original).site
        size = self.size(host)
        if spec.uniform:
            kinds = [self._pages.one(Random(mix(spec.seed, 6, self._address_of[host])))] * size
        else:
            drawn = self._pages.many(Random(mix(spec.seed, 6, host)), size)
            kinds = [self._pages.rows[row] for row in drawn]
        orphans = ORPHANS if self._has_maps(host) else 0
        kinds += [self._pages.rows[0]] * orphans
        return Site(host, self.salt(host), kinds, self.host(host).robots, orphans)

    def _has_maps(self, host: int) -> bool:
        """Mirrors have no sitemaps, and a uniform world has none."""
        mirror = self._kinds.rows[self._kind_of[host]].mirror
        return not (self.spec.uniform or mirror) and self._map_of[host] > 0

    def _draw_maps(self, host: int) -> Maps:
        if not self._has_maps(host):
            return Maps()
        origin, salt, size = self.origin(host), self.salt(host), self.size(host)
        other = self._other_sound(host, 2)
        third = next(
            number
            for salt in range(3, 100)
            if (number := self._other_sound(host, salt)) not in (host, other) or salt == 99
        )
        ghost = f"{self.origin(third)}/fantasma/mapa"
        return self._maps.rows[self._map_of[host]].make(
            MapRequest(
                url=lambda step: self.url(Place(host, SITEMAP_PAGE, step)),
                elsewhere=f"{self.origin(other)}/mapa-de/{self._names[host]}.xml",
                pages=[origin + path(salt, page) for page in range(min(size, 3))],
                orphans=[origin + path(salt, page) for page in range(size, size + ORPHANS)],
                ghosts=[f"{ghost}-1", f"{ghost}-2"],
            )
        )

    def listed(self, host: int, scope_suffix: str = "") -> list[Place]:
        """The pages that a crawler must find by the sitemaps of `host`."""
        kind = self._maps.rows[self._map_of[host]]
        if not self._has_maps(host) or not kind.sound:
            return []
        if kind.moves:
            other = self.host(self._other_sound(host, 2))
            file = f"/mapa-de/{self._names[host]}.xml"
            if not (in_scope(other.name, scope_suffix) and other.open):
                return []
            if not other.robots.allows(file):
                return []
        size = self.size(host)
        return [Place(host, page) for page in range(size, size + ORPHANS)]

    def _make_salt(self, host: int) -> int:
        """The salt of the paths of a host (`site.path`). A uniform world has few salts."""
        original = self._original_of.get(host, host)
        return mix(self.spec.seed, 8, original % _LAYOUTS if self.spec.uniform else original)

    def size(self, host: int) -> int:
        """How many pages a host has, without making them: 1 µs."""
        host = self._original_of.get(host, host)
        # The mean of a power law with this exponent is 2.5 times its smallest value.
        share = min(0.4 * unit(mix(self.spec.seed, 7, host)) ** -0.6, 100.0)
        return max(1, int(self.spec.pages_per_host * share))

    def _other_sound(self, host: int, salt: int) -> int:
        sound = self._tree.sound
        other = sound[mix(self.spec.seed, 9, host, salt) % len(sound)]
        return other if other != host else sound[0]

    def address(self, number: int) -> str:
        """The IP address with this number: 127.1.0.1 and up, never a .0 or a .255."""
        rest, last = divmod(number, 254)
        return f"127.{1 + (rest >> 8)}.{rest & 255}.{last + 1}"

    # Names.

    def find(self, name: str) -> int | None:
        """The number of the host with this name, in lower case without a port."""
        return self._numbers.get(name)

    def names(self) -> list[str]:
        return self._names

    # URLs.

    def origin_kind(self, host: int) -> OriginKind:
        return self._origins.rows[self._origin_of[host]]

    def origin(self, host: int, plain: bool = False) -> str:
        """Scheme, name and port."""
        scheme, name, port = self.origin_parts(host, plain)
        return f"{scheme}://{name}{port}"

    def origin_parts(self, host: int, plain: bool = False) -> tuple[str, str, str]:
        """Scheme, name and port, before they are joined."""
        kind = self._origins.rows[0 if plain else self._origin_of[host]]
        return kind.scheme, self._names[host], self._ports[kind.port]

    def url(self, place: Place) -> str:
        return self.origin(place.host, place.plain) + self.target(place)

    def target(self, place: Place) -> str:
        """Path and query of the canonical URL."""
        if place.page == ROBOTS_PAGE:
            return "/robots.txt" if place.step == 0 else f"/robots-{place.step}.txt"
        if place.page == SITEMAP_PAGE:
            return f"/mapa-{place.step}.xml"
        return self.host(place.host).site.target(place.page, place.step)

    def seeds(self) -> Iterator[str]:
        for host in range(self.seed_count):
            yield self.url(Place(host, 0))

    def resolve(self, host: int, target: str, secure: bool = False) -> Place | None:
        """The page of a request target on this host, in any spelling. None: there is no page."""
        plain = not secure and host in self._moved
        if not plain and secure != (self.origin_kind(host).scheme == "https"):
            return None
        place = self._resolve(host, target)
        return place._replace(plain=True) if place and plain else place

    def _resolve(self, host: int, target: str) -> Place | None:
        if target.startswith("/robots"):
            return self._resolve_robots(host, target)
        if target.startswith("/mapa-"):
            return self._resolve_sitemap(host, target)
        found = self.host(host).site.resolve(target)
        return Place(host, *found) if found else None

    def _resolve_robots(self, host: int, target: str) -> Place | None:
        if target == "/robots.txt":
            return Place(host, ROBOTS_PAGE)
        owner = host
        if target.startswith("/robots-de/"):
            found = self.find(target[11:-4])
            if found is None or self._other_sound(found, 0) != host:
                return None
            owner, step = found, 1
        else:
            digits = target[8:-4]
            step = int(digits) if digits.isdecimal() else 0
        known = 0 < step < len(self.host(owner).robots.replies)
        return Place(owner, ROBOTS_PAGE, step) if known else None

    def _resolve_sitemap(self, host: int, target: str) -> Place | None:
        if target.startswith("/mapa-de/"):
            found = self.find(target[9:-4])
            if found is None or self._other_sound(found, 2) != host:
                return None
            moves = self._has_maps(found) and self._maps.rows[self._map_of[found]].moves
            return Place(found, SITEMAP_PAGE) if moves else None
        digits = target[6:-4]
        step = int(digits) if digits.isdecimal() else -1
        # A file that an index names and that is not there is 404, but not invented.
        return Place(host, SITEMAP_PAGE, step) if 0 <= step <= 12 else None

    # Links.

    def onward(self, place: Place) -> Place | None:
        """The target of a redirect, or of a link that must not be followed."""
        kind = self.kind(place)
        if kind.leads == "away":
            return Place(self._other_sound(place.host, place.page + 1), 0)
        if kind.leads == "back":
            return place._replace(step=1 - place.step)
        return place._replace(step=place.step + 1) if place.step < kind.steps else None

    def tongue(self, place: Place) -> Tongue:
        """The language of a page."""
        own = self._original(place)
        return self._tongues.rows[self._tongue_of[own.host]].at(own.page)

    def kind(self, place: Place) -> PageKind:
        return self.host(place.host).site.kinds[place.page]

    def outlinks(self, place: Place) -> list[Place]:
        """The pages that a crawler must request after this one, with repeats. About 30 µs."""
        if place.plain:
            return [place._replace(plain=False)]
        own = self._original(place)
        kind = self.kind(own)
        onward = self.onward(own) if kind.leads else None
        if onward:
            return [onward]
        if not kind.leads and not kind.sound:
            return []
        return self._weaver.outlinks(self.host(own.host).site, own)

    def _original(self, place: Place) -> Place:
        """The same page of the original, if the host is a mirror."""
        owner = self.host(place.host).site.host
        return place if owner == place.host else place._replace(host=owner)

    # Answers.

    def version(self, place: Place | None, now: float) -> int:
        """How often the page has changed by `now`, monotonic."""
        if self.changes is None or place is None or place.page == ROBOTS_PAGE:
            return 0
        return self.changes.version(place, now)[0]

    def _changed_time(self, now: float, url: str) -> float:
        """When the page at `url` changed last, UTC."""
        parts = urlsplit(url)
        host = self.find(parts.hostname or "")
        target = url.partition("://")[2].partition("/")[2]
        place = None if host is None else self.resolve(host, f"/{target}", parts.scheme == "https")
        if self.changes is None or place is None:
            return 0.0
        return self.changes.changed_time(place, now)

    def reply(
        self,
        host: int,
        place: Place | None,
        attempt: int = 1,
        version: int = 0,
        now: float | None = None,
    ) -> Reply:
        """The answer of this host to the `attempt`-th request for `place`. None: no such page.

        `now`: with it, a sitemap of pages that change has true dates.
        """
        kind = self.host(host).kind
        if place is not None and place.plain:
            https = self.url(place._replace(plain=False))
            return kind.change(answer(301, b"<h1>Moved</h1>", f"Location: {https}"))
        if place is None:
            return kind.change(answer(404, b"<h1>Nada aqui</h1>"))
        if place.page == ROBOTS_PAGE:
            return kind.change(self.host(place.host).robots.replies[place.step])
        if place.page == SITEMAP_PAGE:
            files = self.host(place.host).maps.replies
            if place.step >= len(files):
                return kind.change(answer(404, b"<h1>Nada</h1>"))
            file = files[place.step]
            if self.changes is not None and now is not None:
                file = dated(file, partial(self._changed_time, now))
            return kind.change(file)
        return kind.change(self.kind(place).build(self._page(place, attempt, version)))

    def _page(self, place: Place, attempt: int, version: int) -> Page:
        own = self._original(place)
        onward = self.onward(own)
        back = own._replace(step=own.step - 1) if own.step else None
        site, whole = self.host(own.host).site, own.host in self._mirrored
        last_word = site.path(own.page).rstrip("/").rpartition("/")[2]
        number = mix(self.spec.seed, 11, *own)
        return Page(
            title=f"{last_word or 'inicio'} {own.host}.{own.page}.{own.step}",
            number=number + 101 * version,  # other paragraphs (`words.Text.cut`)
            step=own.step,
            attempt=attempt,
            size_bytes=int(self.spec.page_bytes * SIZES[number & 4095]),
            onward=self.url(onward).replace("&", "&amp;") if onward else "",
            back=self.url(back).replace("&", "&amp;") if back else "",
            whole=whole,
            tongue=self.tongue(own),
            hrefs=lambda: self._weaver.hrefs(site, own, whole),
        )
