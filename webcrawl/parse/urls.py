"""The canonical form of an http(s) URL, and slices of it.

Decides whether two spellings mean one page. Pure: no I/O, no state. Every other module relies on
canonical URLs: ASCII, lower-case scheme and host, a path, no fragment, no user info, no default
port, at most MAX_LENGTH characters. The canonical form of a canonical URL is itself.

The rules, in order: the parser of the WHATWG URL Standard (url-py, the only URL parser of this
project: two parsers differ in corner cases and would give one page two names), then RFC 3986,
6.2.2.1 and 6.2.2.2 (upper-case escapes, no escapes of unreserved characters), then these:

- Deviation: the trailing dot of a host is removed (`example.com.` is `example.com`; RFC 1034, 3.1).
- Deviation: the session ids of Heritrix's StripSessionIDs are removed, except the `/(S(...))/` of
  ASP.NET: its server redirects a URL without it to one with it, so the page would be lost.
- Deviation: `&` at either end of the query is removed, and so is an empty query (Heritrix's
  FixupQueryString).

Left as they are, since servers distinguish such URLs: the order of the query, `//` in the path, the
case of the path, `index.html`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain
from urllib.parse import quote_from_bytes

from url import URL, EmptyHost, URLError

from webcrawl.parse.charset import encode_query

# RFC 9110, 4.1: at least 8000 octets. Bounds the work for one href, and the canonical form.
MAX_LENGTH = 8192
# Bounds the canonical links of one page: with a long base, many short links would fill the memory,
# and block the event loop for 30 ns per character.
MAX_PAGE_LENGTH = 32 * 1024 * 1024
MAX_LEVEL = 10
# The number of links of a page tested together, unless they have more characters than this.
_TOGETHER = 1000
_TOGETHER_MAX_LENGTH = 1024 * 1024

_HEX = "0123456789ABCDEFabcdef"
_UNRESERVED = frozenset("-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~")
# Every escape and its canonical form: unreserved characters decoded (RFC 3986, 2.3), other escapes
# in upper case (2.1).
_ESCAPES = {
    f"%{high}{low}": chr(code) if chr(code) in _UNRESERVED else f"%{code:02X}"
    for high in _HEX
    for low in _HEX
    for code in (int(high + low, 16),)
}
# The escapes that change in the canonical form. One behind a stray "%" or "%4" stays: its decoded
# character would complete an escape that the page does not have ("%%34%31" is not "%41").
_ODD_ESCAPE = re.compile(
    r"%(?<!%%)(?<!%[0-9A-Fa-f]%)"
    r"(?:2[DEde]|3[0-9]|[46][1-9A-Fa-f]|[57][0-9Aa]|5[Ff]|7[Ee]|[0-9A-Fa-f][a-f]|[a-f][0-9A-F])"
)
_AUTHORITY = re.compile(r"(https?://)(?:[^/@]*@)?([^/]*?)\.?(:\d+)?(?=/)")
# Servlet 6.0, 7.1.3: a path parameter of this name is a session id, whatever its value.
_SESSION_IN_PATH = re.compile(
    r";(?:jsessionid|phpsessid|aspsessionid[a-z]{8})=[^/;]*", re.IGNORECASE
)
_SESSION_IN_QUERY = re.compile(
    r"(?:^|(?<=&))(?:"
    r"jsessionid=[0-9a-z]{32}(?:[.!][^&]*)?"  # .node or !node: the server of the session
    r"|phpsessid=[0-9a-z,-]*"
    r"|aspsessionid[a-z]{8}=[a-z]{24}"
    r"|sid=[0-9a-z]{32}"
    r")(?:&|$)",
    re.IGNORECASE,
)
# The parser strips leading control characters and spaces (WHATWG URL, 4.4). "\\" is a slash in
# http(s).
_MANY_SLASHES = re.compile(r"\A[\0- ]*[/\\][/\\\t\n\r]+")
# The characters of a path that the rules do not change.
_PLAIN = "".join(sorted(_UNRESERVED)).encode() + b"/"
_HIGH_OCTET = re.compile(rb"[\x80-\xff]")
# `_with_query_in` leaves these to the URL parser. Not "#": a charset may use it as a second byte.
_ASCII = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "#")


def canonicalize(url: str, base: str | None = None) -> str | None:
    """The canonical absolute form of `url`, which may be relative to `base`.

    None if it is not http(s), has no host, cannot be parsed or is longer than MAX_LENGTH.
    O(length), bounded by MAX_LENGTH; about 1 µs.
    """
    if base is not None:
        return next(iter(canonicalize_each((url,), base)[0]), None)
    try:
        return _canonical(str(URL.parse(_bounded(url))))
    except (URLError, UnicodeError):
        return None


def redirect_target(location: bytes, base: str) -> str | None:
    """The target of a Location header at `base` (canonical). None without a header, and for a
    target without a canonical form.

    An empty value would be a reference to the page itself (RFC 3986, 5.2.2): it counts as no
    header. Octets above 0x7F become escapes, whatever their charset, as in browsers (WPT,
    redirect-location-escape): servers send UTF-8 and mean its bytes. So a host in UTF-8 is an IDN,
    and a host in another charset is invalid.
    """
    if not location:
        return None
    if not location.isascii():
        location = _HIGH_OCTET.sub(lambda octet: b"%%%02X" % octet[0][0], location)
    return canonicalize(location.decode("ascii"), base)


def canonicalize_each(
    hrefs: Sequence[str], base: str, charset: str = "utf-8", room: int = MAX_PAGE_LENGTH
) -> tuple[list[str], int]:
    """Canonical forms of a page's links, each once, and the number of these links with repeats.

    `charset` is the page's: a browser encodes the query in it (WHATWG URL, 4.4, query state). The
    base is parsed once and each href once: about 1.3 µs per new href, 0.4 µs if it is a plain path,
    0.1 µs per repeat. Stops when the forms have `room` characters.
    """
    try:
        join = URL.parse(_bounded(base)).join
    except (URLError, UnicodeError):
        return [], 0
    folder = _joined(join, ".", charset) or ""
    origin = origin_of(folder) if folder else ""
    origin_length, folder_length = len(origin), len(folder)
    path_max = MAX_LENGTH - folder_length if folder else 0
    if "#" in "".join(hrefs):
        hrefs = [_without_fragment(href) if "#" in href else href for href in hrefs]
    different = list(dict.fromkeys(hrefs))
    lots = (different[n : n + _TOGETHER] for n in range(0, len(different), _TOGETHER))
    odd_parts = chain.from_iterable(map(_odd_parts, lots))
    forms: dict[str, str] = {}  # of each href that has one
    for href, odd, length in zip(different, odd_parts, map(len, different), strict=True):
        if odd or not href or href[0] == "." or length > path_max:
            form = _joined(join, href, charset) if length <= MAX_LENGTH else None
            if form is None:
                continue
            length = len(form)
        elif href[0] == "/":
            form = origin + href
            length += origin_length
        else:
            form = folder + href
            length += folder_length
        room -= length
        if room < 0:
            break
        forms[href] = form
    if len(forms) < len(different):
        hrefs = [href for href in hrefs if href in forms]
    return list(dict.fromkeys(forms.values())), len(hrefs)


def _odd_parts(hrefs: Sequence[str]) -> Sequence[object]:
    """For each href, a false value if it is a path that the rules do not change, apart from its
    first characters.

    All are tested together, 0.1 µs each: plain characters are deleted from their joined text.
    """
    text = "\n".join(hrefs)
    if len(text) > _TOGETHER_MAX_LENGTH:
        return hrefs
    text = text.replace("//", "!").replace("/.", "!")  # empty and dot segments
    odd = text.encode("utf-8", "replace").translate(None, _PLAIN).split(b"\n")
    return odd if len(odd) == len(hrefs) else hrefs  # an href has a line break


def _joined(join: Callable[[str], URL], href: str, charset: str) -> str | None:
    """The canonical form of `href`, without fragment, by the `join` of its base."""
    if charset != "utf-8" and "?" in href and not href.isascii():
        href = _with_query_in(charset, href)
    try:
        try:
            text = str(join(href))
        except EmptyHost:  # url-py finds no host in "///host/"; the Standard skips the slashes
            text = str(join(_MANY_SLASHES.sub("//", href)))
        return _canonical(text)
    except (URLError, UnicodeError):
        return None


def _with_query_in(charset: str, href: str) -> str:
    """`href` with the query's non-ASCII characters as escapes of their bytes in `charset`."""
    path, _, query = href.partition("?")
    return f"{path}?{quote_from_bytes(encode_query(query, charset), safe=_ASCII)}"


