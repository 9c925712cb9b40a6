"""The pages: links, anchors, paths of files and import paths lead somewhere; tables are whole."""

import re
from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from pkgutil import iter_modules, resolve_name

from tests.cases import each_of
from webcrawl import commands

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page
    for pattern in ("*.md", "docs/*.md", "seeds/*.md", "simweb/*.md", "benchmarks/*.md")
    for page in ROOT.glob(pattern)
)
MODULES = [module.name for module in iter_modules(commands.__path__)]
TOPS = (ROOT, ROOT / "webcrawl")  # where paths begin
OF_THE_PAST = {"CHANGELOG.md"}  # names import paths that are gone

_FENCE = re.compile(r"^\s*```.*?^\s*```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_ANCHOR = re.compile(r'<a id="([^"]+)"')
_HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
_CODE = re.compile(r"`([^`\n]+)`")
_FILE = re.compile(r"(?:\w[\w-]*/)+\w[\w.-]*\.(?:py|c|md)")
_IMPORT = re.compile(r"webcrawl(?:\.\w+)+")


def text_of(page: Path) -> str:
    """Without blocks of code, whose lines may begin with # as headings do."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """Of headings, as GitHub makes them: lower case, without punctuation, with hyphens for spaces;
    and those that the page sets itself.
    """
    text = text_of(page)
    named = {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in _HEADING.findall(text)
    }
    return named | set(_ANCHOR.findall(text))


def broken_links(page: Path) -> Iterator[str]:
    for link in _LINK.findall(text_of(page)):
        if re.match(r"[a-z]+:", link):  # on the web: not asked for
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield link


def missing_files(page: Path) -> Iterator[str]:
    """Paths in backticks, from the top of the repository or of the package."""
    for code in _CODE.findall(text_of(page)):
        if _FILE.fullmatch(code) and not any((top / code).exists() for top in TOPS):
            yield code


def missing_objects(page: Path) -> Iterator[str]:
    for code in _CODE.findall(text_of(page)):
        if _IMPORT.fullmatch(code):
            try:
                resolve_name(code)
            except (ImportError, AttributeError):
                yield code


def torn_tables(page: Path) -> Iterator[str]:
    """Rows that no heading of a table is above, since an empty line came between."""
    before = ""
    for row, below in pairwise(text_of(page).splitlines()):
        if row.startswith("|") and not before.startswith("|") and not below.startswith("| --"):
            yield row
        before = row


@each_of("page", PAGES)
def test_each_reference_of_a_page_leads_somewhere_and_each_table_is_whole(page: Path) -> None:
    faults = [*broken_links(page), *torn_tables(page)]
    if page.name not in OF_THE_PAST:
        faults += [*missing_files(page), *missing_objects(page)]
    assert faults == []


def test_each_command_is_in_the_docs_and_in_the_list_of_commands() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    modules = {name: import_module(f"{commands.__name__}.{name}") for name in MODULES}
    names = [name for name, module in modules.items() if hasattr(module, "Command")]
    assert names
    undocumented = [
        name for name in names if f"scrapy {name}" not in pages and f"`{name}`" not in pages
    ]
    assert undocumented == []
    assert [name for name in names if f"`{name}`" not in (commands.__doc__ or "")] == []
