"""Scrapy's downloader with a short way for leased requests.

A lease's turn has come when it is given, so its request waits in no slot: it goes from the
middlewares to the handler, with the signals that Scrapy sends on that way, and without a parse of
its URL to know the scheme (20 us). Any other request takes Scrapy's own.

Where the crawl has a target, an answer waits here until it has a place of it, or there is none.
"""

from __future__ import annotations

from scrapy import Request, signals
from scrapy.core.downloader import Downloader as ScrapyDownloader
from scrapy.http import Response

from webcrawl.crawl.page_fetch import beyond_target, lease_of, page_fetch_of
from webcrawl.downloader.handler import DownloadHandler, refusal
from webcrawl.scheduler.scheduler import Scheduler


class Downloader(ScrapyDownloader):
    """See the module. `DOWNLOADER` setting."""

    async def _enqueue_request(self, request: Request) -> Response:
        lease = lease_of(request)
        if lease is None:
            return await super()._enqueue_request(request)
        send = self.signals.send_catch_log
        told = {"request": request, "spider": self.crawler.spider}
        send(signals.request_reached_downloader, **told)
        try:
            handler = self.handlers._handlers.get(request.url.partition(":")[0])
            if isinstance(handler, DownloadHandler):
                response = await handler.download_request(request)
            elif lease.refused:  # of which another's handler knows nothing
                raise refusal(lease)
            else:
                response = await self.handlers.download_request_async(request)
            await self._count(request)
            send(signals.response_downloaded, response=response, **told)
            return response
        finally:
            send(signals.request_left_downloader, **told)

    async def _count(self, request: Request) -> None:
        """Wait until it is known whether this answer counts. Raises TargetMet if not."""
        scheduler, page_fetch = self.crawler.engine.scheduler, page_fetch_of(request)
        if (
            page_fetch is None
            or not isinstance(scheduler, Scheduler)
            or scheduler.counts(page_fetch)
        ):
            return
        if not await scheduler.wait_to_count(page_fetch):
            raise beyond_target(request)
