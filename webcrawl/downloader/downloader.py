"""Scrapy's downloader with a fast path for leased Requests.

The frontier leases a URL only when it may be fetched at once, so a leased Request waits in no slot.
It goes from the middlewares directly to the handler, with the same signals as in Scrapy, and
without parsing its URL for the scheme (20 µs). Any other Request goes through Scrapy's slots.

While the crawl is paused, every Request waits here, also one that another handler would send.
"""

from __future__ import annotations

import time

from scrapy import Request, signals
from scrapy.core.downloader import Downloader as ScrapyDownloader
from scrapy.crawler import Crawler
from scrapy.exceptions import DownloadCancelledError, NotSupported
from scrapy.http import Response
from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object

from webcrawl.config.fetch import has_proxy
from webcrawl.crawl.crawl import Crawl, crawl_of
from webcrawl.crawl.page_fetch import lease_of, note
from webcrawl.downloader.handler import DownloadHandler, refusal
from webcrawl.fetch.exchange import FetchFailed
from webcrawl.frontier.lease import Lease
from webcrawl.scope import Scope

_HTTP = ("http", "https")
_LOCAL = frozenset({"data", "file"})


class Downloader(ScrapyDownloader):
    """Scrapy's downloader, without slots for leased Requests. `DOWNLOADER` setting."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._has_proxy = has_proxy(crawler.settings)
        self._ours = _our_handlers(crawler.settings)
        self._crawl = crawl_of(crawler)

    async def _enqueue_request(self, request: Request) -> Response:
        if self._has_proxy:
            self._refuse_bypass(request)
        lease = lease_of(request)
        crawl = self._crawl
        if crawl.gate.holds_some or (lease is not None and _is_denied(lease, crawl.scope)):
            await _pass(request, lease, crawl)
        if lease is None:
            return await super()._enqueue_request(request)
        send = self.signals.send_catch_log
        values = {"request": request, "spider": self.crawler.spider}
        send(signals.request_reached_downloader, **values)
        try:
            ours = self._ours.get(request.url.partition(":")[0])
            handler = crawl.handlers.get(ours) if ours is not None else None
            if handler is not None:
                response = await handler.download_request(request)
            elif lease.refused:  # a handler of another project does not check this
                raise refusal(lease)
            else:
                response = await self.handlers.download_request_async(request)
            send(signals.response_downloaded, response=response, **values)
            return response
        finally:
            send(signals.request_left_downloader, **values)

    def _refuse_bypass(self, request: Request) -> None:
        """The crawl has a proxy: NotSupported if another handler would send `request`."""
        scheme = request.url.partition(":")[0]
        if scheme not in self._ours and scheme not in _LOCAL:
            raise NotSupported(f"{request}: not sent, as it would not go through PROXY")


def _our_handlers(settings: BaseSettings) -> dict[str, type]:
    """Which of http and https have this project's handler, or a subclass of it."""
    handlers = settings.getwithbase("DOWNLOAD_HANDLERS")
    classes = {each: load_object(handlers[each]) for each in _HTTP if handlers.get(each)}
    return {
        scheme: each
        for scheme, each in classes.items()
        if isinstance(each, type) and issubclass(each, DownloadHandler)
    }


def _is_denied(lease: Lease, scope: Scope | None) -> bool:
    """Whether its URL was denied after it was leased. The frontier tests all others."""
    return (
        scope is not None and scope.denied.has_any and scope.denied.matches(lease.url, lease.host)
    )


async def _pass(request: Request, lease: Lease | None, crawl: Crawl) -> None:
    """Wait until `request` may be sent. Raises if it must not be: then its lease is returned."""
    try:
        await crawl.gate.wait(request.url)
        if lease is not None and _is_denied(lease, crawl.scope):
            raise FetchFailed("cancelled", ended_at=time.monotonic())
    except FetchFailed as failure:
        note(request, failure=failure)
        raise DownloadCancelledError(f"{request.url}: {failure}") from None
