"""Scrapy's downloader with a fast path for leased Requests.

The frontier leases a URL only when it may be fetched at once, so a leased Request waits in no slot.
It goes from the middlewares directly to the handler, with the same signals as in Scrapy, and
without parsing its URL for the scheme (20 µs). Any other Request goes through Scrapy's slots.

In a crawl with a target an answer waits here until the target has a place for it, or is met.
"""

from __future__ import annotations

from scrapy import Request, signals
from scrapy.core.downloader import Downloader as ScrapyDownloader
from scrapy.http import Response

from webcrawl.crawl.crawl import crawl_of
from webcrawl.crawl.outcomes import beyond_target
from webcrawl.crawl.page_fetch import lease_of, page_fetch_of
from webcrawl.downloader.handler import DownloadHandler, refusal


class Downloader(ScrapyDownloader):
    """Scrapy's downloader, without slots for leased Requests. `DOWNLOADER` setting."""

    async def _enqueue_request(self, request: Request) -> Response:
        lease = lease_of(request)
        if lease is None:
            return await super()._enqueue_request(request)
        send = self.signals.send_catch_log
        values = {"request": request, "spider": self.crawler.spider}
        send(signals.request_reached_downloader, **values)
        try:
            handler = self.handlers._handlers.get(request.url.partition(":")[0])
            if isinstance(handler, DownloadHandler):
                response = await handler.download_request(request)
            elif lease.refused:  # a handler of another project does not check this
                raise refusal(lease)
            else:
                response = await self.handlers.download_request_async(request)
            await self._count(request)
            send(signals.response_downloaded, response=response, **values)
            return response
        finally:
            send(signals.request_left_downloader, **values)

    async def _count(self, request: Request) -> None:
        """Wait until the answer has a place of the target. Raises TargetMet if it gets no place."""
        scheduler, page_fetch = crawl_of(self.crawler).scheduler, page_fetch_of(request)
        if page_fetch is None or scheduler is None or scheduler.counts(page_fetch):
            return
        if not await scheduler.wait_to_count(page_fetch):
            raise beyond_target(request)
