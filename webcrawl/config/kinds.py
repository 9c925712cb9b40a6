"""The kinds of settings' values: a test, the words of the error line, and the Python type of each.

Owns the kinds (whole numbers, seconds, lists, folders...); the settings themselves are in `table`.
A value from the command line is text, a value from Python has its own type.
"""

from __future__ import annotations

import errno
import math
import os
import re
import ssl
from collections.abc import Callable
from functools import partial
from ipaddress import ip_network
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple

from scrapy.http import Headers
from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object
from scrapy.utils.python import without_none_values

from webcrawl.admission.dns import read_server
from webcrawl.cluster.address import Address
from webcrawl.cluster.buckets import HUBS_MAX
from webcrawl.fetch.proxy import Proxy
from webcrawl.fetch.requesthead import is_name, one_line
from webcrawl.frontier.counters import REFUSED_ACCESS
from webcrawl.parse.jointrules import NAMES_MAX
from webcrawl.parse.language import iso_639_3
from webcrawl.parse.robots import product_token
from webcrawl.warc.earlierlines import SUFFIXES as CDXJ_SUFFIXES

_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})  # reported at the write that fails
TLS_VERSIONS = {  # by Scrapy's names
    "TLSv1.0": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}


_AGENT = re.compile(r"[A-Za-z0-9_.-]+")  # a product token; `parse.robots` reads such names
_COMMENT = re.compile(r"\([^()]*\)")  # of a User-Agent
DIRECT = "direct"  # PROXY: no proxy, also in a crawl that was begun with one
PROCESSES_MAX = 64  # each takes some 70 MB, and one core keeps one or two of them busy


class SettingError(ValueError):
    """The user's fault: a setting's name, its value and what is allowed."""

    def __init__(self, name: str, value: object, allowed: str) -> None:
        super().__init__(f"{name} = {value!r} cannot be used: {allowed}")


class Kind(NamedTuple):
    """A kind of value: its test, its description for users, and the conversion to its type."""

    fits: Callable[[Any], object]
    allowed: str
    typed: Callable[[Any], object] = lambda value: value
    unit: str = ""  # "s" or "bytes"; for the documentation


def taken_by(function: Callable[[Any], object]) -> Callable[[Any], bool]:
    """A test: whether `function` takes a value. It raises for others, or returns False."""

    def takes(value: Any) -> bool:
        try:
            return function(value) is not False
        except (AttributeError, ImportError, LookupError, NameError, OSError):
            return False
        except (OverflowError, TypeError, ValueError):
            return False

    return takes


def whole(least: int, unit: str = "", *, most: int | None = None) -> Kind:
    """A whole number from `least` to `most`."""
    allowed = f"{least} or more" if most is None else f"{least:,} to {most:,}"
    return Kind(
        taken_by(
            lambda value: (
                int(value) in (value, float(value)) and least <= int(value) <= (most or math.inf)
            )
        ),
        f"a whole number, {allowed}",
        int,
        unit,
    )


def seconds(least: float = 0) -> Kind:
    """A finite number of seconds, `least` or more."""
    fits = taken_by(lambda value: least <= float(value) < math.inf)
    return Kind(fits, f"a number of seconds, {least} or more", float, "s")


def number(least: float = 0) -> Kind:
    """A finite number, `least` or more, without a unit."""
    return Kind(seconds(least).fits, f"a number, {least} or more", float)


_SIZE = re.compile(r"(\d{1,18})\s*(?:([KMGT])B?)?", re.IGNORECASE)
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def parse_size(value: Any) -> int | None:
    """The bytes that `value` names: 1000, "1000", "10M", "1 GB" (10^9); None for anything else."""
    match = _SIZE.fullmatch(str(value).strip()) if isinstance(value, int | str) else None
    return int(match[1]) * _UNITS[(match[2] or "").upper()] if match else None


SIZE = Kind(
    lambda value: parse_size(value) is not None,
    "a number of bytes, 0 or more; with K, M, G or T for 10^3 to 10^12",
    parse_size,
    "bytes",
)


_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)\s*([smhdw]?)")
_DURATION_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}


