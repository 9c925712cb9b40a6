"""Names that are private to Scrapy: which are used, and what happens when one is missing."""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from pkgutil import iter_modules, resolve_name
from types import CodeType, FunctionType
from typing import Any

import pytest
import scrapy
from scrapy.commands import ScrapyCommand
from scrapy.crawler import Crawler
from scrapy.settings import Settings

import webcrawl
from webcrawl import commands
from webcrawl.crawl import scrapy_private
from webcrawl.crawl.scrapy_private import FAST_PATH, PROMISES, Names
from webcrawl.extensions import worker
from webcrawl.extensions.startcheck import StartCheck

PACKAGE = Path(webcrawl.__file__).parent
ALL = PROMISES + FAST_PATH


def is_private(name: str) -> bool:
    return len(name) > 1 and name.startswith("_") and not name.startswith("__")


def each_name(rows: tuple[Names, ...]) -> list[Any]:
    return [
        pytest.param(row, name, id=f"{row.owner}.{name}")
        for row in rows
        for name in row.names.split()
    ]


# What is used


@cache
def private_to_scrapy() -> frozenset[str]:
    """All names with an underscore that Scrapy's source defines, and its modules of such a name."""
    found = set()
    for path in Path(scrapy.__file__).parent.rglob("*.py"):
        found.add(path.stem)
        for node in ast.walk(ast.parse(path.read_bytes())):
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                    found.add(node.name)
                case ast.Attribute(ctx=ast.Store()):
                    found.add(node.attr)
                case ast.Name(ctx=ast.Store()):
                    found.add(node.id)
    return frozenset(filter(is_private, found))


def codes_of(cls: type) -> Iterator[CodeType]:
    """The code of all methods of a class, and of the functions within."""
    waiting = [
        each.__code__
        for each in map(inspect.unwrap, filter(callable, vars(cls).values()))
        if isinstance(each, FunctionType)
    ]
    while waiting:
        code = waiting.pop()
        yield code
        waiting += [each for each in code.co_consts if isinstance(each, CodeType)]


def names_in(cls: type) -> set[str]:
    """The private names that a class defines, sets or reads."""
    names = {name for code in codes_of(cls) for name in code.co_names} | set(vars(cls))
    return set(filter(is_private, names))


def uses_in(tree: ast.Module) -> Iterator[str]:
    """The private names of other objects than `self`: attributes, imports, and names as text."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                pass
            case ast.Attribute():
                yield node.attr
            case ast.ImportFrom() if (node.module or "").startswith("scrapy"):
                yield from (alias.name for alias in node.names)
                yield from str(node.module).split(".")
            case ast.Constant(value=str(text)) if text.isidentifier() or text[:7] == "scrapy.":
                yield from text.split(".")


def imports_scrapy(tree: ast.Module) -> bool:
    modules = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return any(module.split(".")[0] == "scrapy" for module in modules)


def uses_of(tree: ast.Module, name: str) -> set[str]:
    """The names private to Scrapy that a module uses."""
    used = set(uses_in(tree)) & private_to_scrapy()
    module = importlib.import_module(name)
    for cls in vars(module).values():
        if inspect.isclass(cls) and cls.__module__ == name:
            bases = [each for each in cls.__mro__ if each.__module__.startswith("scrapy.")]
            used |= names_in(cls) & set().union(*map(names_in, bases))
    return used - {"_abc_impl"}  # Python's


def listed_for(name: str) -> set[str]:
    """The names that a module may use."""
    if name == scrapy_private.__name__:
        return {each for row in ALL for each in row.names.split()} | {"_Slot", "_class"}
    return {each for row in ALL if name.startswith(row.user) for each in row.names.split()}


def test_no_other_private_name_of_scrapy_is_used() -> None:
    others = []
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_bytes())
        if imports_scrapy(tree):
            parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
            name = ".".join(parts).removesuffix(".__init__")
            others += [f"{name}: {each}" for each in uses_of(tree, name) - listed_for(name)]
    assert others == []


# A name that is missing


def rename(row: Names, name: str, patch: pytest.MonkeyPatch) -> None:
    """Rename a method, a class attribute, or an attribute that an `__init__` sets."""
    owner = resolve_name(row.owner)
    for each in getattr(owner, "__mro__", [owner]):
        if name in vars(each):
            patch.delattr(each, name)
        init = vars(each).get("__init__")
        if isinstance(init, FunctionType) and name in init.__code__.co_names:
            names = (f"{old}_" if old == name else old for old in init.__code__.co_names)
            patch.setattr(init, "__code__", init.__code__.replace(co_names=tuple(names)))


def test_the_installed_scrapy_has_all_names() -> None:
    assert scrapy.version_info[:2] == scrapy_private.VERSION
    assert scrapy_private.problem() == scrapy_private.no_fast_path() == ""
    scrapy_private.refuse_to_start()


@pytest.mark.parametrize(("row", "name"), each_name(PROMISES))
def test_a_missing_name_is_a_problem_of_one_line(
    row: Names, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename(row, name, monkeypatch)
    problem = scrapy_private.problem()
    assert problem.startswith(f"Scrapy {scrapy.__version__} has no {row.owner}.{name}, and")
    assert "\n" not in problem


@pytest.mark.parametrize(("row", "name"), each_name(FAST_PATH))
def test_the_fast_path_is_off_without_a_name_of_its_own(
    row: Names, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename(row, name, monkeypatch)
    assert scrapy_private.no_fast_path() == f"it has no {row.owner}.{name}"


@pytest.mark.parametrize(
    "owner", ["scrapy.core.engine._Slot", "scrapy.extensions.feedexport.FeedSlot"]
)
def test_a_missing_class_is_named(owner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(owner)
    assert f"has no {owner}, and" in scrapy_private.problem()


# Whatever starts a crawl is refused


@pytest.fixture
def lacking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrapy_private, "problem", lambda: "Scrapy 2.20 has no such name")


def crawling_commands() -> list[type[ScrapyCommand]]:
    names = [each.name for each in iter_modules(commands.__path__, "webcrawl.commands.")]
    found = [getattr(importlib.import_module(name), "Command", None) for name in names]
    return [each for each in found if each is not None and each.requires_crawler_process]


def start(command: ScrapyCommand) -> None:
    parser = argparse.ArgumentParser(conflict_handler="resolve")
    command.settings = Settings()
    command.add_options(parser)
    options = parser.parse_args([])
    command.process_options([], options)
    command.run([], options)


@pytest.mark.usefixtures("lacking")
@pytest.mark.parametrize("command", crawling_commands(), ids=lambda each: each.__module__)
def test_each_command_that_crawls_ends_with_2(
    command: type[ScrapyCommand], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        start(command())
    assert capsys.readouterr().err == "Scrapy 2.20 has no such name\n"


@pytest.mark.usefixtures("lacking")
def test_a_worker_ends_with_2() -> None:
    with pytest.raises(SystemExit, match="2"):
        worker.main(-1)


def test_a_script_gets_an_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    rename(PROMISES[0], "_enqueue_request", monkeypatch)
    with pytest.raises(RuntimeError, match=r"has no scrapy\.core\.downloader\.Downloader\._enq"):
        StartCheck.from_crawler(Crawler(scrapy.Spider))
