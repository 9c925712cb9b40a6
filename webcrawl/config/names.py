"""Finds names of settings and spider arguments that no code reads: mostly misspelt ones.

A name is known if it is in Scrapy's or the project's defaults, or if the code of this crawl reads
it: the packages of the spider, of the settings module, and of all components that a setting names
by import path. The code is searched as text, and only if a name is in no default. The search takes
some 30 ms for Scrapy and this project, and as long for as many files of the user's. If the user's
code builds names (`f"MONGO_URI_{number}"`, `name.startswith("KAFKA_")`), every name with that
prefix is known.

Text that gives a value (`NAME = 1`, `"NAME": 1`, `NAME=1`, `set("NAME", 1)`) does not read the
name.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from scrapy import Spider
from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings, default_settings

from webcrawl import settings as project_settings
from webcrawl.config.moved import moved_paths

# difflib's ratio, without "_": SCOPE_SUFFIX and SCOPE_SUFFIXES have .92. Of the 40,000 pairs of
# Scrapy's and the project's own names, only 17 have this ratio or more.
MISSPELT = 0.865
NEAR = 0.75  # near enough for a hint
_ARGUMENT_MISSPELT = 0.8  # lower, as they are short: "seed" and "seeds" have .89
_FILES_MAX = 5000  # source files per package
_USERS = {SETTINGS_PRIORITIES[name] for name in ("project", "spider", "cmdline")}
_OURS = ("scrapy", "webcrawl")
# Settings whose import paths read no setting, or whose hosts look like import paths.
_NO_COMPONENTS = frozenset(("ASYNCIO_EVENT_LOOP", "SCOPE_DENY", "SCOPE_ALLOW", "SCOPE_SUFFIXES"))
_NO_READERS = sys.stdlib_module_names | {"twisted"}

_IMPORT_PATH = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_GIVES = r"(?!['\"]?\]?\s*(?::|=(?!=)))"
_QUOTED = re.compile(r"['\"]([A-Z][A-Z0-9]*_[A-Z0-9_]*[A-Z0-9])\b" + _GIVES)
_PREFIX = re.compile(r"['\"]([A-Z][A-Z0-9_]*_)(?=['\"{%])" + _GIVES)
_SET = re.compile(r"\bset(?:default)?\(\s*f?['\"][A-Z][A-Z0-9_]*")
_COMMENT = re.compile(r"#[^\n]*")


class Names(NamedTuple):
    """One line per name: misspelt and moved ones, which end the crawl, and those no code reads."""

    misspelt: list[str]
    unread: list[str]


def check_names(
    settings: BaseSettings, spider: type[Spider], arguments: Mapping[str, Any]
) -> Names:
    """Check the names of `settings` that users gave, and of the spider's `arguments`.

    O(settings) if all names are in the defaults.
    """
    found = Names([*moved_paths(settings)], [])
    code = _Code(settings, spider)
    for name in sorted(_given(settings) - _defaults()):
        if not (code.reads(name, _reading(name)) or name.startswith(code.prefixes)):
            _settings_line(found, name, code)
    for name in arguments:
        if not (name.startswith("_") or _takes(spider, name) or code.takes(name)):
            _arguments_line(found, name, spider)
    return found


def _settings_line(found: Names, name: str, code: _Code) -> None:
    names = (_defaults() | code.setting_names) - {name}
    known = {_squeezed(each): each for each in sorted(names)}
    near = [each for each in known if _is_swapped(each, _squeezed(name))]
    near = near or get_close_matches(_squeezed(name), known, 1, MISSPELT)
    if near:
        found.misspelt.append(f"{name} is not a setting; did you mean {known[near[0]]}?")
        return
    near = get_close_matches(_squeezed(name), known, 1, NEAR)
    hint = f"; the nearest is {known[near[0]]}" if near else ""
    found.unread.append(
        f"{name} is set, but no code in this crawl reads it; it may be misspelt{hint}"
    )


def _arguments_line(found: Names, name: str, spider: type[Spider]) -> None:
    near = get_close_matches(name.lower(), _parameters(spider), 1, _ARGUMENT_MISSPELT)
    if near:
        found.misspelt.append(f"-a {name}= is not an argument; did you mean -a {near[0]}=?")
    else:
        found.unread.append(f"-a {name}= is given, but spider {spider.name!r} does not read it")


def _defaults() -> set[str]:
    """The names in Scrapy's and the project's default settings."""
    modules = default_settings, project_settings
    return {name for module in modules for name in dir(module) if name.isupper()}


def _given(settings: BaseSettings) -> set[str]:
    """Names that users gave: with -s, in custom_settings, in a settings module or a script."""
    names = {name for name in settings if settings.getpriority(name) in _USERS}
    return {name for name in names if name[:1] != "_"} - {"SETTINGS_MODULE"}  # set by Scrapy


def _squeezed(name: str) -> str:
    return name.upper().replace("_", "")


def _is_swapped(one: str, other: str) -> bool:
    """Whether two adjacent letters are swapped: one mistake, but a low ratio in a short name."""
    differing = [at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b]
    return (
        len(one) == len(other)
        and len(differing) == 2
        and differing[1] == differing[0] + 1
        and one[differing[0]] == other[differing[1]]
        and one[differing[1]] == other[differing[0]]
    )


def _reading(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(name)}\b{_GIVES}")


def _using(argument: str) -> re.Pattern[str]:
    """Matches code that reads an attribute of a spider, or a keyword argument."""
    word = re.escape(argument)
    return re.compile(rf"(?:\b(?:self|spider)\.{word}\b|['\"]{word}['\"])")


def _takes(spider: type[Spider], argument: str) -> bool:
    return argument in _parameters(spider) or hasattr(spider, argument)


def _parameters(spider: type[Spider]) -> list[str]:
    """Names of the parameters of the spider and its bases."""
    return [
        parameter.name
        for base in spider.__mro__[:-1]
        for method in ("__init__", "from_crawler")
        if method in vars(base)
        for parameter in inspect.signature(getattr(base, method)).parameters.values()
        if parameter.kind is not parameter.VAR_KEYWORD and parameter.name != "self"
    ]


class _Code:
    """The source text of a crawl's code, read on first use."""

    def __init__(self, settings: BaseSettings, spider: type[Spider]) -> None:
        self._settings = settings
        self._spider = spider

    def reads(self, name: str, pattern: re.Pattern[str]) -> bool:
        """Whether `pattern`, which has `name` in it, matches any text.

        This project reads settings by their quoted names: `Step.SITEMAP` reads no setting.
        """
        quoted = re.compile(rf"(?<=['\"]){pattern.pattern}")
        return any(
            name in text and (quoted if package == "webcrawl" else pattern).search(text)
            for package, texts in self._texts.items()
            for text in texts
        )

    def takes(self, argument: str) -> bool:
        """Whether any code uses `argument`; of this project only its spiders can."""
        packages = self._texts.keys() - {"webcrawl"}
        texts = [text for package in packages for text in self._texts[package]]
        return any(map(_using(argument).search, [*texts, *_sources("webcrawl.spiders")]))

    @cached_property
    def setting_names(self) -> set[str]:
        """Quoted names that look like names of settings."""
        return {
            name
            for texts in self._texts.values()
            for text in texts
            for name in _QUOTED.findall(text)
        }

    @cached_property
    def prefixes(self) -> tuple[str, ...]:
        """Prefixes of names that the user's code builds; not those of Scrapy and this project."""
        return tuple(
            {
                prefix
                for package in self._texts.keys() - _OURS
                for text in self._texts[package]
                for prefix in _PREFIX.findall(text)
            }
        )

    @cached_property
    def _texts(self) -> dict[str, list[str]]:
        """By package: the text of its files, without comments and names that they set."""
        packages = {*_OURS, "__main__", *self._packages()}
        return {
            package: [_SET.sub("set(", _COMMENT.sub("", text)) for text in _sources(package)]
            for package in packages
        }

    def _packages(self) -> Iterator[str]:
        """Top-level packages of the settings module, the spider's classes, and import paths in
        settings.
        """
        if module := os.environ.get("SCRAPY_SETTINGS_MODULE"):
            yield module.partition(".")[0]
        for base in self._spider.__mro__[:-1]:
            yield base.__module__.partition(".")[0]
        for name in self._settings.keys() - _NO_COMPONENTS:
            for path in _strings(self._settings[name]):
                if _IMPORT_PATH.fullmatch(path) or name in ("SPIDER_MODULES", "COMMANDS_MODULE"):
                    yield path.partition(".")[0]