def parse_duration(value: Any) -> float | None:
    """The seconds that `value` names: 90, "90", "15m", "28 d"; None for anything else, and for 0 or
    less."""
    match = (
        _DURATION.fullmatch(str(value).strip()) if isinstance(value, int | float | str) else None
    )
    return float(match[1]) * _DURATION_UNITS[match[2]] or None if match else None


DURATION = Kind(
    lambda value: parse_duration(value) is not None,
    "a time above 0: seconds, or a number with s, m, h, d or w (seconds to weeks), such as 28d",
    parse_duration,
    "s",
)


def one_of(*names: str) -> Kind:
    """One of `names`."""
    return Kind(lambda value: value in names, " or ".join(names))


def list_of(fits_one: Callable[[str], object], allowed: str) -> Kind:
    """A list whose every item passes `fits_one`."""

    def fits(value: Any) -> bool:
        if not _is_list(value):
            return False
        items = value.split(",") if isinstance(value, str) else value or ()
        return all(fits_one(str(item).strip()) for item in items if item)

    return Kind(fits, allowed, _listed)


def _is_list(value: object) -> bool:
    """Whether `value` is a list, or text with commas. JSON is a mistake that Scrapy does not see.

    A regular expression may begin with a bracket. The text is JSON or Python if a quotation mark
    or the end follows the bracket.
    """
    if isinstance(value, str):
        return re.match(r"\s*[\[(]\s*(?:['\"]|[\])]\s*$)", value) is None
    return value is None or isinstance(value, list | tuple)


def _listed(value: Any) -> list[object]:
    """The items as Scrapy's `getlist` gives them; functions and classes as import paths."""
    items = (value.split(",") if value else []) if isinstance(value, str) else value or ()
    return [
        f"{item.__module__}.{item.__qualname__}" if hasattr(item, "__qualname__") else item
        for item in items
    ]


def _is_bool(value: object) -> bool:
    return str(value) in {"0", "1", "True", "False", "true", "false"}


def _is_header_value(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[\x20-\x7e]+", value) is not None


def _dictionary(value: Any) -> dict[Any, Any]:
    """The dictionary `value`, or the one that it has as JSON. Else TypeError or ValueError."""
    return BaseSettings({"value": value}).getdict("value")


def _are_headers(value: Any) -> bool:
    headers = Headers(without_none_values(_dictionary(value)))
    lines = [(name, line) for name, values in headers.items() for line in values]
    return all(is_name(name) and one_line(line) == line for name, line in lines)


def _is_one_line(value: object) -> bool:
    return isinstance(value, str) and len(value.splitlines()) <= 1


def _load_all(value: Any) -> None:
    """Load functions by their import paths."""
    for item in (value.split(",") if isinstance(value, str) else value) if value else ():
        load_object(item)


def _named_parsers(value: Any) -> dict[str, str | None]:
    """The parsers by their import paths: a function has another text in each process."""
    parsers = _dictionary(value or {})
    return {name: _listed([parser])[0] if parser else None for name, parser in parsers.items()}  # type: ignore[misc]


def parsers_problem(value: Any) -> str:
    """Why PARSERS cannot be used, "" if it can. Tries each parser on an empty page."""
    try:
        parsers = _dictionary(value or {})
    except (TypeError, ValueError):
        return "this is no dictionary"
    for media_type, parser in parsers.items():
        if re.fullmatch(r"[\w.+-]+/[\w.+-]+", str(media_type).strip()) is None:
            return f"{media_type!r} is no media type"
        if not parser:
            continue
        path = str(_listed([parser])[0])
        if path.startswith("__main__."):
            return f"the parser of {media_type} is in the script that runs, not in a module"
        try:
            load_object(path)(b"", "utf-8").hrefs  # noqa: B018
        except Exception as error:  # from a user's code
            text = " ".join(str(error).split())[:200]
            return f"the parser of {media_type}, on an empty body: {type(error).__name__}: {text}"
    return ""


def _are_agents(value: Any) -> bool:
    names = _agents(value)
    return value is None or value == [] or 0 < len(names) <= NAMES_MAX


def _agents(value: Any) -> list[str]:
    """The names of ROBOTSTXT_USER_AGENT: product tokens, or one whole User-Agent as in Scrapy.

    A comma outside its comments is of a list with a mistake: its names would not be obeyed.
    """
    if not isinstance(value, str | list | tuple):
        return []
    names = [str(each).strip() for each in _listed(value)]
    if names and all(map(_AGENT.fullmatch, names)):
        return names
    if isinstance(value, str):
        names = [] if "," in _COMMENT.sub("", value) else [value]
    if len(names) != 1 or not _is_header_value(names[0]):
        return []
    return names if product_token(names[0]) else []


def _live(value: Any) -> int:
    return int({"False": 0, "false": 0, "True": 1, "true": 1}.get(str(value), value))


def _is_live(value: Any) -> bool:
    port = _live(value)
    return port in (0, FREE_PORT) or 1024 <= port <= 65535


def _is_writable(value: object) -> bool:
    """Whether `value` is a folder that can be written, or created."""
    if not isinstance(value, str | os.PathLike) or str(value) == "":
        return False
    folder = Path(str(value)).absolute()
    while not folder.exists():
        folder = folder.parent
    if not (folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)):
        return False
    try:
        with TemporaryFile(dir=folder):  # root has all rights in /proc, which takes no new files
            return True
    except OSError as error:
        return error.errno in _DISK_FULL


