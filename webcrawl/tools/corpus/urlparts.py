"""The columns of a URL. Names and meaning are Common Crawl's (cc-index-table)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from webcrawl.parse.domains import CACHED_HOSTS, domain_and_suffix

_URL = re.compile(
    r"(https?)://(?:[^/?#@]*@)?(\[[0-9a-f:.]*\]|[^/?#:]*)(?::(\d{0,5}))?([^?#]*)(?:\?([^#]*))?",
    re.IGNORECASE,
)
_IPV4 = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")


class HostParts(NamedTuple):
    """None where an address has no such part."""

    tld: str | None
    registered_domain: str | None
    reversed: str | None


class UrlParts(NamedTuple):
    """`port` and `query`: None if the URL has none."""

    protocol: str
    host: str
    port: int | None
    path: str
    query: str | None


def url_parts(url: str) -> UrlParts | None:
    """None if `url` is not http(s) or has no host. O(length)."""
    parts = _URL.match(url)
    if parts is None or not parts[2]:
        return None
    port = int(parts[3]) if parts[3] else None
    return UrlParts(parts[1].lower(), parts[2].lower().rstrip("."), port, parts[4], parts[5])


@lru_cache(CACHED_HOSTS)
def host_parts(host: str) -> HostParts:
    """The parts of `host`, in lower case; an IPv6 address has brackets."""
    if host[:1] == "[" or _IPV4.fullmatch(host):
        return HostParts(None, None, None)
    labels = host.split(".")
    domain, suffix = domain_and_suffix(host)
    has_domain = suffix and domain != suffix
    return HostParts(labels[-1], domain if has_domain else None, ".".join(reversed(labels)))
