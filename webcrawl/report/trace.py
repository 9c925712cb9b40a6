"""Traces one URL: each step of a fetch with its time and its result, for a person to read.

Owns the steps, their order and their format, which is that of the single-URL trace of Texas A&M's
CSCE 463, "Networks and Distributed Processing", homework 1. The steps themselves are the crawl's:
its DNS client, address guard, robots.txt rules, HTTP client, limits, headers and page parser. So a
trace shows what a crawl with the same settings does, with two deviations: the body of an answer is
read whatever its media type, and nothing is tried again.

Bytes of the web are written by `printable` only. Memory: one answer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final, NamedTuple, NoReturn

from scrapy.settings import BaseSettings

from webcrawl.admission.dns import ResolutionFailed
from webcrawl.admission.robotspolicy import (
    AllowsAll,
    HasRules,
    Redirects,
    RobotsAnswer,
    robots_answer,
)
from webcrawl.admission.runner import ADDRESSES_MAX, REDIRECTS, read_robots
from webcrawl.config.build import (
    guard_from,
    policy_from,
    resolver_from,
    robots_reader,
    robots_token,
)
from webcrawl.config.fetch import client_from, content_type_test, headers_from, limits_from
from webcrawl.config.table import read
from webcrawl.fetch.client import FetchRequest, Limits
from webcrawl.fetch.decode import codings_of
from webcrawl.fetch.exchange import UNANSWERED, Exchange, FetchFailed
from webcrawl.fetch.requesthead import UnsendableError, split_url
from webcrawl.parse.page import read_page
from webcrawl.parse.robots import MAX_BODY_BYTES, place_of
from webcrawl.parse.urls import canonicalize, host_of, origin_of, redirect_target, target_of

Write = Callable[[str], None]

DNS_PROBLEMS: Final = {
    "nxdomain": "nxdomain: the name does not exist",
    "nodata": "nodata: the name has no address",
    "timeout": "timeout: no name server answered",
    "unreachable": "unreachable: no name server could be reached",
    "bad_name": "bad_name: no host can have this name",
}
CUT: Final = {
    "length": ", cut at DOWNLOAD_MAXSIZE",
    "time": ", cut at DOWNLOAD_TIMEOUT",
    "disconnect": ", cut by the server",
}


class StepFailed(Exception):  # noqa: N818  (an outcome, not an error of ours)
    """A step without a usable result. Its text is the end of the step's line."""


class Loaded(NamedTuple):
    """An answer, and the size of its body without chunk framing."""

    exchange: Exchange
    content_bytes: int


