"""Reads the file of RULES (docs/manners.md): TOML in, `HostRule`s out.

A mistake raises RulesError, one line with the file, the line at which the rule begins, and what is
allowed. Nothing is read from a file with a mistake.
"""

from __future__ import annotations

import re
import tomllib
from base64 import b64encode
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from webcrawl.base.textfile import NotAFile, read_text
from webcrawl.base.wording import SettingError
from webcrawl.config.kinds import SIZE, USER_AGENT, Kind, NotAllowed, seconds, whole
from webcrawl.fetch.requesthead import is_name, is_set_by_client, one_line
from webcrawl.parse.robots import product_token
from webcrawl.scope.hostrules import Auth, HostRule, Values, values_of
from webcrawl.scope.rules import named_host

PRIORITY_MAX = 1_000_000
_WHOLE = whole(0, most=10**18 - 1)  # the messages to the workers have numbers of 64 bits
_SWITCH = Kind(bool, "true or false")

TARGETS = {"host": "hosts", "domain": "domains", "suffix": "suffixes"}
_HEADER = re.compile(r"[ \t]*\[\[[ \t]*(?:rule|\"rule\"|'rule')[ \t]*\]\]")
_AT_LINE = re.compile(r"(.*) \(at line (\d+), column \d+\)", re.DOTALL)


class RulesError(SettingError):
    """The user's fault: one line that names the file, the rule and what is allowed."""

    def __init__(self, text: str) -> None:
        ValueError.__init__(self, f"RULES: {text}")


class Field(NamedTuple):
    """A field of a rule: its name in `Values`, and the function that reads its value."""

    name: str
    read: Callable[[Any], object]  # raises NotAllowed


def _of(kind: Kind, *types: type) -> Callable[[Any], Any]:
    """A reader of values of `kind` that TOML has as one of `types`: a text is no number."""

    def read(value: Any) -> Any:
        if type(value) not in types or not kind.fits(value):
            raise NotAllowed(kind.allowed)
        return kind.typed(value)

    return read


def _robots_agent(value: Any) -> str:
    token = product_token(value) if isinstance(value, str) and value.isascii() else ""
    if not token:
        raise NotAllowed("a product token: letters, digits, '_', '-' and '.'")
    return token


def _headers(value: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, dict):
        raise NotAllowed('a table, such as { "Accept-Language" = "pt" }')
    for name, text in value.items():
        if not is_name(name.encode()):
            raise NotAllowed(f"names of headers: {name!r} is none")
        if is_set_by_client(name.encode()):
            raise NotAllowed(f"headers other than {name}, which the crawler sets itself")
        if name.lower() == "user-agent":
            raise NotAllowed("headers other than User-Agent: use the field user_agent")
        if not isinstance(text, str) or one_line(text.encode()) != text.encode():
            raise NotAllowed(f"texts of one line: that of {name} is none")
    if len({name.lower() for name in value}) < len(value):
        raise NotAllowed("each header once")
    return tuple(value.items())


def _deny(value: Any) -> bool | tuple[str, ...]:
    if isinstance(value, bool):
        return value
    expressions = [value] if isinstance(value, str) else value
    if not isinstance(expressions, list) or not all(isinstance(x, str) and x for x in expressions):
        raise NotAllowed("true, false, or a list of regular expressions")
    for expression in expressions:
        try:
            re.compile(expression)
        except (re.error, RecursionError, OverflowError) as error:
            raise NotAllowed(f"regular expressions: {expression!r} is none: {error}") from None
    return tuple(expressions)


def _auth(value: Any) -> Auth:
    allowed = 'a table with user and password, or with bearer, and scheme = "http" if need be'
    if not isinstance(value, dict):
        raise NotAllowed(allowed)
    scheme = value.get("scheme", "https")
    secret = {name: text for name, text in value.items() if name != "scheme"}
    if scheme not in ("http", "https") or set(secret) not in ({"user", "password"}, {"bearer"}):
        raise NotAllowed(allowed)
    if not all(isinstance(text, str) and text.isprintable() for text in secret.values()):
        raise NotAllowed("texts of one line")
    if "bearer" in secret:
        if not re.fullmatch(r"[A-Za-z0-9._~+/-]+=*", secret["bearer"]):  # RFC 6750, 2.1
            raise NotAllowed("a bearer token of letters, digits and ._~+/-=")
        return Auth(f"Bearer {secret['bearer']}", scheme)
    if ":" in secret["user"]:  # RFC 7617, 2
        raise NotAllowed("a user without a colon")
    pair = f"{secret['user']}:{secret['password']}".encode()
    return Auth(f"Basic {b64encode(pair).decode()}", scheme)


FIELDS = {
    "delay": Field("delay_s", _of(seconds(), int, float)),
    "max_pages": Field("max_pages", _of(_WHOLE, int)),
    "max_bytes": Field("max_bytes", _of(SIZE, int, str)),
    "max_depth": Field("max_depth", _of(_WHOLE, int)),
    "timeout": Field("timeout_s", _of(seconds(0.001), int, float)),
    "max_size": Field("max_size_bytes", _of(SIZE, int, str)),
    "user_agent": Field("user_agent", _of(USER_AGENT, str)),
    "headers": Field("headers", _headers),
    "auth": Field("auth", _auth),
    "robots_agent": Field("robots_agent", _robots_agent),
    "obey_robots": Field("obey_robots", _of(_SWITCH, bool)),
    "deny": Field("deny", _deny),
    "priority": Field("priority", _of(whole(-PRIORITY_MAX, most=PRIORITY_MAX), int)),
}
# By name in `Values`: the name in the file.
FIELD_NAMES = {field.name: name for name, field in FIELDS.items()}


