"""The pages' references: links, anchors, paths of files and import paths lead somewhere."""

import re
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page
    for pattern in ("*.md", "docs/*.md", "seeds/*.md", "simweb/*.md", "benchmarks/*.md")
    for page in ROOT.glob(pattern)
)
TOPS = (ROOT, ROOT / "webcrawl")  # where paths begin
OF_THE_PAST = {"CHANGELOG.md"}  # names import paths that are gone

_FENCE = re.compile(r"^\s*```.*?^\s*```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
_CODE = re.compile(r"`([^`\n]+)`")
_FILE = re.compile(r"(?:\w[\w-]*/)+\w[\w.-]*\.(?:py|c|md)")
_IMPORT = re.compile(r"webcrawl(?:\.\w+)+")


def text_of(page: Path) -> str:
    """Without blocks of code, whose lines may begin with # as headings do."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """As GitHub makes them: lower case, without punctuation, with hyphens for spaces."""
    headings = _HEADING.findall(text_of(page))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_reference_of_a_page_leads_somewhere(page: Path) -> None:
    faults = [*broken_links(page)]
    if page.name not in OF_THE_PAST:
        faults += [*missing_files(page), *missing_objects(page)]
    assert faults == []


def test_broken_references_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A `b`: c\n[good](#a-b-c) [bad](#b) [gone](gone.md) [web](https://example.org/gone.md)\n"
        "`parse/urls.py` `parse/gone.py` `webcrawl.items.Page` `webcrawl.items.Gone`\n"
        "```\n# no heading\n[no link](gone)\n```\n"
    )
    assert [*broken_links(page)] == ["#b", "gone.md"]
    assert [*missing_files(page)] == ["parse/gone.py"]
    assert [*missing_objects(page)] == ["webcrawl.items.Gone"]
