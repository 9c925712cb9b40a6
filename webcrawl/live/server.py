"""The control server: HTTP on a Unix socket, guarded by the mode of its file, and on TCP.

    GET  /           the page (TCP)             GET  /snapshot   JSON
    GET  /events     server-sent events         GET  /metrics    Prometheus' text format
    GET  /explain    ?url=..., JSON             POST /command    JSON

Errors are JSON too: {"error": one line}. Limits: CONNECTIONS_MAX per socket, BODY_MAX bytes of a
body, Twisted's 16 KB of headers, IDLE_S seconds for a request.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib.resources import files
from typing import Any, Final, NamedTuple

import msgspec
from twisted.protocols.policies import WrappingFactory
from twisted.web.http import HTTPChannel
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request, Site

from webcrawl.live.access import Access
from webcrawl.live.events import Events
from webcrawl.live.livecrawl import LiveCrawl, RefusalError
from webcrawl.live.metrics import EXPOSITION_TYPE

logger = logging.getLogger(__name__)

CONNECTIONS_MAX: Final = 64
BODY_MAX: Final = 1 << 20
IDLE_S: Final = 60
CLOSE_S: Final = 1.0  # for connections to take their last bytes

_JSON: Final = "application/json"
_PAGE: Final = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/live.css": ("live.css", "text/css; charset=utf-8"),
    "/live.js": ("live.js", "text/javascript; charset=utf-8"),
}
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
        " img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Server": "webcrawl",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class _Answer(NamedTuple):
    media_type: str
    body: bytes


class Server:
    """What listens: `factory` is for Twisted's ports. `access` is None on the Unix socket."""

    def __init__(self, crawl: LiveCrawl, events: Events, access: Access | None = None) -> None:
        self.factory = _Connections(_ControlSite(_Control(crawl, events, access), timeout=IDLE_S))

    async def close(self) -> None:
        """Close all connections. Those that do not take their last bytes are cut."""
        connections: list[Any] = [*self.factory.protocols]
        for connection in connections:
            connection.loseConnection()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await self.factory.closed()
        for connection in [*self.factory.protocols]:
            connection.abortConnection()


class _Connections(WrappingFactory):
    """Closes a connection at once if there are CONNECTIONS_MAX."""

    noisy = False

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._is_closed = asyncio.Event()

    def buildProtocol(self, addr: Any) -> Any:  # noqa: N802  (Twisted's name)
        return super().buildProtocol(addr) if len(self.protocols) < CONNECTIONS_MAX else None

    def unregisterProtocol(self, p: Any) -> None:  # noqa: N802  (Twisted's name)
        super().unregisterProtocol(p)
        if not self.protocols:
            self._is_closed.set()

    async def closed(self) -> None:
        """Wait until there is no connection."""
        while self.protocols:
            self._is_closed.clear()
            await self._is_closed.wait()


class _LimitedRequest(Request):
    is_too_large = False

    def gotLength(self, length: int | None) -> None:  # noqa: N802  (Twisted's name)
        """Called between the head and the body."""
        super().gotLength(length)
        if length is None or length > BODY_MAX:  # None: chunked
            self.is_too_large = True
            channel: Any = self.channel
            channel.transport.write(
                b"HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
            )
            channel.loseConnection()

    def process(self) -> None:
        """Called behind the body, which may have come in one piece with the head."""
        if not self.is_too_large:
            super().process()


class _Channel(HTTPChannel):
    def dataReceived(self, data: bytes) -> None:  # noqa: N802  (Twisted's name)
        """Abort a connection that its client has reset behind `data`.

        uvloop stops polling a socket after an error, and Twisted would not be told of its end: the
        connection would count until the crawl ends.
        """
        transport: Any = self.transport
        if transport.getHandle().getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            transport.abortConnection()
            return
        try:
            super().dataReceived(data)
        except ValueError:  # `int` refuses a Content-Length of thousands of digits
            transport.abortConnection()

    def resetTimeout(self) -> None:  # noqa: N802  (Twisted's name)
        """Called for each piece of a request: a byte a minute does not prolong its IDLE_S."""


class _ControlSite(Site):
    protocol = _Channel  # type: ignore[assignment]  # HTTP/1 only, without Twisted's choice
    noisy = False
    displayTracebacks = False  # noqa: N815  (Twisted's name)

    def __init__(self, resource: Resource, timeout: int) -> None:
        super().__init__(resource, _LimitedRequest, timeout=timeout, parsePOSTFormSubmission=False)

    def log(self, request: Any) -> None:
        """No access log: the first URL of the page has the token."""


