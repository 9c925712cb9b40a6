"""Scrapy's engine, with one task for a request where Scrapy's makes eight.

Scrapy's hands a request from task to task over Deferreds: to download it, to scrape the answer, to
read what the callback yields, to process it, and one for each who hears of it. Here one coroutine
goes the whole way, through the same middlewares, callbacks, pipelines and signals in the same
order. What Scrapy does beside that way (start, end, idle, errors) stays Scrapy's.

Each class overrides the few methods that are the way of a request, and adds no state, so that
`shorten` can make them of the parts that Scrapy has built: it has no settings for these.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from functools import lru_cache
from inspect import CO_ASYNC_GENERATOR, CO_VARKEYWORDS, isawaitable
from itertools import count
from types import CoroutineType, FunctionType, MethodType
from typing import Any

from pydispatch.dispatcher import WEAKREF_TYPES, connections  # type: ignore[import-untyped]
from pydispatch.dispatcher import Any as Anyone
from pydispatch.robustapply import robustApply  # type: ignore[import-untyped]
from scrapy import Request, Spider, signals
from scrapy.core.downloader import Downloader
from scrapy.core.downloader.middleware import DownloaderMiddlewareManager
from scrapy.core.engine import ExecutionEngine
from scrapy.core.engine import _Slot as EngineSlot
from scrapy.core.scraper import Scraper as ScrapyScraper
from scrapy.core.spidermw import SpiderMiddlewareManager
from scrapy.exceptions import StopDownload, _InvalidOutput
from scrapy.http import Response
from scrapy.pipelines import ItemPipelineManager
from scrapy.signalmanager import SignalManager
from scrapy.utils.defer import ensure_awaitable
from scrapy.utils.log import logformatter_adapter
from scrapy.utils.python import global_object_name
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

logger = logging.getLogger("scrapy.core.engine")  # whose lines these are

_OUTPUTS_AT_A_TIME = 10  # of a callback, before the event loop has a turn

_under_way: set[asyncio.Task[None]] = set()  # the event loop alone would not keep them


class Engine(ExecutionEngine):
    """A request on its way is one task."""

    scraper: Scraper

    def _start_scheduled_request(self) -> bool:
        assert self._slot is not None
        request = self._slot.scheduler.next_request()
        if request is None:
            self.signals.send_catch_log(signals.scheduler_empty)
            return False
        self._slot.add_request(request)
        self.downloader.active.add(request)  # not in the task: it counts for the next one already
        task = asyncio.create_task(self._carry_out(request, self._slot))
        _under_way.add(task)
        task.add_done_callback(_under_way.discard)
        return True

    async def _carry_out(self, request: Request, slot: EngineSlot) -> None:
        try:
            result = await self._answer(request)
            if isinstance(result, Request):
                self.crawl(result)
            else:
                await self.scraper.scrape(result, request)
        except Exception:
            logger.exception("Error while handling %s", request, extra={"spider": self.spider})
        finally:
            slot.remove_request(request)
            slot.nextcall.schedule()

    async def _answer(self, request: Request) -> Response | Request | Failure:
        """What the downloader and its middlewares make of `request`."""
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
                self._received(result, result.request)
            elif not isinstance(result, Request):
                raise TypeError(f"expected Response or Request, got {type(result)}: {result!r}")
        except (Exception, asyncio.CancelledError):  # that of another task, which it waited for
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


class Scraper(ScrapyScraper):
    """Scrapes an answer in the task of who asks for it."""

    async def scrape(self, result: Response | Failure, request: Request) -> None:
        """`enqueue_scrape` for who can await."""
        slot = self.slot
        assert slot is not None
        slot.add_response_request(result, request)
        slot.next_response_request_deferred()
        try:
            await self._scrape(result, request)
        except Exception:
            spider = self.crawler.spider
            logger.exception("Scraper bug processing %s", request, extra={"spider": spider})
        finally:
            slot.finish_response(result, request)
            self._check_if_closing()

    async def call_spider_async(
        self, result: Response | Failure, request: Request
    ) -> Iterable[Any] | AsyncIterator[Any]:
        """A method that is an asynchronous generator is called, and no more: Scrapy waits for two
        turns of the loop before, and looks whether it is a generator that returns a value.
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
        """With CONCURRENT_ITEMS=1 one after the other; else Scrapy's way, a task for each place."""
        if self.concurrent_items != 1 or not isinstance(result, AsyncIterator):
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
                if number % _OUTPUTS_AT_A_TIME == 0:  # there may be a million of them
                    await asyncio.sleep(0)


class DownloaderMiddlewares(DownloaderMiddlewareManager):
    """Waits for a method only where it returns something to wait for."""

    async def _process_request(
        self, request: Request, download_func: Callable[[Request], Coroutine[Any, Any, Response]]
    ) -> Response | Request:
        if self._mw_methods_requiring_spider:
            return await super()._process_request(request, download_func)
        for method in self.methods["process_request"]:
            assert method is not None
            answer = method(request=request)
            if answer is not None:
                answer = await ensure_awaitable(answer, _warn=global_object_name(method))
                if answer is not None:
                    return _checked(answer, method)
        return await download_func(request)

    async def _process_response(
        self, response: Response | Request, request: Request
    ) -> Response | Request:
        if response is None or self._mw_methods_requiring_spider:
            return await super()._process_response(response, request)
        for method in self.methods["process_response"]:
            assert method is not None
            if isinstance(response, Request):
                break
            answer = method(request=request, response=response)
            if not isinstance(answer, Response | Request):
                answer = await ensure_awaitable(answer, _warn=global_object_name(method))
            response = _checked(answer, method)
        return response