class Tracer:
    """Traces URLs with the settings of a crawl. All calls must come from one event loop.

    `write` gets the trace as text, part by part; `note` gets lines about the trace. With `robots`,
    robots.txt comes before the page, and is obeyed if ROBOTSTXT_OBEY is on. With `follow`,
    redirects of pages are followed. Between two requests to a host or an address pass the crawl's
    delays.
    """

    def __init__(
        self,
        settings: BaseSettings,
        write: Write,
        note: Write,
        *,
        robots: bool = False,
        follow: bool = False,
    ) -> None:
        self._settings = settings
        self._write = write
        self._note = note
        self._robots = robots
        self._follow = follow
        self._obeys = read(settings, "ROBOTSTXT_OBEY", bool)
        self._limits = replace(limits_from(settings), keep_alive_s=0.0)
        self._headers = headers_from(settings)
        self._politeness = policy_from(settings).politeness
        self._guard = guard_from(settings)
        self._resolver = resolver_from(settings)
        self._client = client_from(settings, self._limits)
        self._addresses: dict[str, tuple[str, ...]] = {}  # by host, of the present URL
        self._asked_at: dict[str, float] = {}  # by host and by address, monotonic
        self._crawl_delay_s: dict[str, float] = {}  # by host
        self._robots_txt: dict[str, tuple[RobotsAnswer, Exchange]] = {}  # by origin

    async def close(self) -> None:
        await self._client.close()
        await self._resolver.close()

    async def trace(self, url: str) -> bool:
        """Trace `url`, and the redirects from it. False if a step failed."""
        hops = read(self._settings, "REDIRECT_MAX_TIMES", int) if self._follow else 0
        try:
            target = await self._trace_one(url)
            for _ in range(hops):
                if target is None:
                    break
                self._write("\n")
                target = await self._trace_one(target)
        except StepFailed as failure:
            self._write(f"{failure}\n")
            return False
        if target and self._follow:
            self._note(f"stops after {hops} redirects: REDIRECT_MAX_TIMES")
        return not (target and self._follow)

    async def _trace_one(self, text: str) -> str | None:
        """Trace one URL; the target if the answer is a redirect. StepFailed."""
        self._write(f"URL: {printable(text)}\n")
        url = self._parse_url(text)
        self._addresses.clear()
        await self._resolve(host_of(url))
        if self._robots:
            await self._check_robots(url)
        loaded = await self._load(url, "page", self._limits)
        exchange, target = loaded.exchange, None
        if 200 <= exchange.status < 300:
            self._show_body(loaded)
            self._parse_page(exchange)
        elif exchange.status in REDIRECTS:
            target = redirect_target(_last(exchange, b"location"), url)
            self._begin("Redirecting")
            self._end(f"to {target}" if target else "to no usable Location")
        self._write(f"\n-----\n{head_lines(exchange.head)}")
        return target

    # The steps.

    def _parse_url(self, text: str) -> str:
        """The canonical form of `text`."""
        self._begin("Parsing URL")
        url = canonicalize(text)
        if url is None:
            is_web = text.strip().lower().startswith(("http:", "https:"))
            _fail("an invalid host or port" if is_web else "an invalid scheme: not http or https")
        parts = split_url(url)
        self._end(f"host {parts.host}, port {parts.port}, request {target_of(url)}")
        return url

    async def _resolve(self, host: str) -> tuple[str, ...]:
        """The addresses of `host` that the crawl may connect to; looked up once for each URL."""
        if host in self._addresses:
            return self._addresses[host]
        self._begin("Doing DNS")
        began = time.monotonic()
        try:
            found = (await self._resolver.resolve(host, began)).addresses
        except ResolutionFailed as failure:
            _fail(DNS_PROBLEMS.get(failure.reason, failure.reason))
        took = _ms(time.monotonic() - began)
        addresses = self._guard.filter(found)[:ADDRESSES_MAX]
        if not addresses:
            private = read(self._settings, "ALLOW_PRIVATE_ADDRESSES", bool)
            hint = "" if private else "; only ALLOW_PRIVATE_ADDRESSES=1 allows it"
            _fail(f"blocked_address: {found[0]}{hint}")
        self._end(f"done in {took} ms, found {addresses[0]}")
        self._addresses[host] = addresses
        return addresses

    async def _load(self, url: str, what: str, limits: Limits) -> Loaded:
        """The answer of the first address that accepts a connection."""
        host = host_of(url)
        addresses = await self._resolve(host)
        for address in addresses:
            await self._wait(host, address)
            try:
                return await self._load_from(address, url, what, limits)
            except FetchFailed as failure:
                reason = self._reason(failure, limits)
                if failure.reason not in UNANSWERED or address == addresses[-1]:
                    _fail(reason)
                self._end(f"failed with {reason} ({address})")
        raise AssertionError("a host has an address")

    async def _load_from(self, address: str, url: str, what: str, limits: Limits) -> Loaded:
        """The answer of `address`. FetchFailed, with the line of the step that failed open."""
        content_bytes = 0

        def count(content: bytes) -> bool:
            nonlocal content_bytes
            content_bytes += len(content)
            return True

        self._begin(f"Connecting on {what}", "* ")
        request = FetchRequest("GET", url, address, self._headers, on_content=count, limits=limits)
        began = time.monotonic()
        asked_at = 0.0
        try:
            exchange = await self._client.fetch(request)
            asked_at = exchange.asked_at
        except UnsendableError as problem:
            _fail(printable(str(problem)))
        except FetchFailed as failure:
            if failure.asked:
                asked_at = failure.ended_at
                self._show_failed_load(failure, failure.ended_at - began)
            raise
        finally:
            for clock in (host_of(url), address):
                self._asked_at[clock] = asked_at or self._asked_at.get(clock, 0.0)
        self._end(f"done in {_ms(exchange.connect_s)} ms")
        if exchange.tls:
            self._begin("Verifying certificate")
            tls = exchange.tls
            self._end(printable(f"{tls.problem or 'valid'} ({tls.version}, {tls.cipher})"))
        self._begin("Loading")
        took = _ms(exchange.total_s - exchange.connect_s)
        size_bytes = len(exchange.head) + len(exchange.body)
        self._end(f"done in {took} ms with {size_bytes} bytes{CUT.get(exchange.truncated, '')}")
        self._begin("Verifying header")
        self._end(f"status code {exchange.status}")
        return Loaded(exchange, content_bytes)

    def _show_failed_load(self, failure: FetchFailed, total_s: float) -> None:
        """The steps before the one that failed; the line of that one stays open."""
        self._end(f"done in {_ms(failure.connect_s)} ms")
        self._begin("Loading")
        if failure.reason == "bad_response":
            took = _ms(total_s - failure.connect_s)
            self._end(f"done in {took} ms with {failure.received_bytes} bytes")
            self._begin("Verifying header")

    def _show_body(self, loaded: Loaded) -> None:
        exchange, problem = loaded.exchange, loaded.exchange.decode_problem
        codings = b", ".join(codings_of(exchange.headers)) if exchange.body else b""
        ending = f", {printable(problem)}" if problem else ""
        self._begin("Dechunking")
        sizes = f"body size was {len(exchange.body)}, now {loaded.content_bytes}"
        self._end(sizes + ("" if codings else ending))
        if codings:
            self._begin(f"Decoding {printable(_text(codings))}")
            sizes = f"body size was {loaded.content_bytes}, now {len(exchange.payload)}"
            self._end(sizes + ending)

    def _parse_page(self, exchange: Exchange) -> None:
        settings = self._settings
        self._begin("Parsing page", "+ ")
        x_robots_tag = b"\n".join(_values(exchange, b"x-robots-tag"))
        began = time.monotonic()
        page = read_page(
            exchange.payload,
            _last(exchange, b"content-type").decode("latin-1") or "text/html",
            exchange.url,
            x_robots_tag=x_robots_tag.decode("latin-1"),
            follow_rel_nofollow=read(settings, "FOLLOW_REL_NOFOLLOW", bool),
            obey_nofollow=read(settings, "OBEY_NOFOLLOW", bool),
            user_agent_token=robots_token(settings).lower(),
        )
        took = _ms(time.monotonic() - began)
        self._end(f"done in {took} ms with {page.found} links")
        if page.nofollow:
            self._note("the page has nofollow")
        if not content_type_test(settings)(exchange.status, exchange.headers):
            self._note("a crawl would not read this body: CONTENT_TYPES lacks its media type")

    # robots.txt.

    async def _check_robots(self, url: str) -> None:
        """Show the rule of robots.txt that decides on `url`. StepFailed if it disallows `url` and
        is obeyed. An origin's robots.txt is fetched once.
        """
        origin = origin_of(url)
        if origin not in self._robots_txt:
            self._robots_txt[origin] = await self._load_robots(origin)
        answer, exchange = self._robots_txt[origin]
        self._begin("Checking robots")
        if isinstance(answer, HasRules):
            allowed, why = await self._by_rules(url, exchange.payload)
        elif isinstance(answer, AllowsAll):
            allowed, why = True, f": no rules, since status {exchange.status} has none"
        else:
            allowed, why = False, f": status {exchange.status} counts as unreachable"
        verdict = f"allowed{why}" if allowed else f"disallowed{why}"
        if not allowed and self._obeys:
            raise StepFailed(verdict)
        self._end(verdict)

    async def _load_robots(self, origin: str) -> tuple[RobotsAnswer, Exchange]:
        """The last answer to a request for robots.txt, and its meaning; follows redirects."""
        url, redirects = f"{origin}/robots.txt", 0
        limits = replace(self._limits, max_size_bytes=MAX_BODY_BYTES)
        while True:
            exchange = (await self._load(url, "robots", limits)).exchange
            location = exchange.header(b"location")
            answer = robots_answer(exchange.status, location, url, redirects)
            if not isinstance(answer, Redirects):
                return answer, exchange
            url, redirects = answer.url, redirects + 1
            self._begin("Redirecting")
            self._end(f"to {url}")

    async def _by_rules(self, url: str, body: bytes) -> tuple[bool, str]:
        """Whether the rules in `body` allow `url`, and why."""
        rules = await read_robots(body, robots_reader(self._settings))
        target = target_of(url)
        allowed, rule = rules.allows(target), rules.deciding(target)
        place = place_of(rule, body, robots_token(self._settings)) if rule else None
        if place is not None:
            why = f' by line {place.number}, "{place.line}", in the group of {place.agent}'
        else:
            why = f" by {rule[1:]}" if rule else ": no rule matches"
        if rules.crawl_delay_s is not None:
            why += f"; crawl delay {rules.crawl_delay_s:g} s"
            self._crawl_delay_s[host_of(url)] = rules.crawl_delay_s
        return allowed, printable(why)

    async def _wait(self, host: str, address: str) -> None:
        """Wait until the host and the address may be asked again."""
        polite = self._politeness
        delay_s = polite.host_delay_s(self._crawl_delay_s.get(host, 0.0))
        due_at = max(
            self._asked_at[key] + wait_s if self._asked_at.get(key) else 0.0
            for key, wait_s in ((host, delay_s), (address, polite.ip_delay_s))
        )
        left_s = due_at - time.monotonic()
        if left_s > 0:
            self._note(f"waits {left_s:.1f} s before the next request to {host}")
            await asyncio.sleep(left_s)

    # Lines.

    def _begin(self, step: str, mark: str = "") -> None:
        self._write(f"  {mark}{step}... ")

    def _end(self, result: str) -> None:
        self._write(f"{result}\n")

    def _reason(self, failure: FetchFailed, limits: Limits) -> str:
        """The reason as in the stats, and what it means."""
        detail = failure.detail
        if failure.reason == "connect_timeout":
            wait_s = min(limits.connect_timeout_s, limits.timeout_s)
            detail = f"no connection after {wait_s:g} s"
        elif failure.reason == "timeout":
            detail = f"no whole header after {limits.timeout_s:g} s"
        elif failure.reason == "bad_response":
            detail = f"the answer is not HTTP, {detail}"
        return printable(f"{failure.reason}: {detail}" if detail else failure.reason)


def printable(text: str) -> str:
    r"""`text` in one line that changes nothing in a terminal: controls and the like as \x1b."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def head_lines(head: bytes) -> str:
    """The lines of a response head, printable, each with a line break."""
    lines = _text(head).rstrip("\r\n").split("\n")
    return "".join(f"{printable(line.removesuffix(chr(13)))}\n" for line in lines)


def _values(exchange: Exchange, name: bytes) -> list[bytes]:
    return [value for key, value in exchange.headers if key.lower() == name]


def _last(exchange: Exchange, name: bytes) -> bytes:
    """The value that the spider reads: Scrapy's `Headers.get` returns the last of several."""
    return (_values(exchange, name) or [b""])[-1]


def _text(octets: bytes) -> str:
    return octets.decode("utf-8", "backslashreplace")


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.0f}"


def _fail(reason: str) -> NoReturn:
    raise StepFailed(f"failed with {reason}")