class _Control(Resource):
    """Answers every path."""

    isLeaf = True  # noqa: N815  (Twisted's name)

    def __init__(self, crawl: LiveCrawl, events: Events, access: Access | None) -> None:
        super().__init__()
        self._crawl = crawl
        self._events = events
        self._access = access
        self._tasks: set[asyncio.Future[None]] = set()
        self._routes: dict[str, tuple[str, Callable[[Request], Awaitable[_Answer | None]]]] = {
            "/snapshot": ("GET", self._snapshot),
            "/events": ("GET", self._stream),
            "/metrics": ("GET", self._metrics),
            "/explain": ("GET", self._explain),
            "/command": ("POST", self._command),
        }
        if access is not None:
            self._routes |= dict.fromkeys(_PAGE, ("GET", self._page))

    def render(self, request: Request) -> int:
        task = asyncio.ensure_future(self._respond(request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return int(NOT_DONE_YET)

    async def _respond(self, request: Request) -> None:
        gone = request.notifyFinish()
        gone.addErrback(lambda _: None)  # a client may leave at any time
        for name, value in _HEADERS.items():
            request.setHeader(name, value)
        try:
            answer = await self._answer(request)
        except RefusalError as error:
            request.setResponseCode(error.status)
            answer = self._error(request, str(error))
        except Exception:
            logger.exception("The control server could not answer %r", request.path)
            request.setResponseCode(500)
            answer = self._error(request, "an error of the crawler: see the log of the crawl")
        if answer is not None and request.channel is not None:  # None: the client has left
            request.setHeader("Content-Type", answer.media_type)
            request.setHeader("Content-Length", str(len(answer.body)))
            request.write(answer.body)
            request.finish()

    def _error(self, request: Request, line: str) -> _Answer:
        if request.path == b"/":  # shown by a browser
            return _Answer("text/plain; charset=utf-8", f"webcrawl: {line}\n".encode())
        return _json({"error": line})

    async def _answer(self, request: Request) -> _Answer | None:
        method, path = request.method.decode("latin-1"), request.path.decode("latin-1")
        if self._access is not None:
            # The page shows nothing without events, and a reload cannot send the token.
            needs_token = path not in _PAGE
            refusal = self._access.refuses(method, _reader(request), needs_token=needs_token)
            if refusal:
                raise RefusalError(403, refusal)
        allowed, handle = self._routes.get(path, ("", None))
        if handle is None:
            raise RefusalError(404, "there is no such path")
        if method != allowed:
            request.setHeader("Allow", allowed)
            raise RefusalError(405, f"{path} takes {allowed}")
        return await handle(request)

    async def _page(self, request: Request) -> _Answer:
        name, media_type = _PAGE[request.path.decode()]
        return _Answer(media_type, (files("webcrawl.live") / "page" / name).read_bytes())

    async def _snapshot(self, request: Request) -> _Answer:
        return _Answer(_JSON, await self._crawl.snapshot())

    async def _metrics(self, request: Request) -> _Answer:
        return _Answer(EXPOSITION_TYPE, await self._crawl.metrics())

    async def _stream(self, request: Request) -> None:
        request.setHeader("Content-Type", "text/event-stream")
        self._events.add(request)

    async def _explain(self, request: Request) -> _Answer:
        url = request.args.get(b"url", [b""])[0].decode("utf-8", "replace")
        return _json({"lines": await self._crawl.explain(url)})

    async def _command(self, request: Request) -> _Answer:
        order = self._body(request)
        by = "live page" if self._access is not None else "scrapy ctl"
        return _json({"message": await self._crawl.do(order, by)})

    def _body(self, request: Request) -> object:
        media_type = (request.getHeader("Content-Type") or "").partition(";")[0].strip().lower()
        if media_type != _JSON:  # a form of another site can send text only
            raise RefusalError(415, f"the body is not {_JSON}")
        try:
            return msgspec.json.decode(request.content.read() if request.content else b"")
        except (msgspec.DecodeError, ValueError, RecursionError):
            raise RefusalError(400, "the body is not JSON") from None


def _json(value: object) -> _Answer:
    return _Answer(_JSON, msgspec.json.encode(value))


def _reader(request: Request) -> Callable[[str], list[str]]:
    """All values of a header of `request`."""

    def values(name: str) -> list[str]:
        found = request.requestHeaders.getRawHeaders(name.encode(), [])
        return [value.decode("latin-1") for value in found]

    return values
