"""What a user adds by settings: parsers of media types, and a scheme with its download handler."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crawl.crawling import assert_faultless
from tests.crawl.userscode import items, run
from tests.forked import running

pytestmark = pytest.mark.slow

WORLD = ("--hosts", "12", "--pages-per-host", "8", "--page-bytes", "500", "--seed", "3")
PROMISES = ("--host-delay", "0.1", "--ip-delay", "0.02", "--slowness", "0.2")
FEATURES = ("--features", "none,robots-none,page-plain=3,page-pdf=1,page-png=1")


def test_a_parser_and_a_scheme_are_added_by_settings(tmp_path: Path) -> None:
    code = """
        from scrapy.http import TextResponse
        from webcrawl.parse.links import Markup

        def read_pdf(payload, charset):
            return Markup(hrefs=["/"])

        def fail(payload, charset):
            if payload:
                raise ValueError("no picture of mine")
            return Markup()

        class Memos:
            lazy = False
            def __init__(self, crawler):
                pass
            @classmethod
            def from_crawler(cls, crawler):
                return cls(crawler)
            async def download_request(self, request):
                return TextResponse(request.url, body=b"milk", encoding="utf-8", request=request)
            async def close(self):
                pass

        class Users(BroadSpider):
            name = "users"
            custom_settings = {
                "CONTENT_TYPES": ["text/html", "application/pdf", "image/png"],
                "PARSERS": {"application/pdf": read_pdf, "image/png": fail},
                "DOWNLOAD_HANDLERS": {"memo": Memos},
            }
            async def parse(self, response):
                async for page in super().parse(response):
                    yield page
                yield scrapy.Request("memo://shopping", self.parse_memo)
            def parse_memo(self, response):
                yield {"memo": response.text}
    """
    with running(*WORLD, *PROMISES, *FEATURES) as web:
        result = run(tmp_path, web, code)
        assert_faultless(web)
    assert result.exit_code == 0
    found = items(tmp_path)
    assert found.count({"memo": "milk"}) == 1, "asked for once, though each page yields it"
    pages = [item for item in found if "memo" not in item]
    of_type = {item["content_type"]: item["links"] for item in pages if item["status"] == 200}
    assert len(of_type["application/pdf"]) == 1
    assert of_type["image/png"] == []
    failed = sum(item["content_type"] == "image/png" for item in pages)
    assert result.log.count("ValueError: no picture of mine") == 1
    assert result.report["counts"]["parser_failed"] == failed
