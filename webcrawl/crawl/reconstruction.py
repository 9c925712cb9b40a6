"""Makes an Exchange for each answer that this project's download handler did not fetch.

Such an answer comes from another handler, a proxy, Scrapy's HTTP cache or a middleware. Its bytes
on the wire are unknown. The exchange is built from the headers as Scrapy has them, and the body
without transfer coding, with its length. It is marked `reconstructed`.
"""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime
from http.client import responses
from urllib.parse import urlsplit

from scrapy import Request
from scrapy.http import Headers, Response

from webcrawl.crawl.page_fetch import note, state_of
from webcrawl.fetch.exchange import Exchange

_FRAMING = (b"transfer-encoding", b"content-length", b"trailer")
_DATE_MAX = 64  # characters; an RFC 9110 date has 29


def exchange_of(response: Response) -> Exchange:
    """The exchange of `response`, noted by our download handler or made now.

    A noted exchange does not belong to `response` if `response` came from the cache (the exchange
    is then the cache's conditional request), or has another status (a middleware got `response` in
    another way). If a middleware changed only the body, the exchange is kept and marked
    `body_replaced`.
    """
    request = response.request
    assert request is not None
    exchange = state_of(request).exchange
    if (
        exchange is None
        or response.status != exchange.status
        or ("cached" in response.flags and not exchange.reconstructed)
    ):
        exchange = reconstruct(request, response)
        note(request, exchange=exchange)
    elif response.body is not exchange.payload:  # an unchanged body is the same object
        exchange.body_replaced = response.body != exchange.payload
    return exchange


def reconstruct(request: Request, response: Response) -> Exchange:
    """The exchange of `request` and `response`.

    Its end is now, and the politeness clocks count from now. For an answer from the cache its start
    is the server's Date (RFC 9110, 6.6.1). Through a proxy the IP address is empty, since Scrapy
    knows only the proxy's.
    """
    now, now_time = time.monotonic(), time.time()
    cached = "cached" in response.flags
    latency_s = 0.0 if cached else request.meta.get("download_latency", 0.0)
    started_time = now_time - latency_s
    stopped = "unspecified" if "download_stopped" in response.flags else ""
    version = "1.0" if response.protocol == "HTTP/1.0" else "1.1"
    headers = [pair for pair in _pairs(response.headers) if pair[0].lower() not in _FRAMING]
    headers.append((b"Content-Length", b"%d" % len(response.body)))
    status_line = f"HTTP/{version} {response.status} {responses.get(response.status, '')}".rstrip()
    return Exchange(
        method=request.method,
        url=request.url,
        request=_request_bytes(request),
        head=_lines(status_line, headers),
        status=response.status,
        http_version=version,
        headers=[(name.lower(), value) for name, value in headers],
        ip="" if request.meta.get("proxy") else str(response.ip_address or ""),
        body=response.body,
        payload=response.body,
        truncated="disconnect" if "dataloss" in response.flags else stopped,
        started_time=_made_at(response, now_time) if cached else started_time,
        asked_at=now,
        ended_at=now,
        total_s=latency_s,
        reconstructed=True,
        cached=cached,
    )


def _made_at(response: Response, now_time: float) -> float:
    """The Date of an answer, UTC seconds; `now_time` if it has no date in the past."""
    value = (response.headers.get("Date") or b"").decode("latin-1")
    try:
        made_at = parsedate_to_datetime(value[:_DATE_MAX]).timestamp()
    except (ValueError, OverflowError, OSError):
        return now_time
    return made_at if 0 <= made_at <= now_time else now_time


def _request_bytes(request: Request) -> bytes:
    url = urlsplit(request.url)
    target = (url.path or "/") + (f"?{url.query}" if url.query else "")
    headers = [pair for pair in _pairs(request.headers) if pair[0] != b"Proxy-Authorization"]
    if b"Host" not in request.headers:
        headers.insert(0, (b"Host", url.netloc.rpartition("@")[2].encode()))
    if request.body and b"Content-Length" not in request.headers:
        headers.append((b"Content-Length", b"%d" % len(request.body)))
    return _lines(f"{request.method} {target} HTTP/1.1", headers) + request.body


def _lines(first: str, headers: list[tuple[bytes, bytes]]) -> bytes:
    lines = [first.encode(), *(b"%b: %b" % pair for pair in headers)]
    return b"\r\n".join([*lines, b"", b""])


def _pairs(headers: Headers) -> list[tuple[bytes, bytes]]:
    """Headers as pairs. Several lines in one value are several headers, as browsers join them."""
    return [
        (name, line)
        for name, values in headers.items()
        for value in values
        for line in value.splitlines() or (b"",)
    ]
