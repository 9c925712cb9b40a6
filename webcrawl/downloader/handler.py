"""Scrapy's download handler on `fetch.client`: a Request goes in, a Response comes out.

It notes in the Request's state (`crawl.page_fetch`) the Exchange as it was on the wire, or the
FetchFailed, besides raising an exception.

A Request with a lease connects to the lease's address. If the crawl made the Request for a link,
the body is not read when its type is not in CONTENT_TYPES; a body over a limit is cut, kept and
flagged "truncated". Any other Request is a user's own: a cut body is an exception, as in Scrapy
(`crawl.user_requests`).

Replaces the middlewares UserAgent, DefaultHeaders, HttpCompression and DownloadTimeout. A server's
fault is never a line in the log.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import sys
import time
from dataclasses import replace
from typing import Any, Final, Self

from scrapy import Request, signals
from scrapy.core.downloader.handlers.base import BaseDownloadHandler
from scrapy.crawler import Crawler
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    IgnoreRequest,
    NotConfigured,
    StopDownload,
    UnsupportedURLSchemeError,
)
from scrapy.http import Headers, HtmlResponse, Response
from scrapy.responsetypes import responsetypes
from scrapy.utils.asyncio import is_asyncio_available
from scrapy.utils.misc import build_from_crawler, load_object
from twisted.python.failure import Failure

from webcrawl.admission.guard import ip_of
from webcrawl.admission.ruled import login_problem, ruled_headers, ruled_limits
from webcrawl.config.fetch import (
    bind_address,
    client_from,
    content_type_test,
    headers_from,
    limits_from,
    pairs,
)
from webcrawl.crawl.crawl import crawl_of
from webcrawl.crawl.outcomes import NotSent
from webcrawl.crawl.page_fetch import (
    PageFetch,
    is_users,
    note,
    page_fetch_of,
    state_of,
)
from webcrawl.crawl.receivers import receivers_of
from webcrawl.crawl.user_requests import BodyRules
from webcrawl.fetch.client import Client
from webcrawl.fetch.conditions import are_conditional
from webcrawl.fetch.exchange import (
    NOT_MODIFIED,
    Exchange,
    FetchFailed,
)
from webcrawl.fetch.http1 import Headers as WireHeaders
from webcrawl.fetch.http1 import content_length
from webcrawl.fetch.mediatypes import Wants
from webcrawl.fetch.request import FetchRequest, Limits
from webcrawl.fetch.requesthead import (
    UnsendableError,
    check_target,
    header_line,
    is_visible,
    one_line,
    split_url,
)
from webcrawl.fetch.room import Share
from webcrawl.frontier.lease import Lease
from webcrawl.parse.urls import canonicalize, host_of
from webcrawl.scope.hostrules import NO_VALUES, Values
from webcrawl.signals import fetches_cut

logger = logging.getLogger(__name__)

_UNAUTHORIZED: Final = 401  # RFC 9110, 15.5.2
_LOGINS_NAMED: Final = 100  # sites whose login is refused, each one line of the log

_is_html = re.compile(rb"text/html[ \t]*(?:;|\Z)", re.IGNORECASE).match

FAILURES: dict[str, type[Exception]] = {  # by reason
    "dns": CannotResolveHostError,
    "blocked_address": CannotResolveHostError,
    "connect": DownloadConnectionRefusedError,
    "connect_timeout": DownloadTimeoutError,
    "timeout": DownloadTimeoutError,
    "cancelled": DownloadCancelledError,
    "outage": DownloadCancelledError,
}  # DownloadFailedError for all others

_PROXY_HANDLER: Final = "scrapy.core.downloader.handlers.http11.HTTP11DownloadHandler"


async def system_address(host: str) -> str:
    """An address of `host` by the system's resolver, IPv4 if it has one. Raises FetchFailed."""
    loop = asyncio.get_running_loop()
    try:
        infos = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise FetchFailed("dns", str(error), ended_at=time.monotonic()) from None
    return str(min(infos, key=lambda info: info[0] != socket.AF_INET)[4][0])


