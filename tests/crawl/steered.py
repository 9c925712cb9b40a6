"""Crawls that a test steers, by the command of a user."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

import pytest
from scrapy import signals
from scrapy.crawler import Crawler

from simweb import Running
from tests.crawl.crawling import Crawl
from webcrawl import settings as project
from webcrawl.crawl.crawl import crawl_of
from webcrawl.crawl.steering import SteeringError
from webcrawl.live.address import address_of
from webcrawl.live.client import NotRunning, Refused, ask

HAS_SERVER = find_spec("webcrawl.live.server") is not None


class Steered(Crawl):
    """A crawl in the folder `job`, which `ctl` steers."""

    def __init__(self, folder: Path, *seeds: str, web: Running, **settings: Any) -> None:
        self.web = web
        self.jobdir = folder / "job"
        extra = {} if HAS_SERVER else {"tests.crawl.steered.CommandServer": 500}
        settings = {"EXTENSIONS": json.dumps(project.EXTENSIONS | extra)} | settings
        super().__init__(folder, *seeds, web=web, JOBDIR=self.jobdir, **settings)

    def ctl(self, command: str, *arguments: str) -> str:
        """The answer to a command. It waits until the crawl listens."""
        deadline = time.monotonic() + 60
        while True:
            try:
                body = {"command": command, "arguments": arguments}
                answer = ask(self.jobdir, "POST", "/command", body)
            except NotRunning:
                assert self.process.poll() is None, self._err.read_text()[-3000:]
                assert time.monotonic() < deadline
                time.sleep(0.05)
            else:
                assert isinstance(answer, dict)
                return str(answer["message"])

    def refusal(self, command: str, *arguments: str) -> str:
        """The reason why a command is refused."""
        with pytest.raises(Refused) as refused:
            self.ctl(command, *arguments)
        return str(refused.value)

    def after(self, pages: int) -> Self:
        """Wait until servers were asked so often."""
        self.until_true(lambda: self.web.ledger()["totals"].get("pages", 0) >= pages)
        return self

    def until_true(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 120
        while not condition():
            assert time.monotonic() < deadline, self._err.read_text()[-3000:]
            assert self.process.poll() is None, self._err.read_text()[-3000:]
            time.sleep(0.02)

    def requests_since(self, when: float) -> list[str]:
        """The URLs, without scheme, that servers were asked for since `when` (monotonic)."""
        return [host + target for at, _, host, target in self.web.latest() if at > when]


class CommandServer:
    """A stand-in for the control server of a crawl: POST /command on the socket, nothing else."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        server = cls(crawler)
        crawler.signals.connect(server.open, signals.spider_opened)
        return server

    async def open(self) -> None:
        jobdir = self._crawler.settings.get("JOBDIR")
        if not jobdir or crawl_of(self._crawler).steering is None:
            return
        with suppress(FileNotFoundError):
            (Path(jobdir) / "control.sock").unlink()
        with address_of(Path(jobdir)) as address:
            self._server = await asyncio.start_unix_server(self._serve, address)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        fields = dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:-2])
        body = json.loads(await reader.readexactly(int(fields[b"content-length"])))
        steering = crawl_of(self._crawler).steering
        assert steering is not None
        try:
            message = await steering.do(body["command"], body["arguments"], "scrapy ctl")
            status, answer = b"200 OK", {"message": message}
        except SteeringError as error:
            status, answer = b"400 Bad Request", {"error": str(error)}
        sent = json.dumps(answer).encode()
        kind = b"Content-Type: application/json\r\nConnection: close\r\n"
        writer.write(b"HTTP/1.1 %b\r\n%bContent-Length: %d\r\n\r\n" % (status, kind, len(sent)))
        writer.write(sent)
        await writer.drain()
        writer.close()
