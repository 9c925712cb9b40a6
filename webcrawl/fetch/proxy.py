"""The proxy of a whole crawl (PROXY): what is sent to it, and what its answers mean.

An http URL is asked by its absolute form (RFC 9112, 3.2.2), an https URL through a tunnel (CONNECT:
RFC 9110, 9.3.6). With a proxy, `transfer` opens no connection to any other address, and no name of
a host is looked up: the proxy does.

The user name and the password of the proxy are in no text: not in a `repr`, an error or a record.
Owns the grammar and the tunnel's protocol; `transfer` opens the connections.
"""

from __future__ import annotations

import asyncio
import re
import socket
import time
from base64 import b64encode
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from webcrawl.fetch.exchange import FailureReason, FetchFailed
from webcrawl.fetch.http1 import Headers

# A name that no DNS has (RFC 6761, 6.4): a request to connect there shows whether the proxy takes
# ours, and reaches no server.
NOWHERE: Final = "webcrawl.invalid:443"
CHECK_TIMEOUT_S: Final = 10.0
_HEAD_MAX: Final = 32 << 10
_URL: Final = re.compile(
    r"http://(?:([^:@/?#\s]*)(?::([^@/?#\s]*))?@)?(\[[0-9A-Fa-f:.]+\]|[\w.-]+)(?::(\d{1,5}))?/?",
    re.ASCII,
)
_STATUS: Final = re.compile(rb"HTTP/1\.[01] +(\d{3})(?:[ \r]|\Z)")
# RFC 9209, 2.3: the errors that say something about the host's name or its time.
_DNS_ERRORS: Final = (b"dns_timeout", b"dns_error", b"err_dns_fail")
_TIME_ERRORS: Final = (b"_timeout", b"err_read_timeout", b"err_lifetime")


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy. Its text is `host:port`."""

    host: str
    port: int
    authorization: bytes = field(default=b"", repr=False)  # of Proxy-Authorization

    @classmethod
    def parse(cls, text: str) -> Proxy:
        """The proxy of `http://[USER:PASSWORD@]HOST[:PORT]`. ValueError, without the text."""
        match = _URL.fullmatch(text.strip())
        port = int(match[4] or 80) if match else 0
        if match is None or not 0 < port < 65536:
            raise ValueError("no URL of a proxy")
        user, password, host = match[1], match[2], match[3]
        authorization = b""
        if user is not None:
            pair = f"{unquote(user)}:{unquote(password or '')}".encode()
            authorization = b"Basic " + b64encode(pair)
        return cls(host.strip("[]"), port, authorization)

    def __str__(self) -> str:
        return tunnel_place(self.host, self.port)

    def tunnel_request(self, where: str) -> bytes:
        """The request for a tunnel to `where`, a host and its port."""
        lines = [f"CONNECT {where} HTTP/1.1".encode(), f"Host: {where}".encode()]
        return b"\r\n".join(lines) + b"\r\n" + self._authorization_line() + b"\r\n"

    def with_authorization(self, wire: bytes) -> bytes:
        """The bytes of a request as they are sent to the proxy."""
        first, end, rest = wire.partition(b"\r\n")
        return first + end + self._authorization_line() + rest

    def _authorization_line(self) -> bytes:
        if not self.authorization:
            return b""
        return b"Proxy-Authorization: " + self.authorization + b"\r\n"


def tunnel_place(host: str, port: int) -> str:
    """A host (without brackets) and a port, as a request for a tunnel names them."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def failure_of(status: int, headers: Headers, *, tunnel: bool) -> FetchFailed | None:
    """The failure that an answer through the proxy means; None for an answer of the host.

    To a request for a tunnel only the proxy answers. Any other answer is the proxy's own by its
    status (407, 502, 504), or if it says so: Proxy-Status (RFC 9209) with an error, X-Squid-Error,
    or the Server of tinyproxy. Then no page is taken from it, and no robots.txt: a 403 of the proxy
    must not count as a host without rules.
    """
    if tunnel and 200 <= status < 300:
        return None
    said = b""
    for name, value in headers:
        name, value = name.lower(), value.lower()
        is_ours = (
            (name == b"proxy-status" and b"error=" in value)
            or name == b"x-squid-error"
            or (name == b"server" and value.startswith(b"tinyproxy"))
        )
        if is_ours and status >= 400:
            said += value
    if status == 407:
        detail = "the proxy refuses the user name or password (407)"
        return FetchFailed("proxy", detail)
    if not (tunnel or said or status in (502, 504)):
        return None
    reason: FailureReason = "connect"
    if any(error in said for error in _DNS_ERRORS):
        reason = "dns"
    elif status == 504 or any(error in said for error in _TIME_ERRORS):
        reason = "connect_timeout" if tunnel else "timeout"
    return FetchFailed(reason, f"the proxy answered {status}")


