"""The crawler's parts in Scrapy's dictionaries: a user adds to them, and may switch one off."""

from __future__ import annotations

from typing import Any

from scrapy.settings import Settings, default_settings
from scrapy.utils.misc import load_object
from scrapy.utils.python import global_object_name

from tests.cases import each_of
from tests.projectsettings import of_a_crawl
from webcrawl import settings as project
from webcrawl.config.components import VITAL, losses, refusals
from webcrawl.crawl import PageFetchMiddleware
from webcrawl.middlewares import RobotsTxt
from webcrawl.pipelines.warc import WarcPipeline

WARC = "webcrawl.pipelines.warc.WarcPipeline"
DICTIONARIES = ("ITEM_PIPELINES", "EXTENSIONS", "DOWNLOADER_MIDDLEWARES", "SPIDER_MIDDLEWARES")


def enabled(settings: Settings, name: str) -> set[str]:
    merged = settings.get_component_priority_dict_with_base(name)
    return {global_object_name(load_object(each)) for each in merged}


class Mine:
    """A component of a user's."""


class MyArchive(WarcPipeline):
    """An archive of a user's."""


@each_of("name", DICTIONARIES)
def test_a_path_of_ours_is_where_the_class_is_defined(name: str) -> None:
    """Scrapy compares the paths of a `..._BASE` as they are: another path could not be set None."""
    for path in getattr(project, f"{name}_BASE"):
        assert global_object_name(load_object(path)) == path


@each_of("name", DICTIONARIES)
def test_a_users_component_stands_beside_ours(name: str) -> None:
    ours = enabled(of_a_crawl(), name)
    mine = global_object_name(Mine)
    old = {**getattr(project, name), Mine: 400}  # as users wrote it while ours were in this name
    for chosen in ({Mine: 400}, {mine: 400}, old, f'{{"{mine}": 400}}'):
        assert enabled(of_a_crawl(**{name: chosen}), name) == ours | {mine}


@each_of(
    ("name", "part", "forms"),
    [
        ("ITEM_PIPELINES", WarcPipeline, [WarcPipeline, WARC]),
        (
            "SPIDER_MIDDLEWARES",
            PageFetchMiddleware,
            [PageFetchMiddleware, "webcrawl.crawl.PageFetchMiddleware"],
        ),
        ("DOWNLOADER_MIDDLEWARES", RobotsTxt, [RobotsTxt, "webcrawl.middlewares.RobotsTxt"]),
    ],
)
def test_none_switches_one_off_in_every_form(name: str, part: type, forms: list[Any]) -> None:
    path = global_object_name(part)
    for form in (*forms, path):
        settings = of_a_crawl(**{name: {form: None}})
        assert path in enabled(of_a_crawl(), name)
        assert path not in enabled(settings, name)
        assert len([*refusals(settings), *losses(settings)]) == 1


def test_scrapys_parts_that_are_replaced_are_off_and_can_be_set_back() -> None:
    scrapys = "scrapy.downloadermiddlewares.cookies.CookiesMiddleware"
    assert scrapys in default_settings.DOWNLOADER_MIDDLEWARES_BASE
    assert scrapys not in enabled(of_a_crawl(), "DOWNLOADER_MIDDLEWARES")
    settings = of_a_crawl(DOWNLOADER_MIDDLEWARES={scrapys: 700})
    assert scrapys in enabled(settings, "DOWNLOADER_MIDDLEWARES")


def test_the_table_has_parts_of_the_defaults_only() -> None:
    ours = {path for name in DICTIONARIES for path in getattr(project, f"{name}_BASE")}
    assert set(VITAL) <= ours


def test_a_crawl_with_all_its_parts_says_nothing() -> None:
    for settings in (of_a_crawl(), of_a_crawl(ITEM_PIPELINES={Mine: 400, "not.there": 1})):
        assert refusals(settings) == []
        assert [*losses(settings)] == []


@each_of(
    ("chosen", "line"),
    [
        (
            {"ITEM_PIPELINES": {WARC: None}},
            f"ITEM_PIPELINES: WarcPipeline is off: {VITAL[WARC][0]}",
        ),
        (
            {"SPIDER_MIDDLEWARES_BASE": {}},
            "SPIDER_MIDDLEWARES: PageFetchMiddleware is off: no page ends",
        ),
        (
            {
                "EXTENSIONS": {"webcrawl.extensions.hub.Hub": None},
                "CLUSTER": "nats://x",
            },
            "EXTENSIONS: Hub is off: no other machine can fetch for this hub of the CLUSTER",
        ),
        (
            {"DOWNLOAD_HANDLERS": {"https": None}},
            "DOWNLOAD_HANDLERS['https'] = None cannot be used: no page is fetched",
        ),
    ],
)
def test_a_crawl_that_would_lose_its_pages_is_refused(chosen: dict[str, Any], line: str) -> None:
    assert refusals(of_a_crawl(**chosen)) == [line]


def test_each_other_part_that_is_off_gets_a_line() -> None:
    off = {"EXTENSIONS": {"webcrawl.extensions.budgets.Budgets": None}}
    (line,) = losses(of_a_crawl(**off))
    assert line == (
        "EXTENSIONS: Budgets is off. Ends the crawl when its WARC files are large enough, or when a"
        " disk is nearly full."
    )
    assert refusals(of_a_crawl(**off)) == []
    tuning = {"webcrawl.extensions.tuning.MemoryTuning": None, "webcrawl.fastpath.FastPath": None}
    assert [*losses(of_a_crawl(EXTENSIONS=tuning))] == []


def test_another_handler_and_downloader_get_a_line() -> None:
    handler = "scrapy.core.downloader.handlers.http11.HTTP11DownloadHandler"
    (line,) = losses(of_a_crawl(DOWNLOAD_HANDLERS={"http": handler, "memo": Mine}))
    assert line.startswith(f"DOWNLOAD_HANDLERS['http'] is {handler}: ")
    (line,) = losses(of_a_crawl(DOWNLOADER="scrapy.core.downloader.Downloader"))
    assert line.startswith("DOWNLOADER is scrapy.core.downloader.Downloader: ")


@each_of("off", [False, "0", "False", "false"])
def test_no_archive_is_no_fault_if_the_settings_say_so(off: Any) -> None:
    assert refusals(of_a_crawl(ITEM_PIPELINES={WARC: None}, WARC_ENABLED=off)) == []


def test_a_subclass_stands_in_for_a_part() -> None:
    assert refusals(of_a_crawl(ITEM_PIPELINES={WarcPipeline: None, MyArchive: 300})) == []
    path = global_object_name(MyArchive)
    assert refusals(of_a_crawl(ITEM_PIPELINES={WARC: None, path: 300})) == []