class DownloadHandler(BaseDownloadHandler):
    """Download handler for http and https. A GET costs about 40 µs on top of `Client.fetch`."""

    lazy = False

    def __init__(
        self,
        crawler: Crawler,
        client: Client,
        headers: WireHeaders,
        wants: Wants,
        bodies: BodyRules,
        tls_logging: bool = False,
    ) -> None:
        super().__init__(crawler)
        self._crawl = crawl_of(crawler)
        self._client = client
        self._headers = headers
        self._wants = wants
        self._bodies = bodies
        self._tls_logging = tls_logging
        self._archives = crawler.settings.getbool("WARC_ENABLED", True)
        self._proxied: BaseDownloadHandler | None = None
        self._refused_logins: set[str] = set()  # sites that a warning has named
        crawler.signals.connect(client.abort, fetches_cut)
        self._crawl.handlers[type(self)] = self

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if not is_asyncio_available():
            raise NotConfigured(f"{cls.__name__} needs asyncio: see TWISTED_REACTOR")
        settings = crawler.settings
        return cls(
            crawler,
            client_from(
                settings, limits_from(settings), crawl_of(crawler).gate, crawl_of(crawler).room
            ),
            headers_from(settings),
            content_type_test(settings),
            BodyRules(settings),
            settings.getbool("DOWNLOADER_CLIENT_TLS_VERBOSE_LOGGING"),
        )

    async def download_request(self, request: Request) -> Response:
        meta, state = request.meta, state_of(request)
        lease = state.lease_of(request)
        if state.exchange is not None or state.failure is not None:  # of an earlier try
            note(request, exchange=None, failure=None)
        if lease is not None and lease.refused:
            raise refusal(lease)
        if meta.get("proxy") and self._client.proxy is None:  # else that of the whole crawl is used
            try:
                _make_sendable(request)
            except UnsendableError as problem:
                raise _not_sent(request, problem) from None
            return await self._through_proxy(request, self._values(request, lease))
        own = is_users(lease)
        wants = self._bodies.wants(request) if own else self._wants
        received = _ReceivedSignals.of(self.crawler, request, wants)
        try:
            exchange = await self._fetch(request, lease, wants, received)
        except FetchFailed as failure:
            failure.__traceback__ = None  # it refers to this frame, and this frame to it: a cycle
            if lease is not None and self._crawl.admissions is not None:
                await self._crawl.admissions.judge(failure, lease)
            note(request, failure=failure)
            error = FAILURES.get(failure.reason, DownloadFailedError)
            raise error(f"{request.url}: {failure}") from None
        except UnsendableError as problem:
            raise _not_sent(request, problem) from None
        if lease is not None and self._crawl.admissions is not None:
            self._crawl.admissions.answered(exchange, lease)
        note(request, exchange=exchange)
        if exchange.share is not None:
            _hold(exchange.share, page_fetch_of(request))
        meta["download_latency"] = exchange.connect_s + exchange.first_byte_s
        stopped = received.stopped if received else None
        if exchange.tls and self._tls_logging:
            logger.debug(
                "SSL connection to %s using protocol %s, cipher %s",
                split_url(request.url).host, exchange.tls.version, exchange.tls.cipher,
            )  # fmt: skip
        if own and not stopped:
            self._bodies.judge(request, exchange)
        return _response(exchange, stopped)

    async def close(self) -> None:
        await self._client.close()
        if self._proxied is not None:
            await self._proxied.close()

    async def _fetch(
        self,
        request: Request,
        lease: Lease | None,
        wants: Wants,
        received: _ReceivedSignals | None,
    ) -> Exchange:
        url, meta = request.url, request.meta
        dns_s = 0.0
        if lease is not None:
            address = lease.address
        else:
            started_at = time.monotonic()
            address = await self._address(url)
            dns_s = time.monotonic() - started_at
        values = self._values(request, lease)
        headers = self._request_headers(request, values)
        conditions = self._conditions(request, lease, headers) if lease and lease.visit else []
        fetch_request = FetchRequest(
            request.method,
            url,
            address,
            headers + conditions,
            request.body,
            received.on_head if received else wants,
            on_content=received.on_content if received else None,
            limits=self._limits(meta, values),
            local_address=bind_address(meta.get("bindaddress")),
        )
        exchange = await self._client.fetch(fetch_request)
        exchange.dns_s = dns_s
        exchange.is_conditional = bool(conditions)
        if exchange.status == NOT_MODIFIED and not is_users(lease):
            self._count_not_modified(exchange)
        if exchange.status == _UNAUTHORIZED and values.auth is not None:
            self._warn_of_login(url, values)
        return exchange

    def _conditions(self, request: Request, lease: Lease, headers: WireHeaders) -> WireHeaders:
        """The validators of the page's last visit, if its frontier wants a conditional request.

        None for a user's own Request, for a GET that has a condition already (of a middleware, of
        the settings), and for a page that the archive of this crawl lacks: a 304 would keep it out.
        """
        visit = lease.visit
        if visit is None or not visit.is_conditional or request.method != "GET":
            return []
        if is_users(lease) or request.url != lease.url or are_conditional(headers):
            return []
        if self._archives and not visit.capture.captured_at:
            return []
        validators = visit.capture.validators
        conditions = validators.conditions()
        if any(validators) and self._crawl.counters is not None:
            self._crawl.counters.conditional["asked" if conditions else "bad_validator"] += 1
        return conditions

    def _warn_of_login(self, url: str, values: Values) -> None:
        """One line for each site: a 401 is final, so a wrong rule costs all pages of the site."""
        site = f"{url.partition(':')[0]}://{split_url(url).host}"
        if site not in self._refused_logins and len(self._refused_logins) < _LOGINS_NAMED:
            self._refused_logins.add(site)
            logger.warning("RULES: %s answers 401: %s", site, login_problem(values, url))

    def _count_not_modified(self, exchange: Exchange) -> None:
        if self._crawl.counters is None:
            return
        counts = self._crawl.counters.conditional
        counts["not_modified" if exchange.is_conditional else "unasked"] += 1
        if exchange.has_surplus:
            counts["with_body"] += 1

    async def _address(self, url: str) -> str:
        """The address for a Request without a lease, by the crawl's own DNS and address guard.

        With another scheduler than ours: by the system's DNS.
        """
        try:
            host = split_url(url).host
        except ValueError as error:
            raise UnsupportedURLSchemeError(str(error)) from None
        if self._crawl.admissions is not None:
            return await self._crawl.admissions.address(host)
        return await system_address(host) if self._client.proxy is None else ""

    def _values(self, request: Request, lease: Lease | None) -> Values:
        """What the rules (RULES) set for the host that is asked."""
        rules = self._crawl.rules
        if rules is None:
            return NO_VALUES
        if lease is not None and lease.url == request.url:
            return rules.of(lease.host)
        url = canonicalize(request.url)  # a middleware may have made a request for another host
        return rules.of(host_of(url)) if url else NO_VALUES

    def _request_headers(self, request: Request, values: Values) -> WireHeaders:
        """The Request's own headers, then those of the rules and the crawl that it lacks."""
        own, headers = request.headers, self._headers
        if values is not NO_VALUES:
            headers = ruled_headers(headers, values, request.url)
        if not own:
            return headers
        its = [pair for pair in pairs(own) if pair[0] != b"Proxy-Authorization"]
        return its + [pair for pair in headers if pair[0] not in own]

    def _limits(self, meta: dict[str, Any], values: Values) -> Limits:
        limits = self._client.limits
        if values is not NO_VALUES:
            limits = ruled_limits(limits, values, of_page=True)
        if "download_timeout" in meta:
            limits = replace(limits, timeout_s=float(meta["download_timeout"]))
        if "download_maxsize" in meta:
            limits = replace(limits, max_size_bytes=int(meta["download_maxsize"]) or sys.maxsize)
        return limits

    async def _through_proxy(self, request: Request, values: Values) -> Response:
        """Download by Scrapy's own handler. No Exchange is noted.

        Accept-Encoding is left out, as that handler removes no content coding. Headers of the rules
        are removed from the Request afterwards: a redirect made of it may lead to another host.
        """
        if self._proxied is None:
            path, settings = _PROXY_HANDLER, self.crawler.settings
            if not settings.getbool("TWISTED_REACTOR_ENABLED"):  # Scrapy has set another one
                path = settings["DOWNLOAD_HANDLERS_BASE"]["http"]
            self._proxied = build_from_crawler(load_object(path), self.crawler)
        headers = ruled_headers(self._headers, values, request.url)
        ruled = [pair[0] for pair in headers if pair not in self._headers]
        ruled = [name for name in ruled if name not in request.headers]
        for name, value in headers:
            if name != b"Accept-Encoding":
                request.headers.setdefault(name, value)
        timeout_s = ruled_limits(self._client.limits, values, of_page=True).timeout_s
        request.meta.setdefault("download_timeout", timeout_s)
        try:
            return await self._proxied.download_request(request)
        finally:
            for name in ruled:
                request.headers.pop(name, None)


