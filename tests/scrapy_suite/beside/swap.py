"""Tests that Scrapy's tests do run on this project's scheduler, downloader and handler."""

from __future__ import annotations

from scrapy.utils.test import get_crawler
from tests.mockserver.http import MockServer
from tests.spiders import SingleRequestSpider
from tests.utils.decorators import coroutine_test

from webcrawl.crawl import state_of


@coroutine_test
async def test_a_crawl_is_by_our_scheduler_and_our_handler(mockserver: MockServer) -> None:
    crawler = get_crawler(SingleRequestSpider)
    await crawler.crawl_async(seed=mockserver.url("/status?n=200"))
    (response,) = crawler.spider.meta["responses"]
    state = state_of(response.request)
    assert state.page_fetch is not None
    assert state.exchange is not None