def _without_fragment(href: str) -> str:
    """`href` up to its fragment. With an empty fragment if it would end in a blank otherwise."""
    href = href[: href.index("#")]
    return href if href[-1:] > " " else href + "#"


def _bounded(url: str) -> str:
    """`url` without its fragment; "", which is no URL, if it is too long."""
    if "#" in url:
        url = _without_fragment(url)
    return url if len(url) <= MAX_LENGTH else ""


def _canonical(text: str) -> str | None:
    """The canonical form of a URL from the parser, which has no fragment or an empty one."""
    if not text.startswith(("http://", "https://")):
        return None
    if text[-1] == "#":
        text = text[:-1]
    if "@" in text or "./" in text or ".:" in text:
        match = _AUTHORITY.match(text)
        if match is None or match[2][-1:] in ("", "."):
            return None  # a host of dots only, or with an empty label at its end
        text = f"{match[1]}{match[2]}{match[3] or ''}{text[match.end() :]}"
    if "%" in text:
        text = _ODD_ESCAPE.sub(lambda escape: _ESCAPES[escape[0]], text)
    if "^" in text:  # url-py: before the path percent-encode set had it (WHATWG URL, 1.3)
        path, mark, query = text.partition("?")
        text = path.replace("^", "%5E") + mark + query
    if "?" in text or ";" in text:
        lower = text.lower()
        if "sess" in lower or "sid=" in lower or "?&" in text or text[-1] in "?&":
            text = _plain_target(text)
    return text if len(text) <= MAX_LENGTH else None


