"""Scrapy's engine with one task per request, where Scrapy's own creates eight.

Scrapy's engine hands a request from task to task over Deferreds: to download it, to scrape the
answer, to iterate over the callback's output, to process each output, and one per signal receiver.
Here one coroutine does all of it, through the same middlewares, callbacks, pipelines and signals in
the same order. Start, end, idle and errors stay Scrapy's code.

Each class overrides the few methods on a request's path and keeps Scrapy's `__init__`, so that
`install` can change the class of the parts that Scrapy has built: Scrapy has no settings for them.
The overridden methods are private to Scrapy: `scrapy_private.FAST_PATH` names them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from inspect import CO_ASYNC_GENERATOR
from itertools import count
from types import AsyncGeneratorType
from typing import Any

from scrapy import Request, Spider, exceptions, signals
from scrapy.core.downloader import Downloader
from scrapy.core.downloader.middleware import DownloaderMiddlewareManager
from scrapy.core.engine import ExecutionEngine
from scrapy.core.scraper import Scraper as ScrapyScraper
from scrapy.core.spidermw import SpiderMiddlewareManager
from scrapy.http import Response
from scrapy.signalmanager import SignalManager
from scrapy.utils.defer import ensure_awaitable
from scrapy.utils.log import logformatter_adapter
from scrapy.utils.python import global_object_name
from twisted.python.failure import Failure

from webcrawl.crawl.page_fetch import is_users, lease_of, note, page_fetch_of, state_of
from webcrawl.crawl.receivers import Signals

logger = logging.getLogger("scrapy.core.engine")  # Scrapy's own lines, so Scrapy's logger

_OUTPUTS_AT_A_TIME = 10  # of a callback, before the event loop runs other tasks

_under_way: set[asyncio.Task[None]] = set()  # the event loop holds tasks by weak references only


class Engine(ExecutionEngine):
    """Scrapy's engine, with one task per request."""

    scraper: Scraper
    # While a Request that a middleware returned is enqueued: (that Request, the one it replaces).
    replacement: tuple[Request, Request] | None = None

    def _start_scheduled_request(self) -> bool:
        assert self._slot is not None
        request = self._slot.scheduler.next_request()
        if request is None:
            self.signals.send_catch_log(signals.scheduler_empty)
            return False
        self._slot.add_request(request)
        self.downloader.active.add(request)  # before the task runs: it counts for the next request
        task = asyncio.get_running_loop().create_task(self._carry_out(request, self._slot))
        _under_way.add(task)
        task.add_done_callback(_under_way.discard)
        return True

    async def _carry_out(self, request: Request, slot: Any) -> None:
        try:
            result = await self._answer(request)
            if isinstance(result, Request):
                self.replacement = result, request
                try:
                    self.crawl(result)
                finally:
                    self.replacement = None
            else:
                await self.scraper.scrape(result, request)
        except Exception:
            logger.exception("Error while handling %s", request, extra={"spider": self.spider})
        finally:
            slot.remove_request(request)
            slot.nextcall.schedule()

    async def _answer(self, request: Request) -> Response | Request | Failure:
        """The result of the downloader and its middlewares for `request`."""
        downloader = self.downloader
        try:
            try:
                result = await downloader.middleware.download_async(
                    downloader._enqueue_request, request
                )
            finally:
                downloader.active.remove(request)
            if isinstance(result, Response):
                if result.request is None:
                    result.request = request
                elif result.request is not request:
                    _answer_for(request, result, result.request)
                self._received(result, result.request)
            elif not isinstance(result, Request):
                raise TypeError(f"expected Response or Request, got {type(result)}: {result!r}")
        except (Exception, asyncio.CancelledError):  # CancelledError: of a task it waited for
            return Failure()  # type: ignore[no-untyped-call]
        return result

    def _received(self, response: Response, request: Request) -> None:
        assert self.spider is not None
        line = self.logformatter.crawled(request, response, self.spider)
        if line is not None:
            logger.log(*logformatter_adapter(line), extra={"spider": self.spider})
        self.signals.send_catch_log(
            signals.response_received, response=response, request=request, spider=self.spider
        )


def _answer_for(request: Request, response: Response, asked: Request) -> None:
    """Make `response` the answer to `request`, if `request` is a page's.

    A middleware got `response` by `asked`, a Request of its own without a page fetch: `request`
    gets the exchange of `asked`. For a user's own Request `response.request` stays as the
    middleware set it, as in Scrapy.
    """
    if is_users(lease_of(request)) or page_fetch_of(asked) is not None:
        return
    response.request = request
    note(request, exchange=state_of(asked).exchange)


