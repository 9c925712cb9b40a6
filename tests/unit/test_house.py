"""The house's structure: imports run one way, the core knows no Scrapy, names say something.

Each rule is a function from a package's modules to its faults. It is run on the package, where it
must find none, and on a made-up one, where it must find the fault.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.cases import each_of

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

# A package may import itself and what stands in the rows above it.
CORE_LAYERS = (
    {"base"},
    {"fetch"},
    {"parse"},
    {"scope", "warc", "crawllog"},
    {"frontier"},
    {"hub"},
    {"cluster"},
    {"admission"},
)
ADAPTER_LAYERS = (
    {"crawl"},
    {"config"},
    {"report", "fastpath"},
    {"scheduler"},
    {"downloader", "spiders", "live"},
    {"tools"},
    {"middlewares", "pipelines", "extensions", "commands"},
)
LAYERS = CORE_LAYERS + ADAPTER_LAYERS
CORE = frozenset().union(*CORE_LAYERS)
SHARED = {"items", "settings", "signals"}  # plain values that core and adapters hand to one another
SCRAPY = {"scrapy", "twisted", "itemadapter", "queuelib", "parsel"}
NEWER_PYTHON = {"compression"}  # standard library of Python 3.14
# One room in the picture of the imports: the folders that Scrapy's users know, and what joins them.
ONE_ROOM = {"crawl", "downloader", "extensions", "fastpath", "middlewares", "pipelines"} | {
    *("scheduler", "signals", "spiders"),
}
ROOMS_MAX, ARROWS_MAX = 22, 100  # more cannot be seen at a glance
EMPTY_WORDS = {"manager", "helper", "helpers", "util", "utils", "common", "misc"}

Modules = dict[str, ast.Module]  # "webcrawl.parse.urls" -> its syntax tree
Fault = Callable[[Modules], Iterator[str]]


def modules_of(folder: Path) -> Modules:
    """All modules of the package in `folder`."""
    modules = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        modules[name] = ast.parse(path.read_text(encoding="utf-8"), str(path))
    return modules


@cache
def imports_of(tree: ast.Module, *, at_run_time: bool = False) -> list[str]:
    """Full names that a module imports, wherever it does; at run time: on its own import."""
    return list(_imports_of(tree, at_run_time))


def _imports_of(tree: ast.Module, at_run_time: bool) -> Iterator[str]:
    skipped: set[ast.AST] = set()
    for node in ast.walk(tree):
        if at_run_time and (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
        ):
            skipped.update(ast.walk(node))
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide where a name comes from"
            assert node.module is not None
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def part_of(name: str) -> str:
    """The package or module right under the root that `name` belongs to, "" outside the root."""
    root, _, rest = name.partition(".")
    return rest.partition(".")[0] if root == "webcrawl" else ""


def steps_back(modules: Modules) -> Iterator[str]:
    rank = {package: n for n, layer in enumerate(LAYERS) for package in layer}
    for module, tree in modules.items():
        part = part_of(module)
        for target in imports_of(tree):
            to = part_of(target)
            if part not in rank or to in SHARED | {"", "__version__", part}:
                continue
            if rank.get(to, len(LAYERS)) >= rank[part]:
                yield f"{module} imports {target}"


def tools_in_a_crawl(modules: Modules) -> Iterator[str]:
    """A tool is imported when it is used. Scrapy imports all commands at each crawl."""
    for module, tree in modules.items():
        for target in imports_of(tree, at_run_time=True):
            if part_of(target) == "tools" != part_of(module):
                yield f"{module} imports {target}"


def scrapy_in_the_core(modules: Modules) -> Iterator[str]:
    for module, tree in modules.items():
        for target in imports_of(tree):
            if part_of(module) in CORE | SHARED - {"settings"} and root(target) in SCRAPY:
                yield f"{module} imports {target}"


def packages_without_a_layer(modules: Modules) -> Iterator[str]:
    known = frozenset().union(*LAYERS) | SHARED | {"", "__main__"}
    yield from sorted({part_of(module) for module in modules} - known)


def cycles(modules: Modules) -> Iterator[str]:
    graph = {
        module: {
            target if target in modules else target.rpartition(".")[0]
            for target in imports_of(tree, at_run_time=True)
        }
        for module, tree in modules.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        yield " imports ".join(reversed(error.args[1]))


def empty_names(modules: Modules) -> Iterator[str]:
    for module in modules:
        if EMPTY_WORDS & set(module.rpartition(".")[2].split("_")):
            yield module


def modules_without_a_docstring(modules: Modules) -> Iterator[str]:
    for module, tree in modules.items():
        if tree.body and not ast.get_docstring(tree):
            yield module


RULES: dict[Fault, dict[str, str]] = {
    steps_back: {"parse/a.py": "def f():\n    from webcrawl.frontier import lease"},
    tools_in_a_crawl: {"live/a.py": "from webcrawl.tools.explain import explanation"},
    scrapy_in_the_core: {"warc/a.py": "from twisted.internet import defer"},
    packages_without_a_layer: {"more/a.py": ""},
    cycles: {"a.py": "from webcrawl import b", "b.py": "from webcrawl.a import x"},
    empty_names: {"parse/url_utils.py": ""},
    modules_without_a_docstring: {"parse/a.py": "x = 1"},
}


@pytest.fixture(scope="module")
def house() -> Modules:
    return modules_of(ROOT / "webcrawl")


@each_of("rule", RULES)
def test_the_house_keeps(rule: Fault, house: Modules) -> None:
    assert list(rule(house)) == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_fault_is_found(rule: Fault, tmp_path: Path) -> None:
    write_package(tmp_path / "webcrawl", RULES[rule])
    assert len(list(rule(modules_of(tmp_path / "webcrawl")))) == 1


def test_the_house_is_seen_at_a_glance(house: Modules) -> None:
    """Rooms, and arrows between them. `base` is no room: all stand on it."""
    modules = house | modules_of(ROOT / "simweb") | modules_of(ROOT / "benchmarks")
    arrows = {
        (room_of(module), room_of(target))
        for module, tree in modules.items()
        for target in imports_of(tree)
    }
    arrows = {(a, b) for a, b in arrows if a != b and {a, b}.isdisjoint({"", "base"})}
    rooms = {room for arrow in arrows for room in arrow}
    assert {"adapters", "benchmarks", "frontier"} < rooms
    assert len(rooms) <= ROOMS_MAX, sorted(rooms)
    assert len(arrows) <= ARROWS_MAX, sorted(arrows)


def room_of(name: str) -> str:
    """The room of a module or of a name in it, "" if it is of neither us nor a folder."""
    if root(name) in {"simweb", "benchmarks"}:
        return root(name)
    part = part_of(name)
    return "adapters" if part in ONE_ROOM else "" if part[:1] == "_" else part


def test_the_simulated_web_knows_nothing_of_the_crawler() -> None:
    """It judges the crawler, so it shares no code with it, and it is not shipped."""
    modules = modules_of(ROOT / "simweb")
    assert len(modules) > 20
    assert {root(name) for tree in modules.values() for name in imports_of(tree)} & {
        "webcrawl",
        "scrapy",
    } == set()


def test_a_crawl_loads_no_web_server_and_only_with_cluster_the_bus() -> None:
    """The bus takes 0.1 s. Scrapy loads all commands and, at each crawl, all extensions.

    The check of settings needs one module.
    """
    text = (
        "import sys\n"
        "from scrapy.utils.misc import load_object, walk_modules_iter\n"
        "from webcrawl import settings\n"
        "list(walk_modules_iter('webcrawl.commands'))\n"
        "for name in settings.EXTENSIONS_BASE:\n"
        "    load_object(name)\n"
        "import webcrawl.live.livecrawl\n"
        "loaded = sorted(name for name in sys.modules if name.startswith('webcrawl.cluster.'))\n"
        "assert loaded == ['webcrawl.cluster.address'], loaded\n"
        "others = {'nats', 'obstore', 'aiohttp', 'scrapy.extensions.remote_control', 'simweb'}\n"
        "assert not others & {*sys.modules}, others & {*sys.modules}\n"
    )
    subprocess.run([sys.executable, "-c", text], cwd=ROOT, check=True, timeout=120)


def test_the_process_that_reads_large_bodies_loads_no_scrapy() -> None:
    """It starts in 0.1 s of CPU; with Scrapy it took 0.5, in each process of a crawl."""
    text = (
        "import sys, webcrawl.parse.bodyprocess\n"
        "sys.exit(bool({'scrapy', 'twisted'} & {*sys.modules}))"
    )
    subprocess.run([sys.executable, "-c", text], cwd=ROOT, check=True, timeout=120)


def test_requirements_are_those_of_the_package_and_its_extras() -> None:
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    extras = PROJECT["optional-dependencies"]
    wanted = [*PROJECT["dependencies"], *extras["tools"], *extras["cluster"]]
    assert {Requirement(line) for line in lines if line[0] != "#"} == set(map(Requirement, wanted))


@each_of("extra", ["", "tools", "corpus", "store", "cluster"])
def test_a_package_is_required_by_those_who_import_it(extra: str, house: Modules) -> None:
    """Neither a package that happens to be there, nor one that nobody uses any more."""
    extras = PROJECT["optional-dependencies"]
    base, more = map(required, (PROJECT["dependencies"], extras.get(extra, [])))
    imported = {
        root(name)
        for module, tree in house.items()
        if extra in extras_of(module)
        for name in imports_of(tree)
    }
    imported.add("uvloop")  # the settings name it, and Scrapy imports it
    imported -= {"webcrawl", "webcrawl_scan", *NEWER_PYTHON, *sys.stdlib_module_names}
    names = packages_distributions()
    providers = {top: set(map(canonical, names.get(top, ()))) for top in imported}
    assert {top for top in imported if not providers[top] & (base | more)} == set()
    assert (more or base) - set().union(*providers.values()) == set()


def extras_of(module: str) -> tuple[str, ...]:
    """The extras that need a module, "" for what each crawl needs."""
    if module == "webcrawl.tools.progress":
        return ("tools", "corpus")
    corpus = "webcrawl.tools.corpus", "webcrawl.parse.detection", "webcrawl.parse.sketch"
    if module.startswith(corpus):
        return ("corpus",)
    if module == "webcrawl.warc.objects":
        return ("store",)
    return ({"tools": "tools", "cluster": "cluster", "hub": "cluster"}.get(part_of(module), ""),)


def required(lines: list[str]) -> set[str]:
    return {canonical(Requirement(line).name) for line in lines}


def root(name: str) -> str:
    return name.partition(".")[0]


def canonical(name: str) -> str:
    """A distribution's name (PyPA, name normalization)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def write_package(folder: Path, files: dict[str, str]) -> None:
    for name, source in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
