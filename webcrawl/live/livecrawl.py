"""What the control server answers with, from the state of the running crawl. Knows no HTTP.

Invariants: a snapshot is made only for a reader, and at most once per SNAPSHOT_S for all readers.
The frontier's rows are read on its thread.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

import msgspec
from scrapy.crawler import Crawler

from webcrawl.base.wording import SettingError
from webcrawl.crawl.crawl import crawl_of
from webcrawl.crawl.steering import SteeringError
from webcrawl.frontier.buckets import hub_of
from webcrawl.frontier.store import StoreError
from webcrawl.live.explanation import explained_by_crawl
from webcrawl.live.metrics import exposition
from webcrawl.live.snapshot import Snapshots
from webcrawl.parse.urls import canonicalize, host_of

SNAPSHOT_S: Final = 1.0
EXPLANATIONS_MAX: Final = 8  # at a time


class RefusalError(Exception):
    """The asker's fault, or something that this crawl does not have: a status and one line."""

    def __init__(self, status: int, line: str) -> None:
        super().__init__(line)
        self.status = status


class LiveCrawl:
    """One running crawl. `lines` are those of its log."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._snapshots = Snapshots(crawler)
        self._made_at = 0.0  # monotonic, when the making of the last snapshot began
        self._snapshot: asyncio.Future[dict[str, Any]] | None = None
        self._explaining = 0

    async def snapshot(self) -> bytes:
        """The snapshot, as JSON. RefusalError if the frontier is closed."""
        return msgspec.json.encode(await self._latest())

    async def metrics(self) -> bytes:
        """The snapshot, in Prometheus' text format."""
        return exposition(await self._latest())

    async def _latest(self) -> dict[str, Any]:
        now = time.monotonic()
        latest = self._snapshot
        if latest is None or (latest.done() and now >= self._made_at + SNAPSHOT_S):
            self._made_at = now
            latest = self._snapshot = asyncio.ensure_future(self._snapshots.take())
        try:
            return await asyncio.shield(latest)  # a reader that leaves does not end the others'
        except StoreError as error:  # the frontier is closed, or has failed
            raise RefusalError(503, one_line(str(error))) from None

    def lines(self, seen: int, limit: int) -> tuple[list[bytes], int]:
        """The last lines of the crawl log after line number `seen`, `limit` at most.

        Each is JSON. The second value is the number of the last line.
        """
        log = crawl_of(self._crawler).log
        if log is None:
            return [], 0
        number = log.last_number
        new = min(number - seen, limit)
        return (log.recent()[-new:] if new > 0 else []), number

    async def explain(self, text: str) -> list[str]:
        """What `scrapy explain` prints about the URL `text`. RefusalError if it has no answer."""
        url = canonicalize(text)
        if url is None:
            raise RefusalError(400, f"{text[:200]!r} is not an http(s) URL")
        local = crawl_of(self._crawler).local
        if local is None:
            raise RefusalError(503, "this crawl has no frontier of ours")
        whole = crawl_of(self._crawler).whole
        hub = hub_of(host_of(url), whole.hubs) if whole is not None else 0
        if whole is not None and hub != whole.number:
            try:
                lines = await whole.steering.explain(hub, url)
            except SteeringError as error:
                raise RefusalError(503, one_line(f"it is a URL of hub {hub}: {error}")) from None
            return [*lines, f"Of hub {hub}."]
        if self._explaining >= EXPLANATIONS_MAX:
            raise RefusalError(503, f"{EXPLANATIONS_MAX} URLs are being explained: try again")
        self._explaining += 1
        try:
            return await explained_by_crawl(self._crawler.settings, local, url)
        except (StoreError, SettingError) as error:
            raise RefusalError(503, one_line(str(error))) from None
        finally:
            self._explaining -= 1

    async def do(self, order: object, by: str) -> str:
        """Carry out `order`, {"command": name, "arguments": [text ...]}. One line for the user.

        `by` names the origin in the log. RefusalError if it is malformed or refused.
        """
        match order:
            case {"command": str(command), "arguments": list(arguments), **others} if not others:
                pass
            case {"command": str(command), **others} if not others:
                arguments = []
            case _:
                raise RefusalError(400, 'not of the form {"command": "...", "arguments": ["..."]}')
        if not all(isinstance(argument, str) for argument in arguments):
            raise RefusalError(400, "an argument is not a text")
        steering = crawl_of(self._crawler).steering
        if steering is None:
            raise RefusalError(400, "this crawl cannot be steered")
        try:
            return one_line(await steering.do(command, arguments, by))
        except SteeringError as error:
            raise RefusalError(400, one_line(str(error))) from None


def one_line(text: str) -> str:
    return " ".join(text.split())