# RFC 9110, 10.1.2, without the forms that no mailbox of today has (names, comments, quotes).
_MAIL_ADDRESS = re.compile(
    r"(?=.{3,254}\Z)[\w!#$%&'*+/=?^`{|}~-]+(?:\.[\w!#$%&'*+/=?^`{|}~-]+)*"
    r"@(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.)+[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])",
    re.ASCII,
)
_HTTPS_URL = re.compile(r"https://[A-Za-z0-9][A-Za-z0-9.-]*(?::\d{1,5})?(?:/[!$-;=?-Z_a-z~]*)?")


def _empty_or(pattern: re.Pattern[str]) -> Callable[[Any], object]:
    return lambda value: not value or (isinstance(value, str) and pattern.fullmatch(value))


def _is_proxy(value: object) -> bool:
    if isinstance(value, str) and not value.startswith("@"):
        return value in ("", DIRECT) or bool(Proxy.parse(value))
    return not value or (isinstance(value, str) and len(value) > 1)


def _shown_proxy(value: str) -> str:
    """The value without user name and password, for reports."""
    is_shown = value in (None, "", DIRECT) or value.startswith("@")
    return value if is_shown else f"http://{Proxy.parse(value)}"


def _is_index(text: str) -> bool:
    path = Path(text)
    return path.is_dir() or (path.is_file() and text.endswith(CDXJ_SUFFIXES))


