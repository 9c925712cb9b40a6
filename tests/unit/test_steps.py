"""What CONTRIBUTING.md asks of whoever adds a setting, parser, command, counter or statistic.

The other steps, of orderings, pages and lists, are in test_settings_page.py and test_docs.py.
"""

from __future__ import annotations

import re
from collections import Counter
from importlib import import_module
from pathlib import Path

from scrapy.settings import default_settings

from tests.unit.test_docs import MODULES
from webcrawl import commands
from webcrawl import settings as project
from webcrawl.config.table import TABLE
from webcrawl.frontier.counters import Counters
from webcrawl.parse.page import PARSERS
from webcrawl.report.lines import named_rates

ROOT = Path(__file__).parents[2]
TESTS = {path: path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py")}
DOCS = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md"))
SITEMAPS = Counters(sitemaps=Counter(found=1))


def test_each_default_of_the_project_is_checked() -> None:
    names = [name for name in vars(project) if name.isupper()]
    assert [name for name in names if not (name in TABLE or hasattr(default_settings, name))] == []


def test_each_setting_is_in_a_test() -> None:
    words = {word for text in TESTS.values() for word in re.findall(r"\w+", text)}
    assert [name for name in TABLE if name not in words] == []


def test_each_parser_is_in_the_tests_of_links_of_time_and_of_random_bytes() -> None:
    """By its name, or a media type that it reads."""
    patterns = {parser: rf"\b{getattr(parser, '__name__', '')}\b" for parser in PARSERS.values()}
    for media_type, parser in PARSERS.items():
        patterns[parser] += f'|"{re.escape(media_type)}'
    links = {"test_links.py", "test_sitemap_reader.py"}  # the second has feeds
    for names in (links, {"test_linear_time.py"}, {"test_page_fuzz.py"}):
        text = "".join(text for path, text in TESTS.items() if path.name in names)
        assert [each for each in patterns.values() if not re.search(each, text)] == [], names


def test_each_command_is_in_a_test() -> None:
    text = "".join(TESTS.values())
    modules = {name: import_module(f"{commands.__name__}.{name}") for name in MODULES}
    names = [name for name, module in modules.items() if hasattr(module, "Command")]
    assert [name for name in names if f'"{name}"' not in text] == []


def test_each_counter_and_each_statistic_is_documented() -> None:
    names = [*Counters.__annotations__, *named_rates(SITEMAPS, 1.0)]
    assert [name for name in names if not re.search(rf"`(webcrawl/)?{name}[`/]", DOCS)] == []


def test_each_statistic_is_tested() -> None:
    text = TESTS[ROOT / "tests/unit/test_stats_lines.py"]
    rates = named_rates(SITEMAPS, 1.0)
    assert [name for name in rates if f'"{name}"' not in text] == []
