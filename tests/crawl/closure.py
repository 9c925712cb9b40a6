"""Computes from the files of real sites which URLs a crawl of them must fetch.

An independent check: it shares no code with the crawler. selectolax (an HTML5 parser in C) reads
the pages, `urllib.parse` splits URLs, and nginx's answers are computed from the file system.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote, unquote_to_bytes, urlsplit

from selectolax.lexbor import LexborHTMLParser

from tests.crawl.realsites import TYPES, RealWeb, Site

_TYPE_OF = {f".{name}": kind for kind, names in TYPES.items() for name in names}
_PAGES = ("text/html", "application/xhtml+xml")
_CHARSET = re.compile(rb"""<meta[^>]*charset\s*=\s*["']?([\w-]+)""", re.IGNORECASE)
_REFRESH = re.compile(r"\s*[\d.]+\s*[;,]\s*(?:url\s*=\s*)?[\"']?([^\"']*)", re.IGNORECASE)
_ESCAPE = re.compile("(?:%[0-9A-Fa-f]{2})+")
_LINKS = "a[href], area[href], link[href], frame[src], iframe[src], meta[content]"


@dataclass(frozen=True)
class Reply:
    """nginx's answer to one URL. `kind` is the media type of a 200."""

    status: int
    kind: str = ""
    file: Path | None = None
    location: str = ""

    @property
    def is_page(self) -> bool:
        return self.kind in _PAGES

    @property
    def is_kept(self) -> bool:
        """Whether a crawl archives it: any answer except a body of another media type."""
        return self.status != 200 or self.is_page

    def body(self) -> bytes:
        assert self.file
        return self.file.read_bytes()


class Closure:
    """The URLs reachable from `seeds`; `replies` has nginx's reply to each."""

    def __init__(self, sites: Mapping[str, tuple[Site, Path]], seeds: Iterable[str]) -> None:
        self._sites = sites  # by origin, with the folder of the files
        self.replies: dict[str, Reply] = {}
        todo = [normal(seed) for seed in seeds]
        while todo:
            url = todo.pop()
            if url not in self.replies and self._origin(url) in sites:
                self.replies[url] = self.reply(url)
                todo += self._links(url, self.replies[url])

    def reply(self, url: str) -> Reply:
        """nginx's reply to the normalised `url`: its index, try_files and types modules."""
        site, root = self._sites[self._origin(url)]
        path = re.sub("/+", "/", unquote_to_bytes(urlsplit(url).path).decode("utf-8", "replace"))
        file = root / path.removeprefix("/")
        if path.endswith("/"):
            if not file.is_dir():
                return Reply(404)
            files = [file / "index.html", file / f"index.html{site.suffix}"]
            status = 403
        else:
            files = [file, file.with_name(file.name + site.suffix)]
            if file.is_dir():
                return Reply(301, location=self._origin(url) + quote(path) + "/")
            status = 404
        for each in files:
            if each.is_file():
                extension = each.suffix if each.suffix != site.suffix else ".html"
                return Reply(200, _TYPE_OF.get(extension.lower(), "application/octet-stream"), each)
        return Reply(status)

    def _links(self, url: str, reply: Reply) -> Iterable[str]:
        if reply.location:
            return [normal(reply.location)]
        if not reply.is_page:
            return []
        return links(reply.body(), url)

    @staticmethod
    def _origin(url: str) -> str:
        return url[: url.index("/", 8)]


def links(body: bytes, url: str) -> list[str]:
    """The links of the page at `url`, normalised, each once. Empty if it says nofollow."""
    page = LexborHTMLParser(_text(body))
    bases = [node.attributes.get("href") for node in page.css("base[href]")]
    base = _joined(url, _trimmed(bases[0])) if bases else ""
    found: dict[str, None] = {}
    for node in page.css(_LINKS):
        for href in _targets(node.tag, node.attributes):
            if href is None:
                return []
            found[href] = None
    targets = (_joined(base or url, _trimmed(href).replace("\\", "/")) for href in found)
    return list(dict.fromkeys(target for target in targets if target))


