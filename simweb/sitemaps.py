"""The sitemaps of the simulated web: their files, and the orphan pages that only they give.

Each host has one kind. A kind makes the files of its host, step by step: `/mapa-0.xml` and so on.
Hosts with a sitemap have a robots.txt that names it. A URL with `fantasma` is one that no crawler
may ask for: a file lists it without the leave of its host.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import repeat
from xml.sax.saxutils import escape, unescape

from simweb.features import Feature
from simweb.reply import Reply, answer, head

ORPHANS = 3  # of each host with a sitemap
_XML = '<?xml version="1.0" encoding="UTF-8"?>\n'
_XMLNS = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
_LASTMOD = "2026-05-04T03:02:01+00:00"
_DATED = re.compile(rb"(<loc>([^<]+)</loc><lastmod>)[^<]{%d}" % len(_LASTMOD))


@dataclass(frozen=True, slots=True)
class MapRequest:
    """The values from which the files of one host are made."""

    url: Callable[[int], str]  # of a file, by its step
    elsewhere: str  # file 0, served by another host
    pages: Sequence[str]  # some URLs of the host that pages link to
    orphans: Sequence[str]  # those that only the sitemap gives
    ghosts: Sequence[str]  # URLs of another host, which do not exist


@dataclass(frozen=True, slots=True)
class Maps:
    """The files of one host, by step; and the URLs of its robots.txt's Sitemap lines."""

    replies: Sequence[Reply] = ()
    named: Sequence[str] = ()
    rules: Sequence[tuple[bool, str]] = ()  # more of its robots.txt


@dataclass(frozen=True)
class MapKind(Feature):
    """`sound`: a crawler must find the orphans. `moves`: another host serves the file."""

    family = "map"
    make: Callable[[MapRequest], Maps]
    _: KW_ONLY
    moves: bool = False


def urlset(urls: Sequence[str]) -> bytes:
    each = (f"<url><loc>{escape(url)}</loc><lastmod>{_LASTMOD}</lastmod></url>\n" for url in urls)
    return f"{_XML}<urlset {_XMLNS}>\n{''.join(each)}</urlset>\n".encode()


def index(urls: Sequence[str]) -> bytes:
    each = (f"<sitemap><loc>{escape(url)}</loc></sitemap>\n" for url in urls)
    return f"{_XML}<sitemapindex {_XMLNS}>\n{''.join(each)}</sitemapindex>\n".encode()


def dated(reply: Reply, changed_time: Callable[[str], float]) -> Reply:
    """`reply` with the times, in UTC, at which its URLs changed. Only of a plain sitemap."""

    def entry(found: re.Match[bytes]) -> bytes:
        date = datetime.fromtimestamp(changed_time(unescape(found[2].decode())), UTC)
        return found[1] + date.isoformat(timespec="seconds").encode()

    if not isinstance(reply.body, tuple):
        return reply
    parts = (_DATED.sub(entry, part) if isinstance(part, bytes) else part for part in reply.body)
    return replace(reply, body=tuple(parts))


def _rss(urls: Sequence[str]) -> bytes:
    each = "".join(
        f"<item><title><![CDATA[<link>/fantasma/1</link>]]></title><link>{escape(url)}</link>"
        "<pubDate>Mon, 04 May 2026 03:02:01 GMT</pubDate></item>\n"
        for url in urls
    )
    return f'{_XML}<rss version="2.0"><channel><title>n</title>{each}</channel></rss>'.encode()


def _atom(urls: Sequence[str]) -> bytes:
    each = "".join(
        f'<entry><link rel="self" href="/fantasma/2"/><link href="{escape(url)}"/>'
        f"<updated>{_LASTMOD}</updated></entry>\n"
        for url in urls
    )
    return f'{_XML}<feed xmlns="http://www.w3.org/2005/Atom">{each}</feed>'.encode()


def _xml(body: bytes, *fields: str) -> Reply:
    return answer(200, body, *fields, content_type="application/xml")


