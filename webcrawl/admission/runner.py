"""Admissions: the steps beside the pages (DNS, robots.txt, HEAD, sitemaps, requisites).

Turns one lease that is not a PAGE into its outcome. Does not call the frontier and keeps no state
of its own. `robotspolicy` has the meaning of an answer to robots.txt.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from msgspec import structs

from webcrawl.admission.dns import ResolutionFailed, Resolver
from webcrawl.admission.guard import AddressGuard
from webcrawl.admission.outage import Outage
from webcrawl.admission.proxied import ProxyResolver
from webcrawl.admission.robotspolicy import (
    ROBOTS_EXPIRY_S,
    AllowsAll,
    HasRules,
    Redirects,
    Unreachable,
    robots_answer,
)
from webcrawl.admission.ruled import ruled_headers, ruled_limits
from webcrawl.admission.sitemaps import Sitemaps
from webcrawl.crawllog.details import details_of
from webcrawl.crawllog.line import NO_DETAILS
from webcrawl.fetch.client import Client
from webcrawl.fetch.exchange import OURS, REDIRECTS, TRANSIENT, Exchange, FailureReason, FetchFailed
from webcrawl.fetch.request import FetchRequest, Limits
from webcrawl.fetch.retryafter import asked_to_wait_s
from webcrawl.fetch.walls import wall_of
from webcrawl.frontier.lease import (
    Failed,
    Fetched,
    Lease,
    Link,
    Outcome,
    Resolved,
    Returned,
    RobotsFetched,
    RobotsMoved,
    RobotsTask,
    RobotsUnreachable,
    Step,
    Unresolved,
)
from webcrawl.frontier.sitemapnames import GUESSED
from webcrawl.parse.largebodies import GivenUp
from webcrawl.parse.robots import ALLOW_ALL, LARGE_BODY_BYTES, RobotsRules
from webcrawl.parse.sitemaps import SIZE_MAX
from webcrawl.parse.urls import canonicalize_each, host_of, redirect_target
from webcrawl.scope import HostsAndPatterns
from webcrawl.scope.hostrules import NO_VALUES, HostRules, Values

T = TypeVar("T")
Requisite = Callable[[Exchange, Link], Awaitable[Fetched | Returned]]
ADDRESSES_MAX = 8  # per host: each may cost a connect time-out


class _AllBlocked(Exception):  # noqa: N818  (an outcome, not an error of ours)
    """The guard refuses every address of a host."""


@dataclass(slots=True)
class Admissions:
    """Runs RESOLVE, ROBOTS, HEAD, SITEMAP and REQUISITE leases."""

    resolver: Resolver | ProxyResolver
    guard: AddressGuard
    client: Client  # with the limits of robots.txt
    headers: list[tuple[bytes, bytes]]
    # From a robots.txt to its rules, for the name that a rule (RULES) gives; "": our own names.
    read_rules: Callable[[str], Callable[[bytes], RobotsRules]]
    # From a robots.txt to what it says about the use of pages, as above.
    read_signals: Callable[[str], Callable[[bytes], tuple[str, ...]]]
    wants: Callable[[int, list[tuple[bytes, bytes]]], bool]  # whether an answer to HEAD is wanted
    outlink: Callable[[str, Link], Link | None]  # the target of a redirect, if it is in scope
    record: Callable[[Exchange], Awaitable[None]]
    outage: Outage
    denied: HostsAndPatterns | None = None  # not asked, though leased: it may grow meanwhile
    rules: HostRules | None = None  # RULES
    sitemaps: Sitemaps | None = None  # None: no sitemap is read
    page_limits: Limits = field(default_factory=Limits)
    # Archives the answer to a requisite; None: the spider makes no pages that have some.
    requisite: Requisite | None = None
    # Those that are answered, and are being archived and read. They must not be cancelled: the
    # crawl log would lack a record of the archive.
    answers: set[Lease] = field(default_factory=set)

    def run(self, lease: Lease) -> Coroutine[Any, Any, Outcome]:
        """The outcome of `lease`. Any exception is a fault of ours."""
        if lease.step is Step.RESOLVE:
            return self._resolve_lease(lease.host)
        request = self._request(lease)
        if lease.step is Step.SITEMAP:
            limits = request.limits or self.client.limits
            request.limits, request.decodes = replace(limits, max_size_bytes=SIZE_MAX), False
        elif lease.step is Step.REQUISITE:
            values = self._values(lease.host)
            request.limits = ruled_limits(self.page_limits, values, of_page=True)
        return self._fetch(lease, request)

    def _is_denied(self, lease: Lease) -> bool:
        denied = self.denied
        return denied is not None and denied.has_any and denied.matches(lease.url, lease.host)

    async def _fetch(self, lease: Lease, request: FetchRequest) -> Outcome:
        if lease.link is not None and self._is_denied(lease):
            return Returned()  # the frontier drops it
        began_at = time.monotonic()
        try:
            exchange = await self.client.fetch(request)
        except FetchFailed as failure:
            await self.judge(failure, lease)
            asked_at = failure.ended_at if failure.asked else 0.0
            if failure.reason in OURS:
                return Returned(asked_at, failure.ended_at, failure.reason)
            if lease.link is not None:
                took_s = failure.ended_at - began_at
                return Failed(failure.reason, asked_at, failure.ended_at, took_s=took_s)
            return RobotsUnreachable(failure.reason, asked_at, failure.ended_at)
        self.answered(exchange, lease)
        self.answers.add(lease)
        try:
            if lease.step is Step.REQUISITE:
                assert lease.link is not None
                assert self.requisite is not None
                return await self.requisite(exchange, lease.link)
            if lease.robots_task is not None and 200 <= exchange.status < 300:
                agent = self._values(lease.robots_task.home).robots_agent or ""
                read_signals = self.read_signals(agent)
                exchange.signals = await read_robots(exchange.payload, read_signals)
            await self.record(exchange)
            if lease.robots_task is not None:
                return await self._robots(exchange, lease.robots_task)
            assert lease.link is not None
            if lease.step is Step.HEAD:
                return self._head(exchange, lease.link)
            return await self._sitemap(exchange, lease.link)
        finally:
            self.answers.discard(lease)
            if exchange.share is not None:
                exchange.share.release()

    def _request(self, lease: Lease) -> FetchRequest:
        method = "HEAD" if lease.step is Step.HEAD else "GET"
        request = FetchRequest(method, lease.url, lease.address, self.headers)
        values = self._values(lease.host)
        if values is not NO_VALUES:
            request.headers = ruled_headers(self.headers, values, lease.url)
            request.limits = ruled_limits(self.client.limits, values, of_page=False)
        return request

    def _values(self, host: str) -> Values:
        return self.rules.of(host) if self.rules is not None else NO_VALUES

    async def close(self) -> None:
        await self.client.close()
        await self.resolver.close()

    async def address(self, host: str) -> str:
        """The address to connect to for a request without a lease. Raises FetchFailed."""
        try:
            return (await self._resolve(host)).addresses[0]
        except ResolutionFailed as failure:
            reason: FailureReason = "no_socket" if failure.reason == "no_socket" else "dns"
        except _AllBlocked:
            reason = "blocked_address"
        raise FetchFailed(reason, host, ended_at=time.monotonic())

    def answered(self, exchange: Exchange, lease: Lease) -> None:
        """Note for the outage detection that a request of `lease` was answered."""
        self.outage.server_answered(lease.host, lease.address, lease.url, exchange.ended_at)

    async def judge(self, failure: FetchFailed, lease: Lease) -> None:
        """Set the reason of `failure`, the end of a request of `lease`, to "outage" if our network
        is the cause.
        """
        if failure.reason in TRANSIENT and await self.outage.is_ours_for_server(
            *(lease.host, lease.address, lease.url),
            timed_out=failure.reason in ("timeout", "connect_timeout"),
        ):
            failure.reason = "outage"

    async def _resolve_lease(self, host: str) -> Resolved | Unresolved | Returned:
        began_at = time.monotonic()
        try:
            return await self._resolve(host)
        except _AllBlocked:
            return Unresolved("blocked_address", again=False)
        except ResolutionFailed as failure:
            if failure.reason == "no_socket":
                return Returned(reason="no_socket")
            nobody_listens = failure.reason == "unreachable"
            took_s = time.monotonic() - began_at
            if failure.again and await self.outage.is_ours_for_name(
                host, nobody_listens=nobody_listens
            ):
                return Returned()
            return Unresolved("dns", failure.again, failure.reason, took_s)

    async def _resolve(self, host: str) -> Resolved:
        """The addresses that the guard allows. Raises ResolutionFailed or _AllBlocked."""
        now = time.monotonic()
        try:
            resolution = await self.resolver.resolve(host, now)
        except ResolutionFailed as failure:
            if failure.reason in ("nxdomain", "nodata"):
                self.outage.name_answered(host, time.monotonic(), has_address=False)
            raise
        if resolution.took_s:  # 0.0 for an answer from the cache
            self.outage.name_answered(host, now + resolution.took_s, has_address=True)
        addresses = self.guard.admitted(host, resolution.addresses)
        if not addresses:
            raise _AllBlocked
        return Resolved(addresses[:ADDRESSES_MAX], resolution.expires_at, resolution.took_s)

    async def _robots(self, exchange: Exchange, robots_task: RobotsTask) -> Outcome:
        times = (exchange.asked_at, exchange.ended_at)
        answered = (exchange.status, exchange.first_byte_s)
        details = details_of(exchange)
        size = exchange.size_bytes
        agent = self._values(robots_task.home).robots_agent or ""
        location = exchange.header(b"location")
        rules = ALLOW_ALL
        kind: Literal["2xx", "4xx", "redirects"] = "2xx"
        match robots_answer(exchange.status, location, robots_task.url, robots_task.redirects):
            case HasRules():
                rules = await read_robots(exchange.payload, self.read_rules(agent))
            case AllowsAll(why):
                kind = why
            case Redirects(url):
                return RobotsMoved(url, host_of(url), *times, size, details, *answered)
            case Unreachable():
                again_s = asked_to_wait_s(exchange)
                return RobotsUnreachable("5xx", *times, again_s, details, *answered)
        rules = self._with_sitemaps(rules, robots_task)
        expires_at = exchange.ended_at + ROBOTS_EXPIRY_S
        return RobotsFetched(*(rules, expires_at, *times, kind, size, agent, details, *answered))

    def _with_sitemaps(self, rules: RobotsRules, robots_task: RobotsTask) -> RobotsRules:
        """`rules` with the sitemaps that they name, or with a guess: canonical, each once, and in
        scope.
        """
        origin, urls = robots_task.origin, []
        if self.sitemaps is not None and rules.sitemaps:
            # Deviation: relative to the robots.txt; the standard asks for whole URLs.
            named, _ = canonicalize_each(rules.sitemaps, origin + "/robots.txt")
            urls = [*filter(self.sitemaps.has_scope, named)]
        elif self.sitemaps is not None and self.sitemaps.guesses_for(origin):
            urls = [GUESSED]
        if not (urls or rules.sitemaps):
            return rules
        return structs.replace(rules, sitemaps=tuple(urls))

    async def _sitemap(self, exchange: Exchange, link: Link) -> Outcome:
        links: tuple[Link, ...] = ()
        own_only = False
        if self.sitemaps is not None:
            try:
                links, own_only = await self.sitemaps.links_of(exchange, link)
            except GivenUp:
                return Returned(exchange.asked_at, exchange.ended_at, details=details_of(exchange))
        return Fetched(
            *(exchange.status, exchange.asked_at, exchange.ended_at, links),
            retry_after_s=asked_to_wait_s(exchange),
            size_bytes=exchange.size_bytes,
            took_s=exchange.total_s,
            details=details_of(exchange),
            own_only=own_only,
            first_byte_s=exchange.first_byte_s,
        )

    def _head(self, exchange: Exchange, link: Link) -> Outcome:
        """A GET follows for a wanted type, and if the server does not know HEAD (RFC 9110, 9.1)."""
        status = exchange.status
        exchange.wall = wall_of(status, exchange.head, b"")
        links: tuple[Link, ...] = ()
        if status in REDIRECTS and not exchange.wall:
            target = redirect_target(exchange.header(b"location"), link.url)
            moved = target and self.outlink(target, link)
            links = (moved,) if moved else ()
        wanted = not exchange.wall and (
            status in (405, 501) or (200 <= status < 300 and self.wants(status, exchange.headers))
        )
        again_s = asked_to_wait_s(exchange)
        times = (exchange.asked_at, exchange.ended_at)
        size = len(exchange.head)
        details = NO_DETAILS if wanted else details_of(exchange)
        return Fetched(
            *(status, *times, links),
            retry_after_s=again_s,
            size_bytes=size,
            wanted=wanted,
            details=details,
            first_byte_s=exchange.first_byte_s,
            wall=exchange.wall,
        )


async def read_robots(body: bytes, read_rules: Callable[[bytes], T]) -> T:
    """The rules in `body`, or its signals. A large body is read on a thread: it would block the
    event loop.
    """
    if len(body) <= LARGE_BODY_BYTES:
        return read_rules(body)
    return await asyncio.to_thread(read_rules, body)


def broken(lease: Lease, now: float) -> Outcome:
    """The outcome of a lease that ended by a fault of ours. Not retried: it would fail again."""
    match lease.step:
        case Step.RESOLVE:
            return Unresolved("error", again=False)
        case Step.ROBOTS:
            return RobotsUnreachable("error", now, now)
        case _:
            return Failed("error", now, now)
