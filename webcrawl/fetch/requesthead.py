"""The bytes of a request. Invalid parts of its head are refused or replaced.

Names and values may come from pages, through a spider. With a line end in one of them a page could
begin a request of its own (request smuggling) that ignores robots.txt and delays. A method, target,
Host or header name that breaks the grammar is refused: any repair would change its meaning. In a
value CR, LF and NUL become a space: RFC 9110, 5.5 allows this, and Scrapy's own handler does it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from webcrawl.fetch.http1 import Headers

_URL = re.compile(r"(https?)://(?:[^/?#]*@)?(\[[^\]]+\]|[^/?#:]+)(?::(\d*))?([^#]*)", re.IGNORECASE)
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+").fullmatch  # RFC 9110, 5.6.2
_LINE_ENDS = re.compile(rb"[\r\n\0]+")
_OURS = frozenset({b"connection", b"content-length", b"transfer-encoding"})
_SMALL = 512  # longest value whose line is cached, so that the cache has half a MB at most


class UnsendableError(ValueError):
    """A request that is not valid HTTP: it was not sent, and no server is to blame."""


class Target(NamedTuple):
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
    scheme, host, port, path = match.groups()
    secure = scheme.lower() == "https"
    default = 443 if secure else 80
    number = int(port or default)
    return Target(
        secure=secure,
        host=host[1:-1] if host.startswith("[") else host,
        port=number,
        netloc=host if number == default else f"{host}:{number}",
        path=path if path.startswith("/") else "/" + path,
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
    lines = [request_line(method, place), host_line(target.netloc)]
    if any(name.lower() == b"host" for name, _ in headers):
        del lines[1]
    lines += [line for header in headers if (line := header_line(*header))]
    if body or method in ("POST", "PUT", "PATCH"):
        lines.append(b"Content-Length: %d" % len(body))
    lines.append(b"Connection: keep-alive\r\n\r\n" if keep else b"Connection: close\r\n\r\n")
    return b"\r\n".join(lines) + body


def request_line(method: str, path: str) -> bytes:
    """RFC 9112, 3. Raises UnsendableError."""
    if not _is_method(method):
        raise UnsendableError(f"the method {method!r} is no token")
    if not is_visible(path):
        raise UnsendableError(f"the URL has a space, a control or a raw character: {path!r}")
    return f"{method} {path} HTTP/1.1".encode()


def host_line(netloc: str) -> bytes:
    """The Host header of a URL. Raises UnsendableError."""
    if not is_visible(netloc):
        raise UnsendableError(f"the host has a space, a control or a raw character: {netloc!r}")
    return b"Host: " + netloc.encode()


def header_line(name: bytes, value: bytes) -> bytes:
    """`name: value`; b"" for a header that the client sets itself. Raises UnsendableError."""
    return _cached_line(name, value) if len(value) <= _SMALL else _line(name, value)


def one_line(value: bytes) -> bytes:
    """`value` with a space in place of CR, LF and NUL, stripped if it had any."""
    if b"\n" in value or b"\r" in value or b"\0" in value:
        return _LINE_ENDS.sub(b" ", value).strip()
    return value


def is_visible(text: str) -> bool:
    """Whether `text` is ASCII without spaces and controls (RFC 5234: VCHAR)."""
    return text.isascii() and text.isprintable() and " " not in text


def is_name(name: bytes) -> bool:
    return _TOKEN(name) is not None


def is_set_by_client(name: bytes) -> bool:
    """Whether the client sets the header `name` itself, whatever a request has."""
    return name.lower() in _OURS or name.lower() == b"host"


@lru_cache(64)
def _is_method(method: str) -> bool:
    return method.isascii() and is_name(method.encode())


def _line(name: bytes, value: bytes) -> bytes:
    if not is_name(name):
        raise UnsendableError(f"the header name {name!r} is no token")
    return b"" if name.lower() in _OURS else b"%b: %b" % (name, one_line(value))


_cached_line = lru_cache(1024)(_line)