def _is_file_prefix(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[^/\s\0]+", value) is not None


BOOL = Kind(_is_bool, "True or False", lambda value: str(value) in {"1", "True", "true"})
GUESS = "guess"  # SITEMAPS: try /sitemap.xml too
SITEMAPS = Kind(
    lambda value: value == GUESS or _is_bool(value),
    "True, False, or guess",
    lambda value: value if value == GUESS else BOOL.typed(value),
)
FOLDER = Kind(_is_writable, "a folder that can be written")
FOLDER_OR_UNSET = Kind(lambda value: not value or _is_writable(value), FOLDER.allowed)
FREE_PORT = 1  # LIVE: any port that is free
LIVE = Kind(taken_by(_is_live), "0 (off), 1 (a free port), or a port from 1024 to 65535", _live)
PROCESSES = whole(0, most=PROCESSES_MAX)
FILE_PREFIX = Kind(_is_file_prefix, "the start of a file name, without / and spaces")
RULES_FILE = Kind(
    lambda value: not value or (isinstance(value, str) and re.match(r"@.", value) is not None),
    "@ and the path of a TOML file, such as @rules.toml",
)
ONE_LINE = Kind(_is_one_line, "one line of text")
USER_AGENT = Kind(_is_header_value, "one line of ASCII text, such as name/1.0 (+URL)")
HEADERS = Kind(
    taken_by(_are_headers),
    "a dictionary of header names and their values, each of one line",
    _dictionary,
)
# Its typed value is for reports: without the password. `config.cluster` reads the setting.
BUS = Kind(
    taken_by(lambda value: not value or Address.parse(str(value))),
    "empty, or nats://HOST:PORT/NAME or tls://HOST:PORT/NAME",
    lambda value: str(Address.parse(str(value))) if value else "",
)
HUBS = whole(1, most=HUBS_MAX)
# Its typed value is for reports: `fetch.proxy_from` reads the setting.
PROXY = Kind(
    taken_by(_is_proxy),
    "empty, direct, http://HOST:PORT, http://USER:PASSWORD@HOST:PORT, or @ and a file with such"
    " a URL",
    _shown_proxy,
)
PATH = Kind(lambda value: not value or isinstance(value, str | os.PathLike), "empty, or a file")
LANGUAGE_MODEL = Kind(
    lambda value: not value or (isinstance(value, str) and Path(value).is_file()),
    "empty, or the file of a fastText model of languages",
)
LANGUAGES = list_of(
    lambda text: re.fullmatch("[a-z]{2,3}", text) and len(iso_639_3(text)) == 3,
    "codes of ISO 639-1 or -3 in lower case, such as pt,eng",
)._replace(typed=lambda value: [iso_639_3(str(code).strip()) for code in _listed(value) if code])
MAIL_ADDRESS = Kind(_empty_or(_MAIL_ADDRESS), "empty, or a mail address, such as crawl@example.org")
HTTPS_URL = Kind(
    _empty_or(_HTTPS_URL),
    "empty, or an https URL, such as"
    " https://example.org/.well-known/http-message-signatures-directory",
)
PREFIXES = list_of(taken_by(partial(ip_network, strict=False)), "prefixes, such as 192.0.2.0/24")
# No user, no query: a login would be in the log, in each WARC file and in report.json.
_STORE = re.compile(r"(?:s3|gs|az)://[A-Za-z0-9][A-Za-z0-9._-]*(?:/[^\s?#@]*)?|file:///[^\s?#]*")
STORE = Kind(
    _empty_or(_STORE),
    "empty, or s3://bucket/prefix, gs://, az:// or file:///folder, without a login: the environment"
    " has the credentials",
)
AGENTS = Kind(
    _are_agents,
    f"one line of ASCII text, or up to {NAMES_MAX} names, such as mybot,CCBot",
    _agents,
)
HEADER_NAMES = list_of(
    lambda text: is_name(text.encode()), "names of headers, such as Authorization,Cookie"
)
NAMES = list_of(lambda text: True, "names with commas between them, or a list in settings.py")
INDEXES = list_of(
    _is_index, "files *.cdxj or *.cdxj.gz, or folders of them, with commas between them"
)
SUFFIXES = list_of(re.compile(r"[^\s/:@]+").fullmatch, "ends of host names, such as .br,gov.pt")
MEDIA_TYPES = list_of(
    re.compile(r"[\w.+*-]+/[\w.+*-]+|\*").fullmatch,
    "media types, such as text/html,image/*, or * for all",
)
_FINAL = "|".join(map(str, REFUSED_ACCESS))
HTTP_CODES = list_of(
    re.compile(rf"(?!{_FINAL})[1-5]\d\d").fullmatch,
    "codes, such as 429,503; but not 401, 402 and 451, by which an owner refuses access",
)._replace(typed=lambda value: [int(str(code)) for code in _listed(value)])
DNS_SERVERS = list_of(taken_by(read_server), "addresses, such as 127.0.0.1:5353,[::1]:53")
PARSERS = Kind(
    lambda value: not parsers_problem(value),
    "a dictionary of media types and import paths of their parsers, or None for no parser",
    _named_parsers,
)
TLS_VERSION = Kind(
    lambda value: value in (None, *TLS_VERSIONS), f"None or {' or '.join(TLS_VERSIONS)}"
)
FUNCTIONS = Kind(
    taken_by(_load_all), "import paths of functions, with commas between them", _listed
)
