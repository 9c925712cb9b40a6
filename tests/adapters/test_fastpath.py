"""The fast path through the engine is used only with the Scrapy version it is tested with."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
import scrapy
from scrapy import Request
from scrapy.core.downloader import Downloader
from scrapy.core.downloader.middleware import DownloaderMiddlewareManager
from scrapy.core.engine import ExecutionEngine
from scrapy.core.scraper import Scraper
from scrapy.core.spidermw import SpiderMiddlewareManager
from scrapy.http import Response
from scrapy.signalmanager import SignalManager

from webcrawl.crawl.receivers import Signals
from webcrawl.fastpath import engine
from webcrawl.fastpath.extension import FastPath


def opened() -> Any:
    """The parts of an engine after the spider is opened."""
    scraper = object.__new__(Scraper)
    scraper.spidermw = object.__new__(SpiderMiddlewareManager)
    downloader = object.__new__(Downloader)
    downloader.middleware = object.__new__(DownloaderMiddlewareManager)
    parts = SimpleNamespace(downloader=downloader, scraper=scraper, signals=SignalManager())
    whole = object.__new__(ExecutionEngine)
    whole.__dict__.update(vars(parts))
    FastPath(SimpleNamespace(engine=whole)).spider_opened()  # type: ignore[arg-type]
    return whole


def test_the_tested_scrapy_runs_the_fast_path() -> None:
    whole = opened()
    assert type(whole) is engine.Engine
    assert type(whole.scraper) is engine.Scraper
    assert type(whole.scraper.spidermw) is engine.SpiderMiddlewares
    assert type(whole.downloader.middleware) is engine.DownloaderMiddlewares
    assert type(whole.signals) is Signals


class OneMethod:
    """A downloader middleware that returns `result`, at once or later."""

    def __init__(self, result: object, *, later: bool) -> None:
        self._result, self._later = result, later

    def process_request(self, request: Request) -> object:
        return self._wait() if self._later else self._result

    def process_response(self, request: Request, response: Response) -> object:
        result = self._result or response
        return self._wait(result) if self._later else result

    async def _wait(self, result: object = None) -> object:
        return result or self._result


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize(
    "result", [None, Request("http://a.test/"), Response("http://a.test/"), "no answer"]
)
def test_downloader_middlewares_are_called_as_by_scrapy(result: object, later: bool) -> None:
    asked = Request("http://b.test/")

    async def download(request: Request) -> Response:
        return Response(request.url)

    def outcome(kind: type[DownloaderMiddlewareManager]) -> object:
        methods = (OneMethod(None, later=later), OneMethod(result, later=later))
        crawler: Any = SimpleNamespace(spider=None)
        try:
            answer = asyncio.run(kind(*methods, crawler=crawler).download_async(download, asked))
        except Exception as error:
            return type(error)
        return type(answer), answer.url

    assert outcome(engine.DownloaderMiddlewares) == outcome(DownloaderMiddlewareManager)


def of_another_version(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(scrapy, "version_info", (2, 20, 0))
    return "the fast path is for Scrapy 2.19 only"


def without_a_private_name(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.delattr(Scraper, "_scrape")
    return "it has no scrapy.core.scraper.Scraper._scrape"


@pytest.mark.parametrize("other", [of_another_version, without_a_private_name])
def test_another_scrapy_runs_its_own_engine_and_logs_it(
    other: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    why = other(monkeypatch)
    whole = opened()
    assert type(whole) is ExecutionEngine
    assert type(whole.scraper) is Scraper
    assert type(whole.signals) is SignalManager
    (line,) = caplog.messages
    assert line.startswith(f"Scrapy {scrapy.__version__} runs its own engine")
    assert why in line
