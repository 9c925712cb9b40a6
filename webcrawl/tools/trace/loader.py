"""Fetches one URL for a trace: DNS, the connection, the answer; each step is a line.

Owns these lines, the waits between two requests, and the form of everything that a trace prints.
The parts that do the work are a crawl's own, built from its settings.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, NoReturn

from scrapy.settings import BaseSettings

from webcrawl.admission.dns import ResolutionFailed
from webcrawl.admission.runner import ADDRESSES_MAX
from webcrawl.base.wording import printable
from webcrawl.config.build import guard_from, policy_from, resolver_from
from webcrawl.config.fetch import client_from, headers_from, limits_from
from webcrawl.config.table import read
from webcrawl.fetch.exchange import UNANSWERED, Exchange, FetchFailed
from webcrawl.fetch.request import FetchRequest, Limits
from webcrawl.fetch.requesthead import UnsendableError
from webcrawl.frontier.host import real_address
from webcrawl.parse.urls import host_of

Write = Callable[[str], None]

DNS_PROBLEMS: Final = {
    "nxdomain": "nxdomain: the name does not exist",
    "nodata": "nodata: the name has no address",
    "timeout": "timeout: no name server answered",
    "unreachable": "unreachable: no name server could be reached",
    "bad_name": "bad_name: no host can have this name",
}
CUT: Final = {
    "length": ", cut at {0.max_size_bytes} bytes",
    "time": ", cut after {0.timeout_s:g} s",
    "disconnect": ", cut by the server",
}


class StepFailed(Exception):  # noqa: N818  (an outcome, not an error of ours)
    """A step without a usable result. Its text is the end of the step's line."""


@dataclass(frozen=True)
class Lines:
    """Writes a trace: `write` gets its text, part by part, and `note` gets lines about it."""

    write: Write
    note: Write

    def begin(self, step: str, mark: str = "") -> None:
        self.write(f"  {mark}{step}... ")

    def end(self, result: str) -> None:
        self.write(f"{result}\n")

    def step(self, step: str, result: str) -> None:
        self.begin(step)
        self.end(result)


