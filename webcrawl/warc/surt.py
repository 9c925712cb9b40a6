"""The sort-friendly form of a URL (SURT): the key under which pywb looks a capture up.

`http://www.example.com/Path/?b=2&a=1` becomes `com,example)/path?a=1&b=2`. Several URLs have the
same key: http and https, with and without `www.`, any case of letters, any order of the query.

The key must be the one of the library `surt` 0.3, which pywb and cdxj-indexer use: pywb does not
find a capture under another key. This is our own code: `surt` takes 20 to 30 µs per URL (this
module 2 to 5), is under the AGPL, and looks some hosts up in the DNS. Tests compare both.

Deviation: a host of numbers that is no IPv4 address stays as it is; `surt` asks the DNS. Such a
host is in no URL that the URL standard accepts.

Cost: linear in the length of the URL, except for session ids and escapes of escapes, which are
quadratic: 1 ms at most for a URL of URLLENGTH_LIMIT whose host is in ASCII, as it is in each URL of
the frontier. No I/O.
"""

from __future__ import annotations

import re
import socket
from itertools import product
from urllib.parse import SplitResultBytes, quote_from_bytes

_URL = re.compile(
    rb"(?:([a-zA-Z][a-zA-Z0-9+.-]*):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#.*)?", re.DOTALL
)
# Nearly all URLs: a host whose last label begins with a letter, no escapes, no session.
_PLAIN = re.compile(
    rb"(https?)://(?:www\d*\.)?((?:[a-z0-9_-]+\.)*[a-z][a-z0-9_-]*)(?::([1-9]\d{0,3}|[1-5]\d{4}))?"
    rb"(/[!-\"$&->@-~]*)(?:\?([!-\"$&-~]+))?"
)
_SCHEME = re.compile(rb"[a-zA-Z][a-zA-Z0-9+.-]*:")
_SCHEMES = re.compile(rb"(?:https?://)*(https?://)")
_AUTHORITY = re.compile(rb"([a-zA-Z0-9_.-]+)(?::([0-9]{0,5}))?")  # of nearly all URLs
_DEFAULT_PORTS = {b"http": 80, b"https": 443}
_WWW = re.compile(rb"www\d*\.")
_IPV4 = re.compile(rb"0[0-7]*(?:\.[0-7]+){1,3}|[1-9]\d*(?:\.\d+){1,3}")
_HEX = "0123456789abcdefABCDEF"
_UNESCAPED = {
    (first + second).encode(): bytes((int(first + second, 16),))
    for first, second in product(_HEX, repeat=2)
}
# Characters that stand for themselves: printable ASCII without space, "#" and "%".
_SAFE = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in "#%")
_ESCAPE = re.compile(rb"[^\x21-\x7e]|[#%]")

# Session ids. In a path: the folders that ASP.NET inserts.
_PATH_SESSIONS = tuple(
    re.compile(rb"(.*/)%b/([^?]+\.aspx.*)" % each)
    for each in (rb"\((?:[a-z]\([0-9a-z]{24}\))+\)", rb"\([0-9a-z]{24}\)")
)
_QUERY_SESSIONS = tuple(
    re.compile(rb"(.*)%b(?:&(.*))?" % each)
    for each in (
        rb"jsessionid=[0-9a-z]{32}",
        rb"phpsessid=[0-9a-z]{32}",
        rb"sid=[0-9a-z]{32}",
        rb"aspsessionid[a-z]{8}=[a-z]{24}",
        rb"cfid=[^&]+&cftoken=[^&]+",
    )
)
_MAY_HAVE_SESSION = re.compile(rb"sid=|sessionid|cftoken=")


def surt(url: str) -> str:
    """The key of `url`. A URL that cannot be taken apart is its own key."""
    try:
        return _key(url.encode()).decode("ascii")
    except ValueError:  # a port that is no number, a lone surrogate
        return url