def _checked(answer: Any, method: Any) -> Response | Request:
    if not isinstance(answer, Response | Request):
        raise _InvalidOutput(
            f"Middleware {method.__qualname__} must return Response or Request, got {type(answer)}"
        )
    return answer


class ItemPipelines(ItemPipelineManager):
    """Waits for a pipeline only where it returns something to wait for."""

    async def process_item_async(self, item: Any) -> Any:
        if self._mw_methods_requiring_spider:
            return await super().process_item_async(item)
        for method in self.methods["process_item"]:
            assert method is not None
            item = method(item)
            if isinstance(item, CoroutineType):
                item = await item
            elif isinstance(item, Deferred) or isawaitable(item):
                item = await ensure_awaitable(item, _warn=global_object_name(method))
        return item


class SpiderMiddlewares(SpiderMiddlewareManager):
    """Calls `process_spider_output` of each; the rest is needed for who handles exceptions only."""

    async def _process_callback_output(  # type: ignore[override]
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        if any(self.methods["process_spider_exception"]) or self._mw_methods_requiring_spider:
            return await super()._process_callback_output(response, result)
        for method in self.methods["process_spider_output"]:
            if method is not None:
                result = method(response=response, result=result)
        return result


def listeners(sender: Any, signal: Any) -> list[Any]:
    """Who listens, as `liveReceivers(getAllReceivers(sender, signal))`, in a third of the time."""
    heard: list[Any] = []
    for each in (sender, Anyone):
        if by_signal := connections.get(id(each)):
            for wanted in (signal, Anyone):
                for reference in by_signal.get(wanted, ()):
                    receiver = reference() if isinstance(reference, WEAKREF_TYPES) else reference
                    if receiver is not None and receiver not in heard:
                        heard.append(receiver)
    return heard


def tell(receiver: Any, named: dict[str, Any]) -> Any:
    """`robustApply`: call `receiver` with those of `named` that it takes, in half the time."""
    function = receiver.__func__ if isinstance(receiver, MethodType) else receiver
    if not isinstance(function, FunctionType):
        return robustApply(receiver, **named)
    wanted = _arguments(function)
    if wanted is None:
        return receiver(**named)
    return receiver(**{name: named[name] for name in wanted if name in named})


@lru_cache(1024)
def _arguments(function: FunctionType) -> tuple[str, ...] | None:
    """The names that `function` can be given; None for any."""
    code = function.__code__
    return None if code.co_flags & CO_VARKEYWORDS else code.co_varnames[: code.co_argcount]


class Signals(SignalManager):
    """Nobody listens to most signals, and most who listen answer at once."""

    def send_catch_log(self, signal: Any, **named: Any) -> list[tuple[Any, Any]]:
        receivers = listeners(named.get("sender", self.sender), signal)
        if not receivers:
            return []
        expected = (*_expected(named), StopDownload)
        named = {"signal": signal, "sender": self.sender, **named}
        answers = []
        for receiver in receivers:
            try:
                answer = tell(receiver, named)
            except Exception as error:
                answer = Failure()  # type: ignore[no-untyped-call]
                if not isinstance(error, expected):
                    _say_raised(receiver, error, named)
            else:
                if isinstance(answer, Deferred):
                    logger.error("Cannot return deferreds from signal handler: %s", receiver)
            answers.append((receiver, answer))
        return answers

    async def send_catch_log_async(self, signal: Any, **named: Any) -> list[tuple[Any, Any]]:
        """Only who does not answer at once has a task."""
        expected = _expected(named)
        named = {"signal": signal, "sender": self.sender, **named}

        def raised(receiver: Any, error: Exception) -> Exception:
            if not isinstance(error, expected):
                _say_raised(receiver, error, named)
            return error

        async def waited_for(receiver: Any, answer: Awaitable[Any]) -> Any:
            try:
                return await ensure_awaitable(answer, _warn=global_object_name(receiver))
            except Exception as error:
                return raised(receiver, error)

        answers, waits = {}, {}
        for receiver in listeners(named["sender"], signal):
            try:
                answers[receiver] = answer = tell(receiver, named)
            except Exception as error:
                answers[receiver] = raised(receiver, error)
            else:
                if answer is not None and (isinstance(answer, Deferred) or isawaitable(answer)):
                    waits[receiver] = waited_for(receiver, answer)
        if waits:
            done = await asyncio.gather(*waits.values(), return_exceptions=True)
            answers.update(zip(waits, done, strict=True))
        return list(answers.items())


def _expected(named: dict[str, Any]) -> tuple[type[Exception], ...]:
    """The exceptions that who sends a signal does not want logged."""
    dont_log = named.pop("dont_log", None)
    if dont_log is None:
        return ()
    return tuple(dont_log) if isinstance(dont_log, Sequence) else (dont_log,)


def _say_raised(receiver: Any, error: Exception, named: dict[str, Any]) -> None:
    logger.error(
        "Error caught on signal handler: %s", receiver,
        exc_info=error, extra={"spider": named.get("spider")},
    )  # fmt: skip


QUICKER: dict[type, type] = {
    ExecutionEngine: Engine,
    ScrapyScraper: Scraper,
    DownloaderMiddlewareManager: DownloaderMiddlewares,
    SpiderMiddlewareManager: SpiderMiddlewares,
    ItemPipelineManager: ItemPipelines,
    SignalManager: Signals,
}


def shorten(engine: ExecutionEngine) -> None:
    """Make these of the parts of `engine`; a user's own stay as they are."""
    if type(engine.downloader).fetch is not Downloader.fetch:
        return  # it is to be asked, and answers by a Deferred
    scraper, downloader = engine.scraper, engine.downloader
    middlewares = (downloader.middleware, scraper.spidermw, scraper.itemproc)
    for part in (engine, scraper, *middlewares, engine.signals):
        part.__class__ = QUICKER.get(type(part), type(part))