class _ReceivedSignals:
    """Sends headers_received and bytes_received. A receiver may stop the download."""

    def __init__(self, crawler: Crawler, request: Request, wants: Wants) -> None:
        self._crawler = crawler
        self._request = request
        self._wants = wants
        self.stopped: StopDownload | None = None

    @classmethod
    def of(cls, crawler: Crawler, request: Request, wants: Wants) -> Self | None:
        """None if these signals have no receiver, as in most crawls."""
        sent = crawler.signals
        if receivers_of(sent, signals.headers_received) or receivers_of(
            sent, signals.bytes_received
        ):
            return cls(crawler, request, wants)
        return None

    def on_head(self, status: int, headers: WireHeaders) -> bool:
        return self._send(
            signals.headers_received,
            headers=_scrapy_headers(headers),
            body_length=content_length(headers),
        ) and self._wants(status, headers)

    def on_content(self, data: bytes) -> bool:
        return self._send(signals.bytes_received, data=data)

    def _send(self, signal: object, **what: Any) -> bool:
        results = self._crawler.signals.send_catch_log(
            signal, request=self._request, spider=self._crawler.spider, **what
        )
        for receiver, result in results:
            if isinstance(result, Failure) and isinstance(result.value, StopDownload):
                self.stopped = result.value
                logger.debug(
                    "Download stopped for %s from signal handler %s",
                    self._request, receiver.__qualname__,
                )  # fmt: skip
        return self.stopped is None


