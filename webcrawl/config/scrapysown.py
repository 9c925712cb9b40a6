"""Scrapy's own settings that only Scrapy's code reads, and their allowed values.

A wrong one would be a traceback of Scrapy. `check` looks at them with the settings of the table;
the commands do so earlier too, before Scrapy opens the log and loads the event loop, and look for
`unreadable` ones before Scrapy reads any setting.
"""

from __future__ import annotations

import codecs
import json
import logging
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from scrapy.settings import BaseSettings, default_settings
from scrapy.utils.misc import load_object
from scrapy.utils.reactor import is_reactor_installed

from webcrawl.base.wording import SettingError
from webcrawl.config.kinds import (
    BOOL,
    TLS_VERSION,
    Kind,
    NotAllowed,
    seconds,
    where,
    whole,
)
from webcrawl.config.table import TABLE


def _is_level(value: Any) -> bool:
    return value in logging.getLevelNamesMapping() if isinstance(value, str) else type(value) is int


def _open(value: Any) -> None:
    """Open the file of the log, as Scrapy does next."""
    if value:
        open(value, "a").close()


def _format(value: Any) -> None:
    """Format a line: the fields of the format must be those of a line of the log."""
    logging.Formatter(value).format(logging.LogRecord("", 0, "", 0, "", (), None))


def _load(value: Any) -> None:
    """Load from an import path, if there is one. NotAllowed with the reason why that fails."""
    try:
        if value:
            load_object(value)
    except (ImportError, NameError, TypeError, ValueError) as error:
        raise NotAllowed(f"{_PATH_OF_CLASS}: {error}") from None


def _are_modules(value: Any) -> bool:
    """Whether the modules exist. Scrapy reports an error in one of them."""
    names = value.split(",") if isinstance(value, str) else value
    return all(find_spec(name.strip()) for name in names)


_PATH_OF_CLASS: Final = "the import path of a class"
_KINDS: Final = {
    **{
        name: BOOL
        for name, default in vars(default_settings).items()
        if isinstance(default, bool) and name not in TABLE
    },
    **dict.fromkeys(
        (
            *("LOG_FORMATTER", "SPIDER_LOADER_CLASS", "STATS_CLASS", "ASYNCIO_EVENT_LOOP"),
            *("TWISTED_REACTOR", "TWISTED_DNS_RESOLVER", "DNS_RESOLVER"),
        ),
        Kind(_load, _PATH_OF_CLASS),
    ),
    **dict.fromkeys(
        (
            *("CLOSESPIDER_ERRORCOUNT", "CLOSESPIDER_ITEMCOUNT", "CLOSESPIDER_PAGECOUNT_NO_ITEM"),
            *("CLOSESPIDER_TIMEOUT_NO_ITEM", "MEMUSAGE_LIMIT_MB", "MEMUSAGE_WARNING_MB"),
            *("DOWNLOAD_WARNSIZE", "FEED_EXPORT_BATCH_ITEM_COUNT"),
        ),
        whole(0),
    ),
    # Ours reads these two.
    "DOWNLOAD_TLS_MIN_VERSION": TLS_VERSION,
    "DOWNLOAD_TLS_MAX_VERSION": TLS_VERSION,
    "REACTOR_THREADPOOL_MAXSIZE": whole(1),
    "MEMUSAGE_CHECK_INTERVAL_SECONDS": seconds(0.001),
    "LOG_LEVEL": Kind(where(_is_level), "CRITICAL, ERROR, WARNING, INFO or DEBUG"),
    "LOG_FILE": Kind(_open, "a file that can be written, in a folder that exists"),
    "LOG_ENCODING": Kind(codecs.lookup, "an encoding of Python, such as utf-8"),
    "LOG_FORMAT": Kind(_format, "a format of Python's logging, such as %(levelname)s: %(message)s"),
    "SPIDER_MODULES": Kind(
        where(_are_modules), "import paths of modules, with commas between them"
    ),
    "FEEDS": Kind(
        where(lambda value: not value or all(isinstance(each, Mapping) for each in value.values())),
        "a dictionary of dictionaries",
    ),
}


_COMPONENTS: Final = (
    *("ITEM_PIPELINES", "EXTENSIONS", "DOWNLOADER_MIDDLEWARES", "SPIDER_MIDDLEWARES"),
    *("DOWNLOAD_HANDLERS", "ADDONS"),
)


def _misplaced(settings: BaseSettings) -> Iterator[str]:
    """One line for each component that does not exist, or whose place is no number."""
    for name in _COMPONENTS:
        users = settings[name] if isinstance(settings[name], Mapping) else {}
        for key, place in users.items():
            path = place if name == "DOWNLOAD_HANDLERS" else key
            if place is not None and isinstance(path, str) and (lacking := _lacking(path)):
                yield f"{name}: {path!r} cannot be imported: {lacking}"
            if name != "DOWNLOAD_HANDLERS" and not isinstance(place, int | float | None):
                yield f"{name}: {key!r} has {place!r} for its place: a number, or None, is allowed"
    path = settings["DOWNLOADER"]
    if isinstance(path, str) and (lacking := _lacking(path)):
        yield str(SettingError("DOWNLOADER", path, f"{_PATH_OF_CLASS}: {lacking}"))


def _lacking(path: str) -> str:
    """What of an import path does not exist; "" if nothing.

    A module is imported only once the event loop is loaded: one of a user's may import the reactor,
    which would load another.
    """
    module, _, name = path.rpartition(".")
    try:
        if find_spec(module) is None:
            return "there is no such module"
        if module in sys.modules or is_reactor_installed():
            found = hasattr(import_module(module), name)
            return "" if found else f"the module {module} has no {name}"
    except ModuleNotFoundError as error:
        if error.name and (module + ".").startswith(error.name + "."):
            return "there is no such module"
    except Exception:  # of a user's module: Scrapy reports it
        return ""
    return ""


def unusable(settings: BaseSettings) -> Iterator[str]:
    """One line for each of these settings that cannot be used."""
    yield from _misplaced(settings)
    for name, kind in _KINDS.items():
        if name in settings and (why := kind.problem(value := settings[name])):
            shown = value.copy_to_dict() if isinstance(value, BaseSettings) else value
            yield str(SettingError(name, shown, why))


def unreadable(settings: BaseSettings, given: Mapping[str, Any]) -> Iterator[str]:
    """One line for each of the values `given`, by a command line or a spider, that Scrapy cannot
    read: no dictionary, of a setting that is one. "" is empty.
    """
    for name, value in given.items():
        if value != "" and isinstance(settings.get(name), BaseSettings):
            try:
                values = json.loads(value) if isinstance(value, str) else value
            except ValueError:
                values = value
            if not isinstance(values, Mapping | BaseSettings | None):
                yield str(SettingError(name, value, "a dictionary; on the command line as JSON"))


def end_if_any(problems: Iterable[str]) -> None:
    """End the command with a line for each of the `problems`, if there are any."""
    if lines := list(problems):
        print(*lines, sep="\n", file=sys.stderr)
        raise SystemExit(2)
