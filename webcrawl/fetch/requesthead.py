"""The head of a request as it goes on the wire: what cannot stand there is refused or blanked.

Names and values may come from pages by way of a spider. A line end in one of them would begin a
request of the page's choice (request smuggling), past robots.txt and delays. Method, target, Host
and header names that break the grammar are refused, as there is no other name that they mean. In a
value CR, LF and NUL become a space: RFC 9110, 5.5 allows it, and Scrapy's own handler does it.
"""

from __future__ import annotations

import re
from functools import lru_cache

_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+").fullmatch  # RFC 9110, 5.6.2
_LINE_ENDS = re.compile(rb"[\r\n\0]+")
_OURS = frozenset({b"connection", b"content-length", b"transfer-encoding"})
_SMALL = 512  # bytes of a value that is kept, so that all kept are half a MB at most


class UnsendableError(ValueError):
    """A request that is no HTTP. It was not sent, and no server is to blame."""


def request_line(method: str, path: str) -> bytes:
    """RFC 9112, 3. Raises UnsendableError."""
    if not _is_method(method):
        raise UnsendableError(f"the method {method!r} is no token")
    if not is_visible(path):
        raise UnsendableError(f"the URL has a space, a control or a raw character: {path!r}")
    return f"{method} {path} HTTP/1.1".encode()


def host_line(netloc: str) -> bytes:
    """The Host of a URL. Raises UnsendableError."""
    if not is_visible(netloc):
        raise UnsendableError(f"the host has a space, a control or a raw character: {netloc!r}")
    return b"Host: " + netloc.encode()


def header_line(name: bytes, value: bytes) -> bytes:
    """`name: value`, empty for those that the client writes itself. Raises UnsendableError."""
    return _kept_line(name, value) if len(value) <= _SMALL else _line(name, value)


def one_line(value: bytes) -> bytes:
    """`value` with a space for CR, LF and NUL; none at the ends."""
    if b"\n" in value or b"\r" in value or b"\0" in value:
        return _LINE_ENDS.sub(b" ", value).strip()
    return value


def is_visible(text: str) -> bool:
    """Whether `text` is ASCII without spaces and controls (RFC 5234: VCHAR)."""
    return text.isascii() and text.isprintable() and " " not in text


def is_name(name: bytes) -> bool:
    return _TOKEN(name) is not None


@lru_cache(64)
def _is_method(method: str) -> bool:
    return method.isascii() and is_name(method.encode())


def _line(name: bytes, value: bytes) -> bytes:
    if not is_name(name):
        raise UnsendableError(f"the header name {name!r} is no token")
    return b"" if name.lower() in _OURS else b"%b: %b" % (name, one_line(value))


_kept_line = lru_cache(1024)(_line)