def _key(url: bytes) -> bytes:
    if plain := _PLAIN.fullmatch(url):
        scheme, host, port, path, query = plain.groups()
        end = b":%b)" % port if port and int(port) != _DEFAULT_PORTS[scheme] else b")"
        key = b",".join(host.split(b".")[::-1]) + end + _finished_path(_without_dots(path).lower())
        query = _finished_query(query.lower()) if query else b""
        return key + b"?" + query if query else key
    url = url.strip().translate(None, b"\n\r\t")
    if not url:
        raise ValueError
    if not _SCHEME.match(url):
        url = b"http://" + url
    if schemes := _SCHEMES.match(url):  # http://https://host/
        url = url[schemes.start(1) :]
    parts = _URL.fullmatch(url)
    assert parts is not None
    scheme, netloc, path, query = parts.groups()
    host, port = _authority(netloc or b"")
    if not host and path and scheme.startswith(b"http"):  # http:////host/path
        host, _, path = path.lstrip(b"/").partition(b"/")
        path = b"/" + path
    host = _host(host) if host else b""
    key = _reversed(host, scheme) if host else scheme + b":"
    if host and port and port != _DEFAULT_PORTS.get(scheme.lower(), 0):
        key += b":%d" % port
    path = _path(path, is_below_host=bool(host))
    query = _finished_query(_escaped(_unescaped(query)).lower()) if query else b""
    end = b"?" + query if query else b""
    return b"".join((key, b")" if host else b"", path or (b"/" if end else b""), end))


def _authority(netloc: bytes) -> tuple[bytes, int]:
    """Host in lower case, and port; b"" and 0 where they are missing. ValueError."""
    if plain := _AUTHORITY.fullmatch(netloc):
        host, port = plain[1].lower(), int(plain[2] or 0)
        if port > 0xFFFF:
            raise ValueError
        return host, port
    split = SplitResultBytes(b"", netloc.rstrip(b":"), b"", b"", b"")
    return split.hostname or b"", split.port or 0


def _host(host: bytes) -> bytes:
    host = _unescaped(host)
    if not host.isascii():
        try:
            host = host.decode("utf-8", "ignore").encode("idna")
        except ValueError:
            pass
    host = host.replace(b"..", b".").strip(b".")
    if host.isdigit():
        return socket.inet_ntoa((int(host) & 0xFFFFFFFF).to_bytes(4)).encode()
    if _IPV4.fullmatch(host):
        try:
            return socket.inet_ntoa(socket.inet_aton(host.decode())).encode()
        except OSError:
            return host
    return _escaped(host.lower()).lower()


def _reversed(host: bytes, scheme: bytes) -> bytes:
    if scheme != b"dns" and (www := _WWW.match(host)):
        host = host[www.end() :]
    return b",".join(host.split(b".")[::-1])


def _path(path: bytes, is_below_host: bool) -> bytes:
    path = _unescaped(path)
    if is_below_host:
        path = _without_dots(path or b"/")
    return _finished_path(_escaped(path).lower())


def _finished_path(path: bytes) -> bytes:
    """`path`, in lower case, without session ids and without a slash at its end."""
    if b".aspx" in path:
        for session in _PATH_SESSIONS:
            if found := session.fullmatch(path):
                path = found[1] + found[2]
    return path[:-1] if len(path) > 1 and path.endswith(b"/") else path


def _without_dots(path: bytes) -> bytes:
    """`path` without empty segments, "." and "..". A ".." with nothing before it stays."""
    if b"//" not in path and b"/." not in path:
        return path
    kept: list[bytes] = []
    for segment in path.split(b"/")[1:]:
        if segment == b"..":
            if kept:
                kept.pop()
            else:
                kept.append(segment)
        elif segment != b".":
            kept.append(segment)
    if not kept:
        return b"/"
    *folders, last = kept
    return b"/" + b"".join(folder + b"/" for folder in folders if folder) + last


def _finished_query(query: bytes) -> bytes:
    """`query`, in lower case, without session ids, and with its arguments in order."""
    if _MAY_HAVE_SESSION.search(query):
        for session in _QUERY_SESSIONS:
            if found := session.fullmatch(query):
                query = found[1] + (found[2] or b"")
    if b"&" not in query:
        return query
    return b"&".join([b"=".join(pair) for pair in sorted(_pairs(query))])


def _pairs(query: bytes) -> list[list[bytes]]:
    return [argument.split(b"=", 1) for argument in query.split(b"&")]


def _escaped(data: bytes) -> bytes:
    return quote_from_bytes(data, _SAFE).encode() if _ESCAPE.search(data) else data


def _unescaped(data: bytes) -> bytes:
    """`data` without percent-encoding, also without encoded encoding: `%2541` becomes `A`.

    From the right to the left: what an escape becomes may be the "%" of an escape.
    """
    if b"%" not in data:
        return data
    first, *rest = data.split(b"%")
    tail = b""
    for part in reversed(rest):
        tail = part + tail
        while (char := _UNESCAPED.get(tail[:2], b"")) == b"%":
            tail = tail[2:]
        tail = char + tail[2:] if char else b"%" + tail
    return first + tail