def load(path: Path) -> tuple[HostRule, ...]:
    """The rules in the file at `path`. RulesError. 30 µs per rule: 3 s for 100,000.

    A file that has not changed since the last call is not read again.
    """
    try:
        return _load(path, stamp(path))
    except OSError as error:
        raise RulesError(f"{path} cannot be read: {error.strerror}") from None


def stamp(path: Path) -> tuple[int, ...]:
    """Differs once the file has changed. OSError."""
    now = path.stat()
    return now.st_mtime_ns, now.st_ctime_ns, now.st_size, now.st_ino


@lru_cache(1)
def _load(path: Path, _: tuple[int, ...]) -> tuple[HostRule, ...]:
    try:
        text = read_text(path)
    except NotAFile as error:
        raise RulesError(str(error)) from None
    except UnicodeDecodeError as error:
        raise RulesError(f"{path} is not UTF-8 text: {error}") from None
    return parse(text, path.name)


def parse(text: str, file: str) -> tuple[HostRule, ...]:
    """The rules in `text`, of the file named `file`. RulesError."""
    try:
        document = tomllib.loads(text)
    except ValueError as error:  # TOMLDecodeError, or of a number with thousands of digits
        at = _AT_LINE.fullmatch(str(error))
        where, why = (f"{file}, line {at[2]}", at[1]) if at else (file, str(error))
        raise RulesError(f"{where}: {why}") from None
    except RecursionError:
        raise RulesError(f"{file}: arrays or tables are nested too deeply") from None
    tables = document.get("rule", [])
    for key in document:
        if key != "rule":
            raise RulesError(f"{file}: {key!r} is unknown: each rule begins with [[rule]]")
    if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
        raise RulesError(f"{file}: each rule begins with [[rule]]")
    heads = [number for number, line in enumerate(text.split("\n"), 1) if _HEADER.match(line)]
    if len(heads) != len(tables):  # written in another way: no line is known
        heads = [0] * len(tables)
    rules = []
    first: dict[tuple[str, str, str], str] = {}  # by kind, target and value: where it is set
    for number, (line, table) in enumerate(zip(heads, tables, strict=True), 1):
        where = f"{file}, line {line}" if line else file
        try:
            rules.append(_rule(line, table))
            _refuse_twice(rules[-1], f"line {line}" if line else f"rule {number}", first)
        except NotAllowed as error:
            raise RulesError(f"{where}: {error}") from None
    return tuple(rules)


def _rule(line: int, table: dict[str, Any]) -> HostRule:
    """The rule that begins at `line`. NotAllowed."""
    for key in table:
        if key not in FIELDS and key not in TARGETS:
            near = get_close_matches(key, [*FIELDS, *TARGETS], 1)
            hint = f", did you mean {near[0]}?" if near else ""
            raise NotAllowed(f"{key!r} is unknown{hint}")
    targets = {TARGETS[key]: _targets(key, table[key]) for key in TARGETS if key in table}
    if not any(targets.values()):
        raise NotAllowed("a rule needs a host, a domain or a suffix")
    values = {FIELDS[key].name: _value(key, table[key]) for key in table.keys() & FIELDS}
    if not values:
        raise NotAllowed(f"a rule needs one of {', '.join(FIELDS)}")
    if "auth" in values and set(targets) != {"hosts"}:
        raise NotAllowed("auth needs a rule whose targets are host alone")
    return HostRule(line=line, values=Values(**values), **targets)


def _value(key: str, value: object) -> Any:
    try:
        return FIELDS[key].read(value)
    except NotAllowed as error:
        shown = "" if key in ("headers", "auth") else f" = {_short(value)}"  # may be a secret
        raise NotAllowed(f"{key}{shown} cannot be used: {error}") from None


def _targets(key: str, value: Any) -> tuple[str, ...]:
    names = []
    for entry in value if isinstance(value, list) else [value]:
        name = named_host(entry) if isinstance(entry, str) else ""
        if not name or (key == "host" and entry[:1] in "*."):
            kind = {"host": "host name or address", "domain": "domain", "suffix": "suffix"}[key]
            allowed = f"a {kind} without scheme, port and path, or a list of them"
            raise NotAllowed(f"{key} = {_short(entry)} cannot be used: {allowed}")
        names.append(name)
    return tuple(dict.fromkeys(names))


def _refuse_twice(rule: HostRule, where: str, first: dict[tuple[str, str, str], str]) -> None:
    """NotAllowed if an earlier rule sets the same value for the same target."""
    names = [name for name, _ in values_of(rule)]
    for kind, attribute in TARGETS.items():
        for target in getattr(rule, attribute):
            for name in names:
                if (earlier := first.setdefault((kind, target, name), where)) is not where:
                    field = FIELD_NAMES.get(name, name)
                    raise NotAllowed(f"{field} of {kind} {target} is set already: {earlier}")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def unobeyed(rules: Sequence[HostRule]) -> list[str]:
    """The targets whose robots.txt is not obeyed, as "domain example.com"."""
    return [
        f"{kind} {target}"
        for rule in rules
        if rule.values.obey_robots is False
        for kind, attribute in TARGETS.items()
        for target in getattr(rule, attribute)
    ]
