"""An Exchange for an answer that came by Scrapy's own handler, as through a proxy.

The bytes of the wire are not known there. What can be said truly is put in their place: the headers
as Scrapy has them, and a body without transfer coding, with its length.
"""

from __future__ import annotations

import time
from http import HTTPStatus
from urllib.parse import urlsplit

from scrapy import Request
from scrapy.http import Headers, Response

from webcrawl.fetch.exchange import Exchange

_FRAMING = (b"transfer-encoding", b"content-length", b"trailer")


class Reconstructed(Exchange):
    """An Exchange whose bytes are not those of the wire. Without an address: it is the proxy's."""

    __slots__ = ()


def reconstruct(request: Request, response: Response) -> Reconstructed:
    """The exchange that `request` and `response` tell of, dated now."""
    now = time.monotonic()
    latency_s = request.meta.get("download_latency", 0.0)
    version = "1.0" if response.protocol == "HTTP/1.0" else "1.1"
    headers = [pair for pair in _pairs(response.headers) if pair[0].lower() not in _FRAMING]
    headers.append((b"Content-Length", b"%d" % len(response.body)))
    status_line = f"HTTP/{version} {response.status} {_reason(response.status)}".rstrip()
    return Reconstructed(
        method=request.method,
        url=request.url,
        request=_request_bytes(request),
        head=_lines(status_line, headers),
        status=response.status,
        http_version=version,
        headers=headers,
        ip="",
        body=response.body,
        payload=response.body,
        truncated="disconnect" if "dataloss" in response.flags else "",
        started_time=time.time() - latency_s,
        asked_at=now,
        ended_at=now,
        total_s=latency_s,
    )


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
    return [(name, value) for name, values in headers.items() for value in values]


def _reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
