"""The kinds of settings' values: the Python type of each, and the words of the error line.

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
from ipaddress import ip_network
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple

from scrapy.http import Headers
from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object
from scrapy.utils.python import without_none_values

from webcrawl.admission.dns import read_server
from webcrawl.base.wording import is_utf8
from webcrawl.cluster.address import Address
from webcrawl.fetch.proxy import Proxy
from webcrawl.fetch.requesthead import is_name, one_line
from webcrawl.frontier.buckets import HUBS_MAX
from webcrawl.frontier.counters import REFUSED_ACCESS
from webcrawl.parse.jointrules import NAMES_MAX
from webcrawl.parse.language import iso_639_3
from webcrawl.parse.robots import product_token
from webcrawl.warc.earlierlines import EarlierError, sources_of

TLS_VERSIONS = {  # by Scrapy's names
    "TLSv1.0": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
DIRECT = "direct"  # PROXY: no proxy, also in a crawl that was begun with one
GUESS = "guess"  # SITEMAPS: try /sitemap.xml too
FREE_PORT = 1  # LIVE: any port that is free
PROCESSES_MAX = 64  # each takes some 70 MB, and one core keeps one or two of them busy


class NotAllowed(ValueError):  # noqa: N818  (its text is what is allowed)
    """A value that cannot be used. Its text: the allowed values, as far as they explain it."""


# Raised for a value that cannot be used, by the functions that turn it into its type.
FAULTS = (
    *(AttributeError, ImportError, LookupError, NameError, OSError),
    *(OverflowError, TypeError, ValueError),
)


class Kind(NamedTuple):
    """A kind of value: its conversion to its type, and its description for users.

    typed -- returns the value with its type; raises one of FAULTS if it cannot be used
    allowed -- the error line, unless `typed` raises NotAllowed
    """

    typed: Callable[[Any], object]
    allowed: str

    def problem(self, value: object) -> str:
        """What is allowed in place of `value`; "" if it can be used."""
        if not is_utf8(str(value)):  # the archive records all settings
            return f"{self.allowed}, in UTF-8"
        try:
            self.typed(value)
        except FAULTS as error:
            return self.reason(error)
        return ""

    def reason(self, error: BaseException) -> str:
        """What is allowed, of an error of `typed`."""
        return str(error) if isinstance(error, NotAllowed) else self.allowed

    def fits(self, value: object) -> bool:
        return not self.problem(value)


def where(test: Callable[[Any], object]) -> Callable[[Any], Any]:
    """A conversion that changes nothing, of values that pass `test`."""

    def same(value: Any) -> Any:
        if not test(value):
            raise ValueError
        return value

    return same


def whole(least: int, *, most: int | None = None) -> Kind:
    """A whole number from `least` to `most`."""

    def typed(value: Any) -> int:
        number = int(value)
        if number not in (value, float(value)) or not least <= number <= (most or math.inf):
            raise ValueError
        return number

    allowed = f"{least} or more" if most is None else f"{least:,} to {most:,}"
    return Kind(typed, f"a whole number, {allowed}")


def seconds(least: float = 0) -> Kind:
    """A finite number of seconds, `least` or more."""

    def typed(value: Any) -> float:
        if not least <= float(value) < math.inf:
            raise ValueError
        return float(value)

    return Kind(typed, f"a number of seconds, {least} or more")


NUMBER = Kind(seconds().typed, "a number, 0 or more")  # finite


_SIZE = re.compile(r"(\d{1,18})\s*(?:([KMGT])B?)?", re.IGNORECASE)
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def parse_size(value: Any) -> int:
    """The bytes that `value` names: 1000, "1000", "10M", "1 GB" (10^9). ValueError."""
    match = _SIZE.fullmatch(str(value).strip()) if isinstance(value, int | str) else None
    if match is None:
        raise ValueError
    return int(match[1]) * _UNITS[(match[2] or "").upper()]


def size(least: int) -> Kind:
    """A number of bytes, `least` or more."""

    def typed(value: Any) -> int:
        if (size_bytes := parse_size(value)) < least:
            raise ValueError
        return size_bytes

    units = "with K, M, G or T for 10^3 to 10^12"
    return Kind(typed, f"a number of bytes, {least} or more; {units}")


_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)\s*([smhdw]?)")
_DURATION_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}


def _duration(value: Any) -> float:
    """The seconds that `value` names: 90, "90", "15m", "28 d". ValueError for 0, too."""
    match = _DURATION.fullmatch(str(value).strip())
    if match is None or not float(match[1]):
        raise ValueError
    return float(match[1]) * _DURATION_UNITS[match[2]]


def one_of(*names: str) -> Kind:
    """One of `names`."""
    return Kind(where(lambda value: value in names), " or ".join(names))


def list_of(fits_one: Callable[[str], object], allowed: str) -> Kind:
    """A list whose every item passes `fits_one`, which returns something for it or raises."""

    def typed(value: Any) -> list[object]:
        if not all(map(fits_one, _texts(value))):
            raise ValueError
        return _listed(value)

    return Kind(typed, allowed)


def _of_numbers(texts: Kind) -> Kind:
    """A list of whole numbers, whose texts are of the kind `texts`."""

    def typed(value: Any) -> list[int]:
        items: Any = texts.typed(value)
        return [int(str(each)) for each in items]

    return Kind(typed, texts.allowed)


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


def _texts(value: Any) -> list[str]:
    """The items as text, without the empty ones. ValueError if `value` is no list."""
    if not _is_list(value):
        raise ValueError
    return [str(each).strip() for each in _listed(value) if each]


def _dictionary(value: Any) -> dict[Any, Any]:
    """The dictionary `value`, or the one that it has as JSON. Else TypeError or ValueError."""
    return BaseSettings({"value": value}).getdict("value")


def _headers(value: Any) -> dict[Any, Any]:
    values = _dictionary(value)
    headers = Headers(without_none_values(values))
    lines = [(name, line) for name, values in headers.items() for line in values]
    if not all(is_name(name) and one_line(line) == line for name, line in lines):
        raise ValueError
    return values


def _languages(value: Any) -> list[str]:
    """The codes of ISO 639-3."""
    codes = _texts(value)
    if not all(re.fullmatch("[a-z]{2,3}", code) for code in codes):
        raise ValueError
    named = [iso_639_3(code) for code in codes]
    if any(len(code) != 3 for code in named):
        raise ValueError
    return named


def _functions(value: Any) -> list[object]:
    for item in (value.split(",") if isinstance(value, str) else value) if value else ():
        load_object(item)
    return _listed(value)


def _parsers(value: Any) -> dict[str, str | None]:
    """The parsers by their import paths: a function has another text in each process.

    Tries each on an empty page. NotAllowed.
    """
    try:
        parsers = _dictionary(value or {})
    except (TypeError, ValueError):
        raise _no_parsers("this is no dictionary") from None
    named: dict[str, str | None] = {}
    for media_type, parser in parsers.items():
        if re.fullmatch(r"[\w.+-]+/[\w.+-]+", str(media_type).strip()) is None:
            raise _no_parsers(f"{media_type!r} is no media type")
        path = named[media_type] = str(_listed([parser])[0]) if parser else None
        if path is None:
            continue
        if path.startswith("__main__."):
            why = f"the parser of {media_type} is in the script that runs, not in a module"
            raise _no_parsers(why)
        try:
            load_object(path)(b"", "utf-8").hrefs  # noqa: B018
        except Exception as error:  # from a user's code
            why = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            raise _no_parsers(f"the parser of {media_type}, on an empty body: {why}") from None
    return named


def _no_parsers(why: str) -> NotAllowed:
    return NotAllowed(f"{PARSERS.allowed}; {why}")


_AGENT = re.compile(r"[A-Za-z0-9_.-]+")  # a product token; `parse.robots` reads such names
_COMMENT = re.compile(r"\([^()]*\)")  # of a User-Agent


def _agents(value: Any) -> list[str]:
    """The names of ROBOTSTXT_USER_AGENT: product tokens, or one whole User-Agent as in Scrapy.

    A comma outside its comments is of a list with a mistake: its names would not be obeyed.
    """
    if value is None or value == []:
        return []
    names = [str(each).strip() for each in _listed(value)]
    if 0 < len(names) <= NAMES_MAX and all(map(_AGENT.fullmatch, names)):
        return names
    if isinstance(value, str) and "," not in _COMMENT.sub("", value):
        names = [value]
    if len(names) != 1 or not _is_header_value(names[0]) or not product_token(names[0]):
        raise ValueError
    return names


def _is_header_value(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[\x20-\x7e]+", value) is not None


def _live(value: Any) -> int:
    port = int({"False": 0, "false": 0, "True": 1, "true": 1}.get(str(value), value))
    if port not in (0, FREE_PORT) and not 1024 <= port <= 65535:
        raise ValueError
    return port


def _is_writable(value: object) -> bool:
    """Whether `value` is a folder that can be written, or created. A full disk is reported later,
    at the write that fails.
    """
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
        return error.errno in (errno.ENOSPC, errno.EDQUOT)


# RFC 9110, 10.1.2, without the forms that no mailbox of today has (names, comments, quotes).
_MAIL_ADDRESS = re.compile(
    r"(?=.{3,254}\Z)[\w!#$%&'*+/=?^`{|}~-]+(?:\.[\w!#$%&'*+/=?^`{|}~-]+)*"
    r"@(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.)+[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])",
    re.ASCII,
)
_HTTPS_URL = re.compile(r"https://[A-Za-z0-9][A-Za-z0-9.-]*(?::\d{1,5})?(?:/[!$-;=?-Z_a-z~]*)?")


def _bus(value: Any) -> str:
    """The value without a login, for reports. `config.cluster` reads the setting."""
    try:
        return str(Address.parse(str(value))) if value else ""
    except ValueError as error:
        raise NotAllowed(str(error)) from None


def _proxy(value: Any) -> Any:
    """The value without user name and password, for reports. `fetch.proxy_from` reads it."""
    if value in (None, "", DIRECT) or (value.startswith("@") and len(value) > 1):
        return value
    return f"http://{Proxy.parse(value)}"


def _indexes(value: Any) -> list[object]:
    try:
        sources_of(_texts(value))
    except EarlierError as error:  # it names the file
        raise NotAllowed(str(error)) from None
    return _listed(value)


_SWITCHES = {"0": False, "1": True} | {
    text: value for value in (False, True) for text in (str(value), str(value).lower())
}
BOOL = Kind(lambda value: _SWITCHES[str(value)], "True or False")
SITEMAPS = Kind(
    lambda value: value if value == GUESS else BOOL.typed(value), "True, False, or guess"
)
SIZE = size(0)
DURATION = Kind(
    _duration,
    "a time above 0: seconds, or a number with s, m, h, d or w (seconds to weeks), such as 28d",
)
FOLDER = Kind(where(_is_writable), "a folder that can be written")
FOLDER_OR_UNSET = Kind(where(lambda value: not value or _is_writable(value)), FOLDER.allowed)
LIVE = Kind(_live, "0 (off), 1 (a free port), or a port from 1024 to 65535")
PROCESSES = whole(0, most=PROCESSES_MAX)
FILE_PREFIX = Kind(
    where(re.compile(r"[^/\s\0]+").fullmatch), "the start of a file name, without / and spaces"
)
RULES_FILE = Kind(
    where(lambda value: not value or re.match(r"@.", value)),
    "@ and the path of a TOML file, such as @rules.toml",
)
ONE_LINE = Kind(where(lambda value: len(str.splitlines(value)) <= 1), "one line of text")
USER_AGENT = Kind(where(_is_header_value), "one line of ASCII text, such as name/1.0 (+URL)")
HEADERS = Kind(_headers, "a dictionary of header names and their values, each of one line")
BUS = Kind(_bus, "empty, or nats://HOST:PORT/NAME or tls://HOST:PORT/NAME")
HUBS = whole(1, most=HUBS_MAX)
PROXY = Kind(
    _proxy,
    "empty, direct, http://HOST:PORT, http://USER:PASSWORD@HOST:PORT, or @ and a file with such"
    " a URL",
)
PATH = Kind(
    where(lambda value: not value or isinstance(value, str | os.PathLike)), "empty, or a file"
)
LANGUAGE_MODEL = Kind(
    where(lambda value: not value or (isinstance(value, str) and Path(value).is_file())),
    "empty, or the file of a fastText model of languages",
)
LANGUAGES = Kind(_languages, "codes of ISO 639-1 or -3 in lower case, such as pt,eng")
MAIL_ADDRESS = Kind(
    where(lambda value: not value or _MAIL_ADDRESS.fullmatch(value)),
    "empty, or a mail address, such as crawl@example.org",
)
HTTPS_URL = Kind(
    where(lambda value: not value or _HTTPS_URL.fullmatch(value)),
    "empty, or an https URL, such as"
    " https://example.org/.well-known/http-message-signatures-directory",
)
PREFIXES = list_of(lambda text: ip_network(text, strict=False), "prefixes, such as 192.0.2.0/24")
# No user, no query: a login would be in the log, in each WARC file and in report.json.
_STORE = re.compile(r"(?:s3|gs|az)://[A-Za-z0-9][A-Za-z0-9._-]*(?:/[^\s?#@]*)?|file:///[^\s?#]*")
STORE = Kind(
    where(lambda value: not value or _STORE.fullmatch(value)),
    "empty, or s3://bucket/prefix, gs://, az:// or file:///folder, without a login: the environment"
    " has the credentials",
)
AGENTS = Kind(_agents, f"one line of ASCII text, or up to {NAMES_MAX} names, such as mybot,CCBot")
HEADER_NAMES = list_of(
    lambda text: is_name(text.encode()), "names of headers, such as Authorization,Cookie"
)
NAMES = list_of(lambda text: True, "names with commas between them, or a list in settings.py")
INDEXES = Kind(_indexes, "files *.cdxj or *.cdxj.gz, or folders of them, with commas between them")
SUFFIXES = list_of(re.compile(r"[^\s/:@]+").fullmatch, "ends of host names, such as .br,gov.pt")
MEDIA_TYPES = list_of(
    re.compile(r"[\w.+*-]+/[\w.+*-]+|\*").fullmatch,
    "media types, such as text/html,image/*, or * for all",
)
_FINAL = "|".join(map(str, REFUSED_ACCESS))
_CODES = list_of(
    re.compile(rf"(?!{_FINAL})[1-5]\d\d").fullmatch,
    "codes, such as 429,503; but not 401, 402 and 451, by which an owner refuses access",
)
HTTP_CODES = _of_numbers(_CODES)
PORTS = _of_numbers(list_of(re.compile(r"\d{1,5}").fullmatch, "port numbers, such as 6000,10080"))
DNS_SERVERS = list_of(read_server, "addresses, such as 127.0.0.1:5353,[::1]:53")
PARSERS = Kind(
    _parsers, "a dictionary of media types and import paths of their parsers, or None for no parser"
)
TLS_VERSION = Kind(
    where(lambda value: value in (None, *TLS_VERSIONS)), f"None or {' or '.join(TLS_VERSIONS)}"
)
FUNCTIONS = Kind(_functions, "import paths of functions, with commas between them")
