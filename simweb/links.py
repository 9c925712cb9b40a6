"""Spellings of a link: each style writes the same URL in another way.

The WHATWG URL standard, RFC 3986 6.2.2.2 (percent-encoding of unreserved characters) and the
removal of session ids make these spellings equal. A crawler that misses one requests a page twice,
or a page that does not exist.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import unquote

from simweb.features import Feature


class Target(NamedTuple):
    """The target of a link. `near`: the link may be relative, as page and target share a host.

    `page_scheme` is the scheme of the page with the link; "" if both schemes serve the page.
    """

    host: str
    port: str  # "" or ":8080"
    path: str
    query: str  # "" or "?a=b&amp;c=d", as HTML has it
    near: bool
    scheme: str = "http"
    page_scheme: str = "http"

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.host}{self.port}"

    @property
    def url(self) -> str:
        return self.origin + self.path + self.query


@dataclass(frozen=True)
class LinkStyle(Feature):
    family = "link"
    spell: Callable[[Target], str]  # the value of the attribute, escaped


def _plain(to: Target) -> str:
    return to.path + to.query if to.near else to.url


def _with_path(to: Target, path: str) -> str:
    return (path if to.near else to.origin + path) + to.query


def _relative(to: Target) -> str:
    """From the root, by more `..` than there are directories. Absolute on other hosts."""
    return "../" * 12 + to.path[1:] + to.query if to.near else to.url


def _upper_host(to: Target) -> str:
    return to.origin.upper() + to.path + to.query


def _default_port(to: Target) -> str:
    default = ":443" if to.scheme == "https" else ":80"
    return f"{to.scheme}://{to.host}{to.port or default}{to.path}{to.query}"


def _network(to: Target) -> str:
    return to.url.removeprefix(f"{to.page_scheme}:") if to.page_scheme else to.url


def _dots(to: Target) -> str:
    return _with_path(to, "/./x/.." + to.path)


def _encoded(to: Target) -> str:
    """The first letter of the last word, percent-encoded."""
    start, _, last = to.path.rpartition("/")
    return _with_path(to, f"{start}/%{ord(last[0]):02x}{last[1:]}") if last else _plain(to)


def _jsessionid(to: Target) -> str:
    return _with_path(to, to.path + ";jsessionid=0123456789ABCDEF0123456789ABCDEF")


def _phpsessid(to: Target) -> str:
    mark = "&amp;" if to.query else "?"
    return f"{_plain(to)}{mark}PHPSESSID=0123456789abcdef0123456789abcdef"


def _accents(to: Target) -> str:
    return _with_path(to, unquote(to.path))


def _tab(to: Target) -> str:
    return _plain(to).replace("/", "/\t\n", 1)


def _user(to: Target) -> str:
    return to.url.replace("//", "//u:p@", 1)


_row = LinkStyle
LINKS = (
    _row("plain", 80, "/path on the same host, the whole URL elsewhere", _plain),
    _row("whole", 3, "always the whole URL", lambda to: to.url),
    _row("relative", 3, "../../ to the root", _relative),
    _row("network", 2, "//host/path", _network),
    _row("fragment", 3, "with a #fragment", lambda to: _plain(to) + "#parte-2"),
    _row("upper-host", 1, "scheme and host in capitals", _upper_host),
    _row("port", 1, "the default port written out", _default_port),
    _row("dots", 1, "/./ and /x/../ in the path", _dots),
    _row("percent", 1, "a letter percent-encoded", _encoded),
    _row("jsessionid", 0.7, ";jsessionid= after the path", _jsessionid),
    _row("phpsessid", 0.7, "PHPSESSID= as the last parameter", _phpsessid),
    _row("spaces", 1, "spaces and line ends around", lambda to: f" \n{_plain(to)}\t "),
    _row("tab", 0.5, "a tab and a line end inside", _tab),
    _row("backslash", 0.5, "backslashes for slashes", lambda to: _plain(to).replace("/", "\\")),
    _row("user", 0.3, "user:password@ before the host", _user),
    _row("accents", 2, "accents unencoded, in the page's character set", _accents),
    _row("entities", 1, "a slash as &#x2F;", lambda to: _plain(to).replace("/", "&#x2F;", 1)),
    _row("ampersand", 1, "& left as it is", lambda to: _plain(to).replace("&amp;", "&")),
)