def _gzip(body: bytes) -> Reply:
    return answer(200, gzip.compress(body, 1, mtime=0), content_type="application/x-gzip")


def _all(request: MapRequest) -> list[str]:
    return [*request.pages, *request.orphans]


def _one(request: MapRequest, file: Reply) -> Maps:
    return Maps((file,), (request.url(0),))


def _file(make: Callable[[list[str]], Reply]) -> Callable[[MapRequest], Maps]:
    """One file with all URLs of the host."""
    return lambda request: _one(request, make(_all(request)))


def _of_index(request: MapRequest) -> Maps:
    """An index of three files, one of them an index too, and of a file that is not there."""
    names = [request.url(step) for step in (1, 2, 9)]
    inner = [request.url(3), request.ghosts[0]]
    files = (
        _xml(index([*names, request.ghosts[0]])),
        _gzip(urlset(request.orphans[:1])),
        _xml(index(inner)),
        answer(200, "\n".join(request.orphans[1:]).encode(), content_type="text/plain"),
    )
    return Maps(files, (request.url(0),))


def _prefixed(urls: Sequence[str]) -> Reply:
    """Prefixes, CDATA, comments, images: and an unescaped & in the next element."""
    each = "".join(
        f"<!-- <s:loc>/fantasma/3</s:loc> --><s:url><s:loc><![CDATA[ {url} ]]></s:loc>"
        "<image:image><image:loc>http://x/fantasma/4</image:loc></image:image>"
        "<s:note>a & b</s:note></s:url>"
        for url in urls
    )
    return _xml(f'\n\n{_XML}<s:urlset xmlns:s="x">{each}</s:urlset>'.encode())


def _moved(request: MapRequest) -> Maps:
    to = answer(302, b"moved", f"Location: {request.url(1)}")
    return Maps((to, _xml(urlset(_all(request)))), (request.url(0),))


def _elsewhere(request: MapRequest) -> Maps:
    """Another host has the file: its URLs count since this host's robots.txt names it."""
    return Maps((_xml(urlset([*_all(request), *request.ghosts])),), (request.elsewhere,))


def _foreign(request: MapRequest) -> Maps:
    return _one(request, _xml(urlset([*request.ghosts, *_all(request)])))


def _twice(request: MapRequest) -> Maps:
    """Named by two lines of robots.txt, in two spellings, and by its own index."""
    files = (_xml(urlset(_all(request))), _xml(index([request.url(0), request.url(1)])))
    return Maps(files, (request.url(0), request.url(0) + "#x", request.url(1)))


def _flaky(request: MapRequest) -> Maps:
    """404 for one file; the other one is cut off in its middle, behind the orphans."""
    body = urlset([*request.orphans, *request.pages])
    cut = head(200, "Content-Type: text/xml", f"Content-Length: {len(body) + 999}")
    replies = (answer(404, b"no"), Reply(200, cut, (body[:-20],), end="close"))
    return Maps(replies, (request.url(0), request.url(1)))


def _disallowed(request: MapRequest) -> Maps:
    return replace(_one(request, _xml(urlset(_all(request)))), rules=[(False, "/mapa-")])


# Hostile files. The orphans come first in each.


def _bomb(urls: Sequence[str]) -> Reply:
    """1 GiB of blanks in 1 MiB of gzip."""
    blanks = gzip.compress(b" " * (16 << 20), 9, mtime=0)
    body = gzip.compress(_begun(urls), 1, mtime=0) + blanks * 64
    return answer(200, body, content_type="application/gzip")


def _entities(urls: Sequence[str]) -> Reply:
    """Nine levels of ten entities each, and one of a local file."""
    levels = "".join(f'<!ENTITY e{n + 1} "{f"&e{n};" * 10}">' for n in range(9))
    types = f'<!DOCTYPE urlset [<!ENTITY e0 "x">{levels}<!ENTITY f SYSTEM "file:///etc/passwd">]>'
    url = f"<url><loc>{urls[0]}&e9;</loc></url><url><loc>http://x/&f;</loc></url>"
    return _xml(f"{_XML}{types}<urlset {_XMLNS}>{url}</urlset>".encode())