class Scraper(ScrapyScraper):
    """Scrapes an answer in the task that fetched it."""

    async def scrape(self, result: Response | Failure, request: Request) -> None:
        """`enqueue_scrape`, as a coroutine."""
        slot = self.slot
        assert slot is not None
        body_bytes = len(result.body) if isinstance(result, Response) else 0
        size = max(body_bytes, slot.MIN_RESPONSE_SIZE)
        slot.active.add(request)
        slot.active_size += size
        try:
            await self._scrape(result, request)
        except Exception:
            spider = self.crawler.spider
            logger.exception("Scraper bug processing %s", request, extra={"spider": spider})
        finally:
            slot.active.remove(request)
            slot.active_size -= size
            self._check_if_closing()

    async def call_spider_async(
        self, result: Response | Failure, request: Request
    ) -> Iterable[Any] | AsyncIterator[Any]:
        """Call a callback that is an asynchronous generator function directly.

        Scrapy waits for two turns of the event loop before the call, and inspects the callback's
        source for a generator that returns a value.
        """
        if isinstance(result, Response):
            asked = result.request or request
            spider = self.crawler.spider
            assert spider is not None
            callback = asked.callback
            if callback is None and type(spider)._parse is Spider._parse:
                callback = spider.parse
            code = getattr(callback, "__code__", None)
            if callback is not None and code is not None and code.co_flags & CO_ASYNC_GENERATOR:
                result.request = asked
                output: AsyncIterator[Any] = callback(result, **asked.cb_kwargs)
                return output
        return await super().call_spider_async(result, request)

    async def handle_spider_output_async(
        self,
        result: Iterable[Any] | AsyncIterator[Any],
        request: Request,
        response: Response | Failure,
    ) -> None:
        """With CONCURRENT_ITEMS=1 process outputs one by one; else as Scrapy, in parallel tasks."""
        if self.concurrent_items != 1 or not isinstance(result, AsyncGeneratorType):
            await super().handle_spider_output_async(result, request, response)
            return
        for number in count(1):
            try:
                output = await anext(result)
            except StopAsyncIteration:
                return
            except Exception:
                self.handle_spider_error(Failure(), request, response)  # type: ignore[no-untyped-call]
            else:
                await self._process_spidermw_output_async(output, response)
                if number % _OUTPUTS_AT_A_TIME == 0:  # a callback may yield a million
                    await asyncio.sleep(0)


class SpiderMiddlewares(SpiderMiddlewareManager):
    """Chains the `process_spider_output` methods directly.

    Scrapy wraps each method in an asynchronous generator, and all of them in another: ten per page,
    some 4 µs each. These are needed if a middleware has `process_spider_exception`, or methods with
    the deprecated `spider` argument; then Scrapy's code runs.
    """

    async def _process_callback_output(  # type: ignore[override]
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        if self._mw_methods_requiring_spider or any(self.methods["process_spider_exception"]):
            return await super()._process_callback_output(response, result)
        for method in self.methods["process_spider_output"]:
            if method is not None:
                result = method(response=response, result=result)
        return result


class DownloaderMiddlewares(DownloaderMiddlewareManager):
    """Calls the methods directly.

    Scrapy makes a coroutine of each result: five per page, some 6 µs each. Methods with the
    deprecated `spider` argument are left to Scrapy's code.
    """

    async def _process_request(
        self, request: Request, download_func: Callable[[Request], Coroutine[Any, Any, Response]]
    ) -> Response | Request:
        if self._mw_methods_requiring_spider:
            return await super()._process_request(request, download_func)
        for method in self.methods["process_request"]:
            assert method is not None
            result = method(request=request)
            if result is not None and not isinstance(result, Response | Request):
                result = await _awaited(method, result)
            if result is not None:
                return _checked(method, result)
        return await download_func(request)

    async def _process_response(
        self, response: Response | Request, request: Request
    ) -> Response | Request:
        if self._mw_methods_requiring_spider:
            return await super()._process_response(response, request)
        for method in self.methods["process_response"]:
            if isinstance(response, Request):
                break
            assert method is not None
            result = method(request=request, response=response)
            if not isinstance(result, Response | Request):
                result = _checked(method, await _awaited(method, result))
            response = result
        return response


async def _awaited(method: Callable[..., Any], result: Any) -> Any:
    return await ensure_awaitable(result, _warn=global_object_name(method))


def _checked(method: Callable[..., Any], result: Any) -> Response | Request:
    if isinstance(result, Response | Request):
        return result
    raise exceptions._InvalidOutput(
        f"Middleware {method.__qualname__} must return a Response or a Request, got {result!r}"
    )


REPLACEMENTS: dict[type, type] = {
    ExecutionEngine: Engine,
    DownloaderMiddlewareManager: DownloaderMiddlewares,
    ScrapyScraper: Scraper,
    SpiderMiddlewareManager: SpiderMiddlewares,
    SignalManager: Signals,
}


def install(engine: ExecutionEngine) -> None:
    """Change the class of `engine` and its parts; subclasses of a user's own stay as they are."""
    if type(engine.downloader).fetch is not Downloader.fetch:
        return  # a user's own `fetch` must be called, and returns a Deferred
    middlewares = engine.downloader.middleware, engine.scraper.spidermw
    for part in (engine, engine.scraper, *middlewares, engine.signals):
        part.__class__ = REPLACEMENTS.get(type(part), type(part))