def _strings(value: Any) -> Iterator[str]:
    """Import paths in a setting's items and keys; of classes and functions too."""
    if isinstance(value, str):
        yield from value.split(",")
    elif isinstance(value, Mapping | BaseSettings):
        for key, each in value.items():
            yield from _strings(key)
            if not isinstance(each, Mapping | BaseSettings):
                yield from _strings(each)
    elif isinstance(value, Iterable) and not isinstance(value, bytes):
        for each in value:
            if not isinstance(each, Iterable) or isinstance(each, str):
                yield from _strings(each)
    elif callable(value):
        yield f"{value.__module__}.{getattr(value, '__qualname__', '')}"


def _sources(package: str) -> Iterator[str]:
    """The texts of the Python files of a package or a module, in an egg too."""
    if package in _NO_READERS:
        return
    module = sys.modules.get(package)
    try:
        if module is not None and not hasattr(module, "__path__"):
            file = getattr(module, "__file__", None)
            paths: Iterable[Traversable] = [Path(file)] if file else []
        elif (spec := find_spec(package)) is None:
            return
        elif spec.submodule_search_locations is None:
            paths = [Path(spec.origin or "")]
        else:
            paths = _python_files(files(package))
        for path, _ in zip(paths, range(_FILES_MAX), strict=False):
            yield path.read_text("utf-8", "replace")  # type: ignore[call-arg]  # Path and zip take it
    except (ImportError, OSError, ValueError):
        return  # the import of the package reports it


def _python_files(folder: Traversable) -> Iterator[Traversable]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _python_files(each)
        elif each.name.endswith(".py"):
            yield each