def _targets(tag: str | None, attributes: Mapping[str, str | None]) -> Iterator[str | None]:
    """The targets of one element; None for "follow nothing"."""
    if tag == "meta":
        content = attributes.get("content") or ""
        if (attributes.get("name") or "").lower() == "robots":
            if {"nofollow", "none"} & set(content.lower().replace(",", " ").split()):
                yield None
        elif (attributes.get("http-equiv") or "").lower() == "refresh":
            refresh = _REFRESH.match(content)
            if refresh and refresh[1]:
                yield refresh[1]
    elif tag == "link":
        if {"canonical", "next", "prev"} & set((attributes.get("rel") or "").lower().split()):
            yield attributes["href"] or ""
    else:
        yield attributes["src" if tag in ("frame", "iframe") else "href"] or ""


def _joined(base: str, href: str) -> str:
    """`href`, resolved and normalised; "" if it is not an http(s) URL. RFC 3986, 5.2.2.

    Not `urljoin`, which drops empty segments: in "a//b" they are part of the path.
    """
    try:
        target, start = urlsplit(href), urlsplit(base)
        scheme, host = target.scheme or start.scheme, target.netloc or start.netloc
        if scheme not in ("http", "https"):
            return ""
        path, query = target.path, target.query
        if not target.netloc and not path.startswith("/"):
            query = query if path or "?" in href else start.query
            path = start.path[: start.path.rindex("/") + 1] + path if path else start.path
        return normal(f"{scheme}://{host}{path or '/'}?{query}")
    except ValueError:
        return ""


@lru_cache(1 << 16)
def normal(url: str) -> str:
    """One spelling for all spellings of an http(s) URL: no fragment, escapes only where needed."""
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    if parts.port not in (None, {"http": 80, "https": 443}[parts.scheme]):
        host += f":{parts.port}"
    path = quote(unquote_to_bytes(_undotted(parts.path or "/")), safe="/!$&'()*+,;=:@~|[]^")
    query = _ESCAPE.sub(_respelled, quote(parts.query, safe="%/!$&'()*+,;=:@~?|[]^`{}\\"))
    return f"{parts.scheme}://{host}{path}" + (f"?{query.strip('&')}" if query else "")


def _respelled(escape: re.Match[str]) -> str:
    return quote(unquote_to_bytes(escape[0]), safe="")


def _undotted(path: str) -> str:
    """`path` without dot segments (RFC 3986, 5.2.4)."""
    if "/." not in path:
        return path
    kept: list[str] = []
    segments = path.split("/")[1:]
    for segment in segments:
        if segment == "..":
            kept[-1:] = []
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in (".", ".."):
        kept.append("")
    return "/" + "/".join(kept)


def _trimmed(href: str | None) -> str:
    return re.sub(r"[\t\n\r]", "", (href or "").strip(" \t\n\r\f"))


def _text(body: bytes) -> str:
    declared = _CHARSET.search(body[:16_384])
    try:
        charset = codecs.lookup(declared[1].decode()).name if declared else "cp1252"
    except LookupError:
        charset = "cp1252"
    if charset in ("iso8859-1", "ascii"):
        charset = "cp1252"
    return body.decode(charset, "replace")


@dataclass(frozen=True)
class Verdict:
    """The result of a crawl of real sites. All three lists are empty for a good one."""

    replies: Mapping[str, Reply]  # of the URLs that it should fetch
    missing: list[str]
    invented: list[str]  # fetched, although no followed page links to it
    twice: list[str]

    @property
    def pages(self) -> int:
        return sum(reply.is_page for reply in self.replies.values())


def judge(web: RealWeb) -> Verdict:
    """Compare the requests that nginx served with the files."""
    origins = {web.origin(site): (site, site.folder(web.cache)) for site in web.sites}
    hosts = {site.host: web.origin(site) for site in web.sites}
    fetched = Counter(
        normal(hosts[seen.host] + seen.target)
        for seen in web.seen()
        if seen.target != "/robots.txt"
    )
    replies = Closure(origins, web.seeds).replies
    return Verdict(
        replies,
        missing=sorted(replies.keys() - fetched.keys()),
        invented=sorted(fetched.keys() - replies.keys()),
        twice=sorted(url for url, times in fetched.items() if times > 1),
    )