class Tunnel(asyncio.Protocol):
    """Asks the proxy for a tunnel. `opened` ends when it is open, or with FetchFailed."""

    def __init__(self, request: bytes) -> None:
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.opened.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._request = request
        self._head = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]  # two-way
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if self.opened.done():
            return
        self._head += data
        head, end, rest = self._head.partition(b"\r\n\r\n")
        if not end:
            if len(self._head) > _HEAD_MAX:
                self._fail(FetchFailed("proxy", "the proxy's answer has too large a header"))
            return
        try:
            failure = tunnel_failure(head)
            if failure is None and rest:
                failure = FetchFailed("proxy", "the proxy sent data before the tunnel was used")
        except ValueError:
            failure = FetchFailed("proxy", "the proxy's answer is not HTTP")
        if failure is not None:
            self._fail(failure)
        else:
            self._transport.pause_reading()  # what comes now belongs to TLS
            self.opened.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(FetchFailed("proxy", "the proxy closed the connection without an answer"))

    def _fail(self, failure: FetchFailed) -> None:
        if not self.opened.done():
            self.opened.set_exception(failure)
        self._transport.abort()


def tunnel_failure(head: bytes) -> FetchFailed | None:
    """The failure that the head of an answer to CONNECT means; None: open. ValueError: no HTTP."""
    first, *lines = head.split(b"\r\n")
    match = _STATUS.match(first)
    if match is None:
        raise ValueError("not HTTP")
    headers = []
    for line in lines:
        name, _, value = line.partition(b":")
        headers.append((name.strip(), value.strip()))
    return failure_of(int(match[1]), headers, tunnel=True)


def problem_of(proxy: Proxy, timeout_s: float = CHECK_TIMEOUT_S) -> str:
    """Why `proxy` cannot be used now, "" if it can. Blocks for twice `timeout_s` at most.

    Asks for a tunnel to NOWHERE, so no server is asked. Any answer but 407 shows that it works.
    """
    head = b""
    try:
        with socket.create_connection((proxy.host, proxy.port), timeout_s) as connection:
            connection.sendall(proxy.tunnel_request(NOWHERE))
            deadline = time.monotonic() + timeout_s
            while b"\r\n\r\n" not in head and len(head) <= _HEAD_MAX:
                connection.settimeout(max(deadline - time.monotonic(), 0.001))
                data = connection.recv(4096)
                if not data:
                    break
                head += data
    except TimeoutError:
        return f"no answer after {timeout_s:g} s"
    except OSError as error:
        return error.strerror or str(error)
    match = _STATUS.match(head)
    if match is None:
        return "it does not answer as an HTTP proxy"
    return "it refuses the user name or password (407)" if match[1] == b"407" else ""


async def open_tunnel(proxy: Proxy, where: str, timeout_s: float) -> bool:
    """Whether `proxy` opens a tunnel to `where` in time. It is closed at once."""
    loop = asyncio.get_running_loop()
    transport: asyncio.Transport | None = None
    try:
        async with asyncio.timeout(timeout_s):
            request = proxy.tunnel_request(where)
            transport, tunnel = await loop.create_connection(
                lambda: Tunnel(request), proxy.host, proxy.port
            )
            await tunnel.opened
    except (OSError, FetchFailed):  # TimeoutError is an OSError
        return False
    finally:
        if transport is not None:
            transport.abort()
    return True
