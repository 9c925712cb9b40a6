"""Import paths of an earlier version in settings: one line each, with the new path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scrapy.settings import Settings
from scrapy.utils.misc import load_object

from webcrawl import settings as defaults
from webcrawl.config.moved import MOVED, moved_paths
from webcrawl.config.names import check_names
from webcrawl.spiders.broad import BroadSpider

CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"
HANDLER = "webcrawl.handler.DownloadHandler"


def project_settings(**overrides: Any) -> Settings:
    settings = Settings()
    settings.setmodule(defaults, priority="project")
    settings.setdict(overrides, priority="project")
    return settings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("STATS_CLASS", "webcrawl.statscollector.StatsCollector"),
        ("EXTENSIONS", {"webcrawl.extensions.shortway.ShortWay": None}),
        ("SPIDER_MIDDLEWARES", {"webcrawl.visits.VisitMiddleware": 10}),
        ("DOWNLOAD_HANDLERS", {"http": HANDLER, "https": HANDLER}),
    ],
)
def test_an_old_path_is_one_line_with_the_setting_and_the_new_path(name: str, value: Any) -> None:
    (line,) = check_names(project_settings(**{name: value}), BroadSpider, {}).misspelt
    (old,) = (path for path in MOVED if path in line)
    assert line == f"{name} names {old}, which is {MOVED[old]} in this version"


def test_the_defaults_name_no_old_path() -> None:
    assert [*moved_paths(project_settings())] == []


@pytest.mark.parametrize(("old", "new"), MOVED.items())
def test_the_new_path_exists_and_the_changelog_has_both(old: str, new: str) -> None:
    assert load_object(new)
    assert f"| `{old}` | `{new}` |" in CHANGELOG.read_text(encoding="utf-8")