def _plain_target(text: str) -> str:
    """`text` without session ids, `&` at the ends of its query, or an empty query."""
    bare, _, query = text.partition("?")
    start = bare.index("/", 8)
    path, dropped = _SESSION_IN_PATH.subn("", bare[start:])
    if dropped:
        bare = str(URL.parse(bare[:start] + path))  # the rest may be a dot segment
    query = _SESSION_IN_QUERY.sub("", query).strip("&")
    return f"{bare}?{query}" if query else bare


def host_of(url: str) -> str:
    """Host of a canonical URL; an IPv6 literal without its brackets."""
    start = url.index("//") + 2
    authority = url[start : url.index("/", start)]
    if ":" not in authority:
        return authority
    if authority[0] == "[":
        return authority[1 : authority.index("]")]
    return authority[: authority.index(":")]


def port_of(url: str) -> int | None:
    """The port of a canonical URL; None for the default of its scheme."""
    _, colon, port = url[8 : url.index("/", 8)].rpartition(":")
    return int(port) if colon and port.isdecimal() else None


def origin_of(url: str) -> str:
    """Scheme and authority of a canonical URL: "http://h:8080"."""
    return url[: url.index("/", 8)]


def target_of(url: str) -> str:
    """Path and query of a canonical URL, "/...", as in the request line."""
    return url[url.index("/", 8) :]


@lru_cache(4096)  # asked when a link is put, and again when it ends
def level_of(url: str) -> int:
    """Level of a canonical URL: 1 plus the words between slashes in its path, at most MAX_LEVEL."""
    path = url[url.index("/", 8) :].partition("?")[0]
    if "//" in path:
        words = len(list(filter(None, path.split("/"))))
    else:  # takes half the time
        words = path.count("/") - path.endswith("/")
    return min(MAX_LEVEL, 1 + words)
