"""docs/settings.md says what the table of settings and the defaults say."""

from __future__ import annotations

import re
from pathlib import Path

from scrapy.settings import BaseSettings, Settings, default_settings

from webcrawl import __version__
from webcrawl import settings as project
from webcrawl.config.table import MOST_USED, TABLE
from webcrawl.frontier.orderings import ORDERINGS

DOCS = Path(__file__).parents[2] / "docs"


PAGE = (DOCS / "settings.md").read_text(encoding="utf-8")
ROW = re.compile(
    r"^\| (?:<a id=\"(\w+)\"></a>)?`(\w+)` \| (.*?) \| (.*?) \| (.+) \|$", re.MULTILINE
)
_BYTES = ((2**20, "MiB"), (2**10, "KiB"), (10**9, "GB"), (10**6, "MB"))


def default_of(name: str) -> str:
    """A default as users write it; a number with its unit."""
    settings = Settings()
    settings.setmodule(project)
    value, allowed = settings.get(name), TABLE[name].allowed
    is_bytes = "bytes" in allowed or name == "DOWNLOAD_MAXSIZE"
    if value is None:
        return "unset"
    if type(value) in (int, float):
        for size, larger in _BYTES:
            if is_bytes and value and value % size == 0:
                return f"{value // size:,} {larger}"
        return f"{value:,.10g}{' bytes' * is_bytes}{' s' * ('seconds' in allowed)}"
    if isinstance(value, BaseSettings | dict):
        value = [f"{key}: {each}" for key, each in value.items()]
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return f"`{text.replace(__version__, 'VERSION')}`" if text else "empty"


def test_the_page_has_each_setting_with_its_default_and_what_is_allowed() -> None:
    """In the order of the table; and what it means, in the last column."""
    allowed = {name: kind.allowed.replace("*", r"\*") for name, kind in TABLE.items()}
    wanted = [f"`{name}` | {default_of(name)} | {allowed[name]}" for name in TABLE]
    assert [
        f"`{name}` | {default} | {said}" for _, name, default, said, _ in ROW.findall(PAGE)
    ] == wanted


def test_the_page_begins_with_the_twelve_that_matter() -> None:
    begin = PAGE.partition("\n## What is crawled")[0].partition("## The twelve")[2]
    lines = [f"- [`{name}`](#{name.lower()}): {why}" for name, why in MOST_USED.items()]
    assert begin.splitlines()[2:] == lines
    assert len(lines) == 12
    anchors = {name: anchor for anchor, name, *_ in ROW.findall(PAGE) if anchor}
    assert anchors == {name: name.lower() for name in MOST_USED}


def test_each_setting_is_read_by_code() -> None:
    """A row of the table whose name no other module has is a setting without effect."""
    package = Path(project.__file__).parent
    sources = {*package.rglob("*.py")} - {package / "settings.py", package / "config/table.py"}
    code = "".join(path.read_text(encoding="utf-8") for path in sources)
    assert [name for name in TABLE if f'"{name}"' not in code] == []


def test_each_ordering_is_documented_and_has_its_test() -> None:
    """By a section or a row of a page, in the list of settings, and in the frontier's contract."""
    pages = "".join(path.read_text(encoding="utf-8") for path in DOCS.glob("*.md"))
    meanings = {setting: meaning for _, setting, _, _, meaning in ROW.findall(PAGE)}
    contract = (DOCS.parent / "tests/contracts/frontier.py").read_text(encoding="utf-8")
    for name in ORDERINGS:
        assert re.search(rf"^(#+|\|) `{name}`", pages, re.MULTILINE), name
        assert f"`{name}`" in meanings["FRONTIER_ORDER"]
        assert f'order="{name}"' in contract, name


def test_each_default_is_in_one_place() -> None:
    """In the project's settings or, where the project keeps it, in Scrapy's."""
    for name in TABLE:
        assert hasattr(project, name) or hasattr(default_settings, name)
