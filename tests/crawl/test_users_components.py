"""A user's own components stand beside the crawl's, and a spider's `allowed_domains` is obeyed."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.crawl.crawling import assert_clean, assert_faultless
from tests.crawl.knownsite import records
from tests.crawl.userscode import items, run
from tests.forked import python, running

pytestmark = pytest.mark.slow

WORLD = ("--seed", "2", "--hosts", "6", "--pages-per-host", "5", "--page-bytes", "2000")
PROMISES = ("--host-delay", "0.1", "--ip-delay", "0.02")
# Their crawls are those that were wrong: no archive, robots.txt twice, no redirect archived.
FEATURES = ("--features", "none,robots-some,page-301=1,page-plain=4")
OWN = """
from webcrawl.scheduler.scheduler import Scheduler

class Mine(Scheduler):
    def __len__(self):
        return 0

class Pipe:
    def process_item(self, item):
        Path(__file__).with_name("Pipe").touch()
        return item

class Extension:
    @classmethod
    def from_crawler(cls, crawler):
        Path(__file__).with_name("Extension").touch()
        return cls()

class Downloads:
    def process_request(self, request):
        Path(__file__).with_name("Downloads").touch()

class Reads:
    async def process_spider_output(self, response, result):
        Path(__file__).with_name("Reads").touch()
        async for output in result:
            yield output

class Users(BroadSpider):
    name = "users"
    custom_settings = {
        "ITEM_PIPELINES": {Pipe: 400},
        "EXTENSIONS": {Extension: 5},
        "DOWNLOADER_MIDDLEWARES": {Downloads: 543},
        "SPIDER_MIDDLEWARES": {Reads: 543},
        "SCHEDULER": Mine,
    }
"""


def test_a_users_components_run_beside_the_crawls_own(tmp_path: Path) -> None:
    with running(*WORLD, *PROMISES, *FEATURES) as web:
        result = run(tmp_path, web, OWN)
        asked = assert_faultless(web)["totals"]["pages"]
    assert_clean(result)
    assert {"Pipe", "Extension", "Downloads", "Reads"} <= {each.name for each in tmp_path.iterdir()}
    assert "*** crawling" in result.output
    kept = [
        each.url
        for path in result.warcs
        for each in records(path)
        if each.type in ("response", "revisit") and not each.url.endswith("/robots.txt")
    ]
    assert len(kept) == asked == result.report["counts"]["crawled"]


BROAD = """
class Users(BroadSpider):
    name = "users"
    allowed_domains = ["{domain}"]
"""
PLAIN = """
class Users(scrapy.Spider):
    name = "users"
    def __init__(self, seeds="", **kwargs):
        super().__init__(**kwargs)
        self.start_urls = Path(seeds).read_text().split()
        self.allowed_domains = ["{domain}"]
    def parse(self, response):
        yield {{"url": response.url}}
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href)
"""


@pytest.mark.parametrize(("code", "processes"), [(BROAD, 2), (PLAIN, 1)], ids=["workers", "plain"])
def test_allowed_domains_limits_the_crawl(tmp_path: Path, code: str, processes: int) -> None:
    with running(*WORLD, *PROMISES, *FEATURES) as web:
        domain = urlsplit(web.seeds[0]).hostname
        result = run(
            tmp_path, web, code.format(domain=domain),
            CRAWL_PROCESSES=processes, CONCURRENT_REQUESTS=4, JOBDIR=tmp_path / "job",
        )  # fmt: skip
        assert {host for _, _, host, _ in web.latest()} == {domain}
    assert_clean(result)
    assert result.report["counts"]["dropped/scope_allowed_domains"] > 0
    feeds = sorted(path.name for path in tmp_path.glob("items*.jsonl"))  # of each process
    assert any("url" in each for name in feeds for each in items(tmp_path, name))
    job = str(tmp_path / "job")
    told = python("-m", "scrapy", "explain", job, "http://elsewhere.test/")
    assert f"in none of the spider's allowed_domains = {domain}" in told.stdout
