"""The scheduler wakes the engine, which asks it again only every 5 s by itself."""

from __future__ import annotations

from pathlib import Path

from simweb import running
from tests.crawl.crawling import assert_faultless
from tests.crawl.userscode import run

WEB = (
    *("--hosts=2", "--seeds=2", "--pages-per-host=4", "--host-delay=0.1"),
    "--features=page-plain,robots-allow-all,host-plain,dns-a,origin-http,link-plain",
)

# Without the engine's heartbeat only the scheduler can make it ask again after a None.
CODE = """
    from webcrawl import scrapy_private
    from webcrawl.scheduler import Scheduler

    class Sleepy(Scheduler):
        def spider_opened(self):
            scrapy_private.wake = lambda engine: None
            super().spider_opened()

    class Users(BroadSpider):
        name = "users"
        custom_settings = {{"SCHEDULER": "users.{scheduler}"}}

        async def start(self):
            self.crawler.engine._slot.heartbeat.stop()
            async for each in super().start():
                yield each
"""


def test_the_scheduler_wakes_the_engine(tmp_path: Path) -> None:
    with running(*WEB) as web:
        run(tmp_path, web, CODE.format(scheduler="Scheduler"))
        assert_faultless(web)


def test_without_it_no_page_is_asked_for(tmp_path: Path) -> None:
    with running(*WEB) as web:
        run(tmp_path, web, CODE.format(scheduler="Sleepy"), CLOSESPIDER_TIMEOUT=3)
        assert not web.ledger()["totals"].get("pages")
