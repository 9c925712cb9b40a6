"""Runs the control server of a crawl, in its first process.

It listens on JOBDIR/control.sock always, and on 127.0.0.1 with LIVE (docs/watching.md). It starts
when the spider opens and ends when the spider has closed, so it answers while the crawl is closing.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import maybeDeferred

from webcrawl.config.build import job_folder, leads_crawl
from webcrawl.config.kinds import FREE_PORT
from webcrawl.config.table import read
from webcrawl.crawl.crawl import crawl_of, refuse
from webcrawl.live.access import TOKEN_FILE, Access, token_of
from webcrawl.live.listening import bind_loopback, listen_loopback, listen_unix
from webcrawl.report.console import Say, console_from

if TYPE_CHECKING:  # a crawl without JOBDIR and LIVE does not load it: 20 ms, 2.5 MB
    from webcrawl.live.server import Server

logger = logging.getLogger(__name__)


class Live:
    """`live` is LIVE: 0 is off, 1 a free port."""

    def __init__(self, crawler: Crawler, jobdir: Path | None, live: int, say: Say) -> None:
        from webcrawl.live.events import Events  # noqa: PLC0415  (as above)
        from webcrawl.live.livecrawl import LiveCrawl  # noqa: PLC0415

        self._crawler = crawler
        self._jobdir = jobdir
        self._live = live
        self._say = say
        self._crawl = LiveCrawl(crawler)
        self._events = Events(self._crawl)
        self._opened = ExitStack()
        self._listening: list[tuple[Any, Server]] = []  # each with its port

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = crawler.settings
        if not leads_crawl(crawler):
            raise NotConfigured
        jobdir, live = job_folder(settings), read(settings, "LIVE", int)
        if jobdir is None and not live:
            raise NotConfigured
        folder = jobdir.absolute() if jobdir is not None else None
        extension = cls(crawler, folder, live, console_from(settings))
        crawler.signals.connect(extension.spider_opened, signals.spider_opened)
        crawler.signals.connect(extension.spider_closed, signals.spider_closed)
        return extension

    def spider_opened(self) -> None:
        if crawl_of(self._crawler).frontier is None:
            return  # the frontier could not be opened: another crawl may run in JOBDIR
        crawl_of(self._crawler).explain = self._crawl.explain
        if self._jobdir is not None:
            self._open_socket(self._jobdir)
        if self._live:
            self._open_port()

    def _open_socket(self, jobdir: Path) -> None:
        """Without its socket the crawl continues, with a warning."""
        server = self._server()
        try:
            port = listen_unix(jobdir, server.factory, self._opened)
        except OSError as error:
            logger.warning("No control socket, so scrapy ctl and scrapy top cannot ask: %s", error)
        else:
            self._listening.append((port, server))

    def _open_port(self) -> None:
        """Without its port the crawl ends: its user would look for a page that is not there."""
        try:
            bound = bind_loopback(0 if self._live == FREE_PORT else self._live)
            access = Access(bound.getsockname()[1], token_of(self._jobdir))
        except OSError as error:
            problem = f"LIVE = {self._live}: {error.strerror or error}"
            refuse(self._crawler, "live_error", problem)
        server = self._server(access)
        self._listening.append((listen_loopback(bound, server.factory), server))
        self._say(f"Live page: {self._shown_url(access)}")

    def _server(self, access: Access | None = None) -> Server:
        from webcrawl.live.server import Server  # noqa: PLC0415  (as above)

        return Server(self._crawl, self._events, access)

    def _shown_url(self, access: Access) -> str:
        """The URL of the page. In a log, which others may read, it names the file of the token."""
        if self._jobdir is None or not self._crawler.settings.get("LOG_FILE"):
            return access.url
        file = self._jobdir / TOKEN_FILE
        return f"{access._replace(token='TOKEN').url} (TOKEN is in {file})"

    async def spider_closed(self, reason: str) -> None:
        for port, _ in self._listening:
            await maybe_deferred_to_future(maybeDeferred(port.stopListening))
        await self._events.end(reason)
        for _, server in self._listening:
            await server.close()
        self._opened.close()
