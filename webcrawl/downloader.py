"""Scrapy's downloader with a short way for leased requests.

A lease's turn has come when it is given, so its request waits in no slot: it goes from the
middlewares to the handler, with the signals that Scrapy sends on that way, and without a parse of
its URL to know the scheme (20 us). Any other request takes Scrapy's own.
"""

from __future__ import annotations

from scrapy import Request, signals
from scrapy.core.downloader import Downloader as ScrapyDownloader
from scrapy.http import Response

from webcrawl.handler import DownloadHandler
from webcrawl.visits import lease_of


class Downloader(ScrapyDownloader):
    """See the module. `DOWNLOADER` setting."""

    async def _enqueue_request(self, request: Request) -> Response:
        if lease_of(request) is None:
            return await super()._enqueue_request(request)
        send = self.signals.send_catch_log
        told = {"request": request, "spider": self.crawler.spider}
        send(signals.request_reached_downloader, **told)
        try:
            handler = self.handlers._handlers.get(request.url.partition(":")[0])
            if isinstance(handler, DownloadHandler):
                response = await handler.download_request(request)
            else:
                response = await self.handlers.download_request_async(request)
            send(signals.response_downloaded, response=response, **told)
            return response
        finally:
            send(signals.request_left_downloader, **told)
