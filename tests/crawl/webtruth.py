"""What a crawl of a simulated web must find, from the model of that web, and from no crawl.

Reads pages with the standard library and Lexbor: nothing of the crawler is used.
"""

from __future__ import annotations

import gzip
import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import urlsplit

from selectolax.lexbor import LexborHTMLParser

from simweb import Running
from simweb.model import World
from simweb.origins import Ports
from simweb.reach import reach
from simweb.reply import Reply
from simweb.spec import Place, WorldSpec

# Answers that a crawl gets at the first try, with a body that `body_of` reads.
FEATURES = (
    "none,page-plain=30,page-chunked=8,page-gzip=8,page-latin=8,page-404=4,page-410=2,page-301=6,"
    "page-xhtml=4,page-pdf=3,robots-none=30,robots-forbidden=10,robots-some=20,"
    "dns-nxdomain=8,dns-cname=10"
)


@dataclass(frozen=True)
class Answered:
    """A page that must be fetched, and its answer."""

    url: str
    host: str
    status: int
    body: bytes
    head: str
    outlinks: tuple[str, ...]  # hosts
    hrefs: int

    @property
    def is_document(self) -> bool:
        return self.status == 200 and self.media_type != "application/pdf"

    @property
    def media_type(self) -> str:
        found = re.search(r"Content-Type: *([^\s;]+)", self.head)
        return found[1] if found else ""

    @property
    def charset(self) -> str:
        return "windows-1252" if "ISO-8859-1" in self.head else "utf-8"

    @cached_property
    def tokens(self) -> int:
        tree = LexborHTMLParser(self.body.decode(self.charset))
        for node in tree.css("script, style"):
            node.decompose()
        assert tree.root is not None
        return len(re.findall(r"\w+", tree.root.text(separator=" ")))


class Truth:
    """All pages that must be fetched, and what is known of the hosts. `web` serves `spec`."""

    def __init__(self, web: Running, spec: WorldSpec) -> None:
        self.world = World(spec, Ports(web.port, web.https))
        found = reach(self.world)
        self.hosts = found.hosts
        self.pages = [self._answered(place) for place in sorted(found.pages)]
        self.documents = [page for page in self.pages if page.is_document]
        seeds = [Place(host, 0) for host in range(self.world.seed_count)]
        links = (link for place in found.pages for link in self.world.outlinks(place))
        self.urls = {self.world.url(place): place for place in {*seeds, *links}}  # all to be found

    def _answered(self, place: Place) -> Answered:
        reply = self.world.reply(place.host, place)
        links = self.world.outlinks(place)
        return Answered(
            self.world.url(place),
            self.world.names()[place.host],
            reply.status,
            body_of(reply),
            reply.head.decode("latin-1"),
            tuple(self.world.names()[link.host] for link in links),
            reply.links,
        )

    @property
    def robots(self) -> Counter[int]:
        """Hosts by the status of their robots.txt."""
        return Counter(
            self.world.host(host).robots.replies[0].status
            for host in self.hosts
            if self.world.host(host).in_dns
        )

    @property
    def lost(self) -> Counter[str]:
        """URLs that are found and not fetched, by reason."""
        hosts = [self.world.host(place.host) for place in self.urls.values()]
        targets = map(self.world.target, self.urls.values())
        reasons = (
            "" if host.in_dns and host.robots.allows(target) else "robots" if host.in_dns else "dns"
            for host, target in zip(hosts, targets, strict=True)
        )
        lost = Counter(reasons)
        del lost[""]
        return lost


def body_of(reply: Reply) -> bytes:
    """The body without codings."""
    body = b"".join(part for part in reply.body if isinstance(part, bytes))
    if b"chunked" in reply.head:
        pieces, at = [], 0
        while size := int(body[at : body.index(b"\r\n", at)], 16):
            at = body.index(b"\r\n", at) + 2
            pieces.append(body[at : at + size])
            at += size + 2
        body = b"".join(pieces)
    return gzip.decompress(body) if b"gzip" in reply.head else body


SUFFIXES = {f"{word}.br" for word in ("com", "org", "net", "gov", "art", "edu")} | {
    "co.uk",
    "com.ar",
}


def suffix_of(host: str) -> str:
    """The public suffix of a host of a simulated web."""
    two = ".".join(host.split(".")[-2:])
    return two if two in SUFFIXES else host.rpartition(".")[2]


def domain_of(host: str) -> str:
    """The registered domain of a host of a simulated web."""
    suffix = suffix_of(host)
    return f"{host.removesuffix('.' + suffix).rpartition('.')[2]}.{suffix}"


def level_of(url: str) -> int:
    return min(10, 1 + len([word for word in urlsplit(url).path.split("/") if word]))
