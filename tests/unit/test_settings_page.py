"""docs/settings.md says what the table of settings and the defaults say."""

from __future__ import annotations

import re
from pathlib import Path

from scrapy.settings import default_settings

from webcrawl import settings as project
from webcrawl.config.table import MOST_USED, TABLE
from webcrawl.frontier.orderings import ORDERINGS
from webcrawl.tools.settingspage import page

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_is_up_to_date() -> None:
    command = "python -m webcrawl.tools.settingspage > docs/settings.md"
    assert (DOCS / "settings.md").read_text(encoding="utf-8") == page(), f"run: {command}"


def test_the_page_shows_defaults_with_their_units() -> None:
    for row in (
        "`DOWNLOAD_DELAY` | 30 s | a number of seconds, 0 or more |",
        "| `DOWNLOAD_MAXSIZE` | 10 MiB |",
        "| `WARC_MAX_SIZE` | 1 GB |",
        "| `FRONTIER_ACTIVE_HOSTS` | 20,000 |",
        "`SCOPE_DENY` | empty |",
        "`JOBDIR` | unset |",
        "| `CONTENT_TYPES` | `text/html, application/xhtml+xml, application/rss+xml, ",
    ):
        assert row in page()


def test_the_page_begins_with_the_twelve_that_matter() -> None:
    begin = page().partition("\n## What is crawled")[0].partition("## The twelve")[2]
    links = re.findall(r"^- \[`(\w+)`\]\(#(\w+)\): ", begin, re.MULTILINE)
    assert links == [(name, name.lower()) for name in MOST_USED]
    assert len(links) == 12
    for name, anchor in links:
        assert page().count(f'\n| <a id="{anchor}"></a>`{name}` | ') == 1


def test_each_setting_is_read_by_code() -> None:
    """A row of the table whose name no other module has is a setting without effect."""
    package = Path(project.__file__).parent
    sources = {*package.rglob("*.py")} - {package / "settings.py", package / "config/table.py"}
    code = "".join(path.read_text(encoding="utf-8") for path in sources)
    assert [name for name in TABLE if f'"{name}"' not in code] == []


def test_each_ordering_is_documented_and_has_its_test() -> None:
    """By a section or a row of a page, in the list of settings, and in the frontier's contract."""
    pages = "".join(path.read_text(encoding="utf-8") for path in DOCS.glob("*.md"))
    contract = (DOCS.parent / "tests/contracts/frontier.py").read_text(encoding="utf-8")
    for name in ORDERINGS:
        assert re.search(rf"^(#+|\|) `{name}`", pages, re.MULTILINE), name
        assert f"`{name}`" in TABLE["FRONTIER_ORDER"].meaning
        assert f'order="{name}"' in contract, name


def test_each_default_is_in_one_place() -> None:
    """In the project's settings or, where the project keeps it, in Scrapy's."""
    for name in TABLE:
        assert hasattr(project, name) or hasattr(default_settings, name)
