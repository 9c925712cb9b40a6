"""The canonical form of a URL, and slices of it."""

from __future__ import annotations

from collections.abc import Iterable

from url import URL, URLError


def canonicalize(url: str, base: str | None = None) -> str | None:
    """The canonical absolute http(s) URL, or None when there is none."""
    try:
        parsed = URL.parse(base).join(url) if base else URL.parse(url)
    except URLError:
        return None
    text = str(parsed.with_fragment(None))
    return text if text.startswith(("http://", "https://")) else None


def canonicalize_many(hrefs: Iterable[str], base: str) -> list[str]:
    """The canonical forms of a page's links, each once, in order; unusable ones left out."""
    return [u for u in dict.fromkeys(canonicalize(href, base) for href in hrefs) if u]


def _authority(url: str) -> str:
    return url[url.index("//") + 2 :].partition("/")[0]


def host_of(url: str) -> str:
    """Host of a canonical URL; an IPv6 literal without its brackets."""
    authority = _authority(url)
    if authority.startswith("["):
        return authority[1 : authority.index("]")]
    return authority.partition(":")[0]


def origin_of(url: str) -> str:
    """Scheme and authority of a canonical URL: "http://h:8080"."""
    return url[: url.index("/", 8)]


def target_of(url: str) -> str:
    """Path and query of a canonical URL, from the first slash."""
    return url[url.index("/", 8) :]


def scheme_of(url: str) -> str:
    """Scheme of a canonical URL: "http" or "https"."""
    return url[: url.index(":")]


def port_of(url: str) -> int:
    """Port of a canonical URL."""
    port = _authority(url).rpartition("]")[2].rpartition(":")[2]
    if port.isdigit() and ":" in _authority(url).rpartition("]")[2]:
        return int(port)
    return 443 if url.startswith("https") else 80


def level_of(url: str) -> int:
    """1 plus the number of words in the path, at most 10."""
    path = target_of(url).partition("?")[0]
    return min(10, 1 + sum(map(bool, path.split("/"))))