def _hold(share: Share, page_fetch: PageFetch | None) -> None:
    """Hold the room of a large answer until its page ends. An answer without a page holds none."""
    if page_fetch is None:
        share.release()
        return
    if page_fetch.share is not None:  # of an answer that a middleware has asked for again
        page_fetch.share.release()
    page_fetch.share = share


def _not_sent(request: Request, problem: UnsendableError) -> NotSent:
    """The exception for a Request that cannot be written as HTTP. Logs one line."""
    logger.warning("Not sent: %s: %s", request, problem)
    return NotSent(f"{request}: {problem}")


def _make_sendable(request: Request) -> None:
    """Check and clean a Request that another handler writes, as `Client.fetch` does for ours.

    Raises UnsendableError.
    """
    try:
        target = split_url(request.url)
    except ValueError as error:
        raise UnsendableError(str(error)) from None
    check_target(request.method, target.path, target.netloc)
    if not is_visible(str(request.meta["proxy"])):
        raise UnsendableError('meta["proxy"] has a space, a control or a raw character')
    for name, values in list(request.headers.items()):
        for value in values:
            header_line(name, value)
        dict.__setitem__(request.headers, name, [one_line(value) for value in values])


def refusal(lease: Lease) -> Exception:
    """The exception for a user's Request that the frontier refused."""
    silent = lease.refused in ("host_retired", "robots_unreachable")  # no answer from the host
    error: type[Exception] = DownloadFailedError if silent else IgnoreRequest
    error = FAILURES.get(lease.refused, error)
    return error(f"{lease.url}: {lease.refused}")


def _response(exchange: Exchange, stopped: StopDownload | None) -> Response:
    """The Response of an exchange. Raises `stopped` if a receiver asked for a failure."""
    headers = _scrapy_headers(exchange.headers)
    body = exchange.payload
    if exchange.body and dict.__contains__(headers, b"Content-Encoding"):
        # Codings that could not be removed stay in the header; a wrong label is removed.
        headers[b"Content-Encoding"] = exchange.codings_left
        if not exchange.codings_left:
            del headers[b"Content-Encoding"]
    response = _class_of(headers, exchange.url, body)(
        url=exchange.url,
        status=exchange.status,
        body=body,
        flags=_flags(exchange, stopped),
        certificate=exchange.tls.certificate if exchange.tls else None,
        ip_address=ip_of(exchange.ip) if exchange.ip else None,
        protocol=f"HTTP/{exchange.http_version}",
    )
    response.headers = headers  # the constructor would copy them, slowly
    if stopped is not None and stopped.fail:
        stopped.response = response
        raise stopped
    return response


def _class_of(headers: Headers, url: str, body: bytes) -> type[Response]:
    """The class that Scrapy would choose; in a tenth of the time for plain HTML."""
    content_types = dict.get(headers, b"Content-Type", (b"",))  # `Headers.get` normalises names
    if _is_html(content_types[-1]) and not dict.__contains__(headers, b"Content-Encoding"):
        return HtmlResponse
    return responsetypes.from_args(headers=headers, url=url, body=body)


def _flags(exchange: Exchange, stopped: StopDownload | None) -> list[str]:
    if stopped is not None:
        return ["download_stopped"]
    if exchange.body_skipped:
        return ["content_type_dropped"]
    if exchange.truncated:
        return ["dataloss" if exchange.truncated == "disconnect" else "truncated"]
    return []


def _scrapy_headers(wire_headers: WireHeaders) -> Headers:
    """`Headers(wire_headers)`, in a third of the time."""
    values: dict[bytes, list[bytes]] = {}
    for name, value in wire_headers:
        key = name.title()
        if key in values:
            values[key].append(value)
        else:
            values[key] = [value]
    headers = Headers()
    dict.update(headers, values)
    return headers
