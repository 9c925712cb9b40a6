"""Traces one URL: each step of a fetch with its time and its result, for a person to read.

Owns the steps, their order and their format, which is that of the single-URL trace of Texas A&M's
CSCE 463, "Networks and Distributed Processing", homework 1. The steps themselves are the crawl's:
its DNS client, address guard, robots.txt rules, HTTP client, limits, headers and page parser. So a
trace shows what a crawl with the same settings does, with two deviations: the body of an answer is
read whatever its media type, and nothing is tried again.

Bytes of the web are written by `printable` only. Memory: one answer.
"""

from __future__ import annotations

import time
from dataclasses import replace

from scrapy.settings import BaseSettings

from webcrawl.admission.robotspolicy import (
    AllowsAll,
    HasRules,
    Redirects,
    RobotsAnswer,
    robots_answer,
)
from webcrawl.admission.runner import read_robots
from webcrawl.base.wording import printable
from webcrawl.config.build import reading_from, robots_reader, robots_token
from webcrawl.config.fetch import content_type_test
from webcrawl.config.table import read
from webcrawl.fetch.decode import codings_of
from webcrawl.fetch.exchange import REDIRECTS, Exchange
from webcrawl.fetch.requesthead import split_url
from webcrawl.parse.body import About, BodyReader
from webcrawl.parse.jointrules import decision
from webcrawl.parse.ownersignals import bounded, header_signals
from webcrawl.parse.robots import MAX_BODY_BYTES, place_of
from webcrawl.parse.urls import canonicalize, host_of, origin_of, redirect_target, target_of
from webcrawl.tools.trace.loader import (
    Lines,
    Loader,
    StepFailed,
    Write,
    fail,
    head_lines,
    ms,
    text_of,
)
from webcrawl.warc.payload import without_chunks


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
        self._lines = Lines(write, note)
        self._robots = robots
        self._follow = follow
        self._obeys = read(settings, "ROBOTSTXT_OBEY", bool)
        self._loader = Loader(settings, self._lines)
        self._robots_txt: dict[str, tuple[RobotsAnswer, Exchange]] = {}  # by origin

    async def close(self) -> None:
        await self._loader.close()

    async def trace(self, url: str) -> bool:
        """Trace `url`, and the redirects from it. False if a step failed."""
        hops = read(self._settings, "REDIRECT_MAX_TIMES", int) if self._follow else 0
        try:
            target = await self._trace_one(url)
            for _ in range(hops):
                if target is None:
                    break
                self._lines.write("\n")
                target = await self._trace_one(target)
        except StepFailed as failure:
            self._lines.write(f"{failure}\n")
            return False
        if target and self._follow:
            self._lines.note(f"stops after {hops} redirects: REDIRECT_MAX_TIMES")
        return not (target and self._follow)

    async def _trace_one(self, text: str) -> str | None:
        """Trace one URL; the target if the answer is a redirect. StepFailed."""
        self._lines.write(f"URL: {printable(text)}\n")
        url = self._parse_url(text)
        self._loader.addresses.clear()  # the host is looked up again
        await self._loader.resolve(host_of(url))
        if self._robots:
            await self._check_robots(url)
        exchange, target = await self._loader.load(url, "page", self._loader.limits), None
        if 200 <= exchange.status < 300:
            self._show_body(exchange)
            self._parse_page(exchange)
        elif exchange.status in REDIRECTS:
            target = redirect_target(_last(exchange, b"location"), url)
            self._lines.step("Redirecting", f"to {target or 'no usable Location'}")
        self._lines.write(f"\n-----\n{head_lines(exchange.head)}")
        return target

    # The steps.

    def _parse_url(self, text: str) -> str:
        """The canonical form of `text`."""
        self._lines.begin("Parsing URL")
        url = canonicalize(text)
        if url is None:
            is_web = text.strip().lower().startswith(("http:", "https:"))
            fail("an invalid host or port" if is_web else "an invalid scheme: not http or https")
        parts = split_url(url)
        self._lines.end(f"host {parts.host}, port {parts.port}, request {target_of(url)}")
        return url

    def _show_body(self, exchange: Exchange) -> None:
        problem, content_bytes = exchange.decode_problem, len(without_chunks(exchange))
        codings = b", ".join(codings_of(exchange.headers)) if exchange.body else b""
        ending = f", {printable(problem)}" if problem else ""
        sizes = f"body size was {len(exchange.body)}, now {content_bytes}"
        self._lines.step("Dechunking", sizes + ("" if codings else ending))
        if codings:
            sizes = f"body size was {content_bytes}, now {len(exchange.payload)}{ending}"
            self._lines.step(f"Decoding {printable(text_of(codings))}", sizes)

    def _parse_page(self, exchange: Exchange) -> None:
        settings = self._settings
        self._lines.begin("Parsing page", "+ ")
        x_robots_tag = b"\n".join(_values(exchange, b"x-robots-tag"))
        began = time.monotonic()
        try:
            about = About(
                _last(exchange, b"content-type").decode("latin-1") or "text/html",
                exchange.url,
                x_robots_tag.decode("latin-1"),
                _last(exchange, b"refresh").decode("latin-1"),
            )
            page = BodyReader(reading_from(settings)).read(exchange.payload, about).page
        except Exception as error:  # of a user's own parser (PARSERS)
            fail(f"an exception of its parser: {printable(repr(error))}")
        took = ms(time.monotonic() - began)
        self._lines.end(f"done in {took} ms with {page.found} links")
        if page.nofollow:
            self._lines.note("the page has nofollow")
        for signal in bounded(header_signals(exchange.headers) + page.signals):
            self._lines.note(f"the owner says: {signal}")
        if not content_type_test(settings)(exchange.status, exchange.headers):
            self._lines.note("a crawl would not read this body: CONTENT_TYPES lacks its media type")

    # robots.txt.

    async def _check_robots(self, url: str) -> None:
        """Show the rule of robots.txt that decides on `url`. StepFailed if it disallows `url` and
        is obeyed. An origin's robots.txt is fetched once.
        """
        origin = origin_of(url)
        if origin not in self._robots_txt:
            self._robots_txt[origin] = await self._load_robots(origin)
        answer, exchange = self._robots_txt[origin]
        self._lines.begin("Checking robots")
        if isinstance(answer, HasRules):
            allowed, why = await self._by_rules(url, exchange.payload)
        elif isinstance(answer, AllowsAll):
            allowed, why = True, f": no rules, since status {exchange.status} has none"
        else:
            allowed, why = False, f": status {exchange.status} counts as unreachable"
        verdict = f"allowed{why}" if allowed else f"disallowed{why}"
        if not allowed and self._obeys:
            raise StepFailed(verdict)
        self._lines.end(verdict)

    async def _load_robots(self, origin: str) -> tuple[RobotsAnswer, Exchange]:
        """The last answer to a request for robots.txt, and its meaning; follows redirects."""
        url, redirects = f"{origin}/robots.txt", 0
        limits = replace(self._loader.limits, max_size_bytes=MAX_BODY_BYTES)
        while True:
            exchange = await self._loader.load(url, "robots", limits)
            location = exchange.header(b"location")
            answer = robots_answer(exchange.status, location, url, redirects)
            if not isinstance(answer, Redirects):
                return answer, exchange
            url, redirects = answer.url, redirects + 1
            self._lines.step("Redirecting", f"to {url}")

    async def _by_rules(self, url: str, body: bytes) -> tuple[bool, str]:
        """Whether the rules in `body` allow `url`, and why."""
        rules = await read_robots(body, robots_reader(self._settings))
        target = target_of(url)
        allowed, (rule, names) = rules.allows(target), decision(rules, target)
        own = robots_token(self._settings)
        place = place_of(rule, body, names[0] if names else own) if rule else None
        if place is not None:
            why = f' by line {place.number}, "{place.line}", in the group of {place.agent}'
        else:
            why = f" by {rule[1:]}" if rule else ": no rule matches"
        if names:
            why += f", as {' and '.join(names)}"
        if rules.crawl_delay_s is not None:
            why += f"; crawl delay {rules.crawl_delay_s:g} s"
            self._loader.crawl_delay_s[host_of(url)] = rules.crawl_delay_s
        return allowed, printable(why)


def _values(exchange: Exchange, name: bytes) -> list[bytes]:
    return [value for key, value in exchange.headers if key == name]


def _last(exchange: Exchange, name: bytes) -> bytes:
    """The value that the spider reads: Scrapy's `Headers.get` returns the last of several."""
    return (_values(exchange, name) or [b""])[-1]