class Loader:
    """Fetches URLs, and writes a line for each step. All calls must come from one event loop.

    Between two requests to a host or an address pass the crawl's delays. A step that fails raises
    StepFailed; its line has no end yet.
    """

    def __init__(self, settings: BaseSettings, lines: Lines) -> None:
        self.limits = replace(limits_from(settings), keep_alive_s=0.0)
        self.crawl_delay_s: dict[str, float] = {}  # by host
        self._lines = lines
        self._private = read(settings, "ALLOW_PRIVATE_ADDRESSES", bool)
        self._headers = headers_from(settings)
        self._politeness = policy_from(settings).politeness
        self._guard = guard_from(settings)
        self._resolver = resolver_from(settings)
        self._client = client_from(settings, self.limits)
        self.addresses: dict[str, tuple[str, ...]] = {}  # by host, of the present URL
        self._asked_at: dict[str, float] = {}  # by host and by address, monotonic

    async def close(self) -> None:
        await self._client.close()
        await self._resolver.close()

    async def resolve(self, host: str) -> tuple[str, ...]:
        """The addresses of `host` that the crawl may connect to; looked up once for each URL."""
        if host in self.addresses:
            return self.addresses[host]
        self._lines.begin("Doing DNS")
        began = time.monotonic()
        try:
            found = (await self._resolver.resolve(host, began)).addresses
        except ResolutionFailed as failure:
            fail(DNS_PROBLEMS.get(failure.reason, failure.reason))
        took = ms(time.monotonic() - began)
        addresses = self._guard.admitted(host, found)[:ADDRESSES_MAX]
        if not addresses:
            hint = "" if self._private else "; only ALLOW_PRIVATE_ADDRESSES=1 allows it"
            fail(f"blocked_address: {real_address(found[0]) or host}{hint}")
        if real_address(addresses[0]):
            self._lines.end(f"done in {took} ms, found {addresses[0]}")
        else:
            self._lines.end("left to the proxy")
        self.addresses[host] = addresses
        return addresses

    async def load(self, url: str, what: str, limits: Limits) -> Exchange:
        """The answer of the first address that accepts a connection."""
        host = host_of(url)
        addresses = await self.resolve(host)
        for address in addresses:
            await self._wait(host, address)
            try:
                return await self._load_from(address, url, what, limits)
            except FetchFailed as failure:
                reason = self._reason(failure, limits)
                if failure.reason not in UNANSWERED or address == addresses[-1]:
                    fail(reason)
                self._lines.end(f"failed with {reason} ({address})")
        raise AssertionError("a host has an address")

    async def _load_from(self, address: str, url: str, what: str, limits: Limits) -> Exchange:
        """The answer of `address`. FetchFailed, with the line of the step that failed open."""
        self._lines.begin(f"Connecting on {what}", "* ")
        request = FetchRequest("GET", url, address, self._headers, limits=limits)
        began = time.monotonic()
        asked_at = 0.0
        try:
            exchange = await self._client.fetch(request)
            asked_at = exchange.asked_at
        except UnsendableError as problem:
            fail(printable(str(problem)))
        except FetchFailed as failure:
            if failure.asked:
                asked_at = failure.ended_at
                self._show_failed_load(failure, failure.ended_at - began)
            raise
        finally:
            for clock in (host_of(url), address):
                self._asked_at[clock] = asked_at or self._asked_at.get(clock, 0.0)
        self._lines.end(f"done in {ms(exchange.connect_s)} ms")
        if exchange.tls:
            tls = exchange.tls
            verdict = f"{tls.problem or 'valid'} ({tls.version}, {tls.cipher})"
            self._lines.step("Verifying certificate", printable(verdict))
        took = ms(exchange.total_s - exchange.connect_s)
        size_bytes = exchange.size_bytes
        cut = CUT.get(exchange.truncated, "").format(limits)
        if exchange.truncated == "length" and len(exchange.body) < limits.max_size_bytes:
            cut = ", cut: mostly chunk framing"  # see `fetch.http1.MAX_FRAMING`
        self._lines.step("Loading", f"done in {took} ms with {size_bytes} bytes{cut}")
        self._lines.step("Verifying header", f"status code {exchange.status}")
        return exchange

    def _show_failed_load(self, failure: FetchFailed, total_s: float) -> None:
        """The steps before the one that failed; the line of that one stays open."""
        self._lines.end(f"done in {ms(failure.connect_s)} ms")
        self._lines.begin("Loading")
        if failure.reason == "bad_response":
            took = ms(total_s - failure.connect_s)
            self._lines.end(f"done in {took} ms with {failure.received_bytes} bytes")
            self._lines.begin("Verifying header")

    async def _wait(self, host: str, address: str) -> None:
        """Wait until the host and the address may be asked again."""
        polite = self._politeness
        delay_s = polite.host_delay_s(self.crawl_delay_s.get(host, 0.0))
        due_at = max(
            self._asked_at[key] + wait_s if self._asked_at.get(key) else 0.0
            for key, wait_s in ((host, delay_s), (address, polite.ip_delay_s))
        )
        left_s = due_at - time.monotonic()
        if left_s > 0:
            self._lines.note(f"waits {left_s:.1f} s before the next request to {host}")
            await asyncio.sleep(left_s)

    def _reason(self, failure: FetchFailed, limits: Limits) -> str:
        """The reason as in the stats, and what it means."""
        detail = failure.detail
        if failure.reason == "connect_timeout":
            wait_s = min(limits.connect_timeout_s, limits.timeout_s)
            detail = f"no connection after {wait_s:g} s"
        elif failure.reason == "timeout":
            detail = f"no whole header after {limits.timeout_s:g} s"
        elif failure.reason == "blocked_port":
            detail += "; no request is sent there"
        elif failure.reason == "bad_response":
            detail = f"the answer is not HTTP, {detail}"
        return printable(f"{failure.reason}: {detail}" if detail else failure.reason)


def ms(seconds: float) -> str:
    return f"{1000 * seconds:.0f}"


def fail(reason: str) -> NoReturn:
    raise StepFailed(f"failed with {reason}")


def head_lines(head: bytes) -> str:
    """The lines of a response head, printable, each with a line break."""
    lines = text_of(head).rstrip("\r\n").split("\n")
    return "".join(f"{printable(line.removesuffix(chr(13)))}\n" for line in lines)


def text_of(octets: bytes) -> str:
    return octets.decode("utf-8", "backslashreplace")
