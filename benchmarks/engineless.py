"""A crawl by webcrawl's own parts, without Scrapy's engine: the comparison for `floor`.

    python -m benchmarks.engineless SEEDS [NAME=VALUE ...]

Calls frontier, admissions, fetch client, link reader and WARC writer directly from asyncio, without
engine, Request, Response, middleware, signal, item pipeline or statistic between them.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections import Counter
from pathlib import Path

from scrapy.settings import Settings
from scrapy.utils.misc import load_object

from benchmarks.crawls import project_settings
from webcrawl.admission.runner import REDIRECTS
from webcrawl.config import build
from webcrawl.config.fetch import content_type_test, headers_from, limits_from
from webcrawl.crawl.outcomes import fetched
from webcrawl.extensions import garbage
from webcrawl.fetch.client import Client
from webcrawl.fetch.exchange import Exchange, FetchFailed
from webcrawl.fetch.request import FetchRequest
from webcrawl.frontier.lease import Failed, Lane, Lease, Link, Outcome
from webcrawl.frontier.outbox import Outbox
from webcrawl.items import Original, Page
from webcrawl.parse.page import read_page
from webcrawl.parse.urls import redirect_target
from webcrawl.spiders.seeds import SeedSource
from webcrawl.warc.files import WarcFiles
from webcrawl.warc.metadata import page_metadata
from webcrawl.warc.records import Capture, payload_digest, raw_digest
from webcrawl.warc.writer import WarcWriter


class Crawl:
    """Reads the same settings as a crawl, as far as a crawl that runs to its end needs them."""

    def __init__(self, settings: Settings) -> None:
        self._frontier = build.frontier_from(settings)
        self._follow = settings.getbool("FOLLOW_LINKS")
        self._outlinks = build.outlinks_from(settings, Counter())
        self._outbox = Outbox(self._frontier, self._outlinks.url_cache)
        self._client = Client(limits_from(settings))
        self._headers = headers_from(settings)
        self._wants = content_type_test(settings)
        self._agent = build.robots_token(settings).lower()
        self._writer = WarcWriter(WarcFiles(Path(settings["WARC_DIR"]), "floor", 1_000_000_000))
        self._admissions = build.admissions_from(
            settings, outlink=self._outlinks.of_redirect, record=self._record
        )
        self._room = {
            Lane.PAGES: settings.getint("CONCURRENT_REQUESTS"),
            Lane.ADMISSIONS: settings.getint("CONCURRENT_ADMISSIONS"),
        }
        self._changed = asyncio.Event()

    async def run(self, seeds: SeedSource) -> None:
        await self._writer.open()
        for batch in seeds.batches():
            await self._frontier.put(self._outlinks.of_seeds(batch), time.monotonic())
        async with asyncio.TaskGroup() as tasks:
            while not self._frontier.is_finished() or self._outbox:
                self._changed.clear()
                wait_s = await self._turn(tasks, time.monotonic())
                timer = asyncio.get_running_loop().call_later(wait_s, self._changed.set)
                await self._changed.wait()
                timer.cancel()
        await self._admissions.close()
        await self._client.close()
        await self._frontier.close()
        await self._writer.close()

    async def _turn(self, tasks: asyncio.TaskGroup, now: float) -> float:
        """Release finished leases and start new fetches; return the seconds until the next turn."""
        await self._outbox.deliver(now)
        for lane in Lane:
            leases = await self._frontier.acquire(now, self._room[lane], lane)
            self._room[lane] -= len(leases)
            for lease in leases:
                tasks.create_task(self._carry_out(lease, lane))
        return min(0.25, *(self._frontier.next_at(lane) - now for lane in Lane))

    async def _carry_out(self, lease: Lease, lane: Lane) -> None:
        run = self._visit if lane is Lane.PAGES else self._admissions.run
        outcome = await run(lease)
        self._outbox.release(lease, outcome)
        self._room[lane] += 1
        self._changed.set()

    async def _visit(self, lease: Lease) -> Outcome:
        link = lease.link
        assert link is not None
        try:
            request = FetchRequest(
                "GET", lease.url, lease.address, self._headers, wants=self._wants
            )
            exchange = await self._client.fetch(request)
        except FetchFailed as failure:
            return Failed(failure.reason, failure.ended_at * failure.asked, failure.ended_at)
        links: list[Link] = []
        if not exchange.body_skipped:
            page = await self._read(exchange, link)
            links = self._outlinks_of(page, link)
            metadata = page_metadata(page, exchange)
            capture = Capture(exchange, page.payload_digest, page.original, metadata)
            await self._writer.write(capture)
            exchange.archived = True
        return fetched(exchange, tuple(links))

    async def _read(self, exchange: Exchange, link: Link) -> Page:
        page = Page(exchange.url, exchange.status, depth=link.depth, via=link.via)
        page.payload_digest = payload_digest(exchange)
        if exchange.status in REDIRECTS:
            target = exchange.header(b"location")
            page.redirect_to = redirect_target(target, page.url) or ""
        elif 200 <= exchange.status < 300 and exchange.payload:
            content = raw_digest(page.payload_digest)
            original = Original(page.url, exchange.started_time, page.payload_digest)
            page.original = await self._frontier.content_seen(content, original)
            media_type = exchange.header(b"content-type").decode("latin-1")
            agent = self._agent
            parsed = read_page(exchange.payload, media_type, page.url, user_agent_token=agent)
            page.charset, page.links = parsed.charset, parsed.links
        return page

    def _outlinks_of(self, page: Page, link: Link) -> list[Link]:
        if not self._follow:
            return []
        moved = page.redirect_to and self._outlinks.of_redirect(page.redirect_to, link)
        links = self._outlinks.of_page(page.links, link)
        return [moved, *links] if moved else links

    async def _record(self, exchange: Exchange) -> None:
        await self._writer.write(Capture(exchange, payload_digest(exchange)))


def main(seeds: str, *chosen: str) -> None:
    settings = project_settings(*chosen)
    gc.freeze()
    gc.set_threshold(*garbage.THRESHOLD)
    loop = settings["ASYNCIO_EVENT_LOOP"]
    with asyncio.Runner(loop_factory=load_object(loop) if loop else None) as runner:
        runner.run(crawl(settings, seeds))


async def crawl(settings: Settings, seeds: str) -> None:
    await Crawl(settings).run(SeedSource(seeds))


if __name__ == "__main__":
    main(*sys.argv[1:])