def _endless(urls: Sequence[str]) -> Reply:
    """100 MiB without a length: the same URL again and again."""
    more = f"<url><loc>{urls[0]}</loc></url>\n".encode() * 4096
    start = head(200, "Content-Type: text/xml")
    count = (100 << 20) // len(more)
    return Reply(200, start, (_begun(urls), *repeat(more, count)), end="close")


def _deep(request: MapRequest) -> Maps:
    """An index of an index of an index, and so on; the last one names the first."""
    steps = 12
    files = [_xml(index([request.url((step + 1) % steps)])) for step in range(steps)]
    return Maps(files, (request.url(0),))


def _garbage(request: MapRequest) -> Maps:
    """An HTML page, and bytes that are nothing."""
    page = answer(200, b"<!doctype html><title>Oi</title><a href='/fantasma/5'>x</a>")
    return Maps((page, _xml(bytes(range(256)) * 40)), (request.url(0), request.url(1)))


def _nested(urls: Sequence[str]) -> Reply:
    """Elements 100,000 deep, behind the orphans."""
    return _xml(_begun(urls) + b"<url>" * 100_000)


def _begun(urls: Sequence[str]) -> bytes:
    """A sitemap without its end."""
    return urlset(urls).removesuffix(b"</urlset>\n")


def _coded(urls: Sequence[str]) -> Reply:
    twice = gzip.compress(gzip.compress(urlset(urls), 1, mtime=0), mtime=0)
    return _xml(twice, "Content-Encoding: gzip")


def _text(urls: Sequence[str]) -> Reply:
    return _xml("\r\n".join(["", *urls, "x"]).encode("utf-8-sig"))


_row = partial(MapKind, default=False)
SITEMAPS = (
    MapKind("none", 5, "no sitemap", lambda request: Maps()),
    _row("plain", 5, "a sitemap", _file(lambda urls: _xml(urlset(urls)))),
    _row("gzip", 5, "a gzip file", _file(lambda urls: _gzip(urlset(urls)))),
    _row("coded", 5, "a gzip file with the content coding gzip", _file(_coded)),
    _row("text", 5, "a list", _file(_text)),
    _row("rss", 5, "RSS", _file(lambda urls: _xml(_rss(urls)))),
    _row("atom", 5, "Atom", _file(lambda urls: _xml(_atom(urls)))),
    _row("utf16", 5, "UTF-16", _file(lambda urls: _xml(urlset(urls).decode().encode("utf-16")))),
    _row("prefixed", 5, "prefixes, CDATA, comments, ill-formed", _file(_prefixed)),
    _row("index", 5, "an index, with gzip, text and another index", _of_index),
    _row("moved", 5, "a redirect to the sitemap", _moved),
    _row("elsewhere", 5, "on another host, named by robots.txt", _elsewhere, moves=True),
    _row("foreign", 5, "lists URLs of another host, without leave", _foreign),
    _row("twice", 5, "named twice, and by an index that names itself", _twice),
    _row("flaky", 5, "one file is 404, the other cut off", _flaky),
    _row("disallowed", 5, "robots.txt disallows it", _disallowed, sound=False),
    _row("bomb", 5, "1 GiB in 1 MiB of gzip", _file(_bomb)),
    _row("entities", 5, "an entity bomb, and an external entity", _file(_entities), sound=False),
    _row("endless", 5, "100 MiB of entries", _file(_endless)),
    _row("deep", 5, "indexes of indexes, for ever", _deep, sound=False),
    _row("garbage", 5, "HTML, and random bytes", _garbage, sound=False),
    _row("nested", 5, "elements 100,000 deep", _file(_nested)),
)
