"""The bytes of a request. Invalid parts of its head are refused or replaced.

Names and values may come from pages, through a spider. With a line end in one of them a page could
begin a request of its own (request smuggling) that ignores robots.txt and delays. A method, target,
Host or header name that breaks the grammar is refused: any repair would change its meaning. In a
value CR, LF and NUL become a space: RFC 9110, 5.5 allows this, and Scrapy's own handler does it.
"""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct

from webcrawl.fetch.http1 import Headers

_URL = re.compile(r"http(s?)://(?:[^/?#]*@)?(\[[^\]]+\]|[^/?#:]+)(?::(\d*))?([^#]*)", re.IGNORECASE)
# Whether a text is ASCII without spaces and controls (RFC 5234: VCHAR).
is_visible = re.compile(r"[!-~]*").fullmatch
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+").fullmatch  # RFC 9110, 5.6.2
_LINE_ENDS = re.compile(rb"[\r\n\0]+")
_OURS = frozenset({b"connection", b"content-length", b"transfer-encoding"})
_WITH_BODY = ("POST", "PUT", "PATCH")


class UnsendableError(ValueError):
    """A request that is not valid HTTP: it was not sent, and no server is to blame."""


class Target(Struct, frozen=True, gc=False):
    """The parts of a URL: `host` as the URL has it, without brackets."""

    secure: bool
    host: str
    port: int
    netloc: str  # for the Host header: with the port only if it is not the default
    path: str  # with the query; never empty


def split_url(url: str) -> Target:
    """The parts of an absolute http or https URL; ValueError for any other. 1 µs."""
    match = _URL.match(url)
    if match is None:
        raise ValueError(f"not an http or https URL: {url!r}")
    secure, host, port, path = match.groups()
    default = 443 if secure else 80
    number = int(port or default)
    return Target(
        secure=bool(secure),
        host=host[1:-1] if host[0] == "[" else host,
        port=number,
        netloc=host if number == default else f"{host}:{number}",
        path=path if path[:1] == "/" else "/" + path,
    )


def build_request(
    method: str,
    target: Target,
    headers: Headers,
    body: bytes,
    *,
    keep: bool = False,
    absolute: bool = False,
) -> bytes:
    """The bytes of the request (RFC 9112, 3 and 6). Raises UnsendableError.

    `headers` are sent as given, without those of connection and framing, which the client sets.
    Host is added if missing. POST, PUT and PATCH have a Content-Length even for an empty body
    (RFC 9110, 8.6). `absolute`: with the whole URL, for a proxy (RFC 9112, 3.2.2).
    """
    place = f"http://{target.netloc}{target.path}" if absolute else target.path
    check_target(method, place, target.netloc)
    lines, has_host = _header_lines(tuple(headers))
    host = "" if has_host else f"Host: {target.netloc}\r\n"
    return b"%b%b%bConnection: %b\r\n\r\n%b" % (
        f"{method} {place} HTTP/1.1\r\n{host}".encode(),
        lines,
        b"Content-Length: %d\r\n" % len(body) if body or method in _WITH_BODY else b"",
        b"keep-alive" if keep else b"close",
        body,
    )


def check_target(method: str, place: str, netloc: str) -> None:
    """UnsendableError if the request line (RFC 9112, 3) or the Host header would be invalid."""
    if not _is_method(method):
        raise UnsendableError(f"the method {method!r} is no token")
    if not is_visible(place):
        raise UnsendableError(f"the URL has a space, a control or a raw character: {place!r}")
    if not is_visible(netloc):
        raise UnsendableError(f"the host has a space, a control or a raw character: {netloc!r}")


def header_line(name: bytes, value: bytes) -> bytes:
    """`name: value`; b"" for a header that the client sets itself. Raises UnsendableError."""
    if not is_name(name):
        raise UnsendableError(f"the header name {name!r} is no token")
    return b"" if name.lower() in _OURS else b"%b: %b" % (name, one_line(value))


def one_line(value: bytes) -> bytes:
    """`value` with a space in place of CR, LF and NUL, stripped if it had any."""
    if b"\n" in value or b"\r" in value or b"\0" in value:
        return _LINE_ENDS.sub(b" ", value).strip()
    return value


def is_name(name: bytes) -> bool:
    return _TOKEN(name) is not None


def is_set_by_client(name: bytes) -> bool:
    """Whether the client sets the header `name` itself, whatever a request has."""
    return name.lower() in _OURS or name.lower() == b"host"


@lru_cache(64)
def _is_method(method: str) -> bool:
    return method.isascii() and is_name(method.encode())


@lru_cache(16)  # most requests have the headers of the crawl, for pages or for robots.txt
def _header_lines(headers: tuple[tuple[bytes, bytes], ...]) -> tuple[bytes, bool]:
    """All lines of `headers`, and whether there is a Host. Raises UnsendableError."""
    lines = [line + b"\r\n" for header in headers if (line := header_line(*header))]
    return b"".join(lines), any(name.lower() == b"host" for name, _ in headers)
