"""One connection to one NATS server. It never reconnects: `natsbus.py` opens another one.

Everything happens in the turn of the event loop in which bytes come or a method is called: there
are no tasks. Bounds: OUT_BYTES wait for a slow server, then what is published is dropped; requests
end after their time. Incoming messages do not wait, so they take no memory.
"""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections.abc import Callable
from secrets import token_hex
from typing import Any, Final, cast

from webcrawl.cluster.bus import natswire
from webcrawl.cluster.bus.base import MAX_BYTES, Address, BusError, Refused, Server, Unreachable
from webcrawl.cluster.bus.natslogin import connect_line
from webcrawl.cluster.bus.natswire import Message

logger = logging.getLogger(__name__)

OUT_BYTES: Final = 8 * 1024 * 1024
CLOSE_S: Final = 1.0
# Errors that retrying does not help. The server sends them and closes.
_REFUSALS: Final = ("authorization", "authentication", "permissions", "secure connection")

Handler = Callable[[Message], None]


class Connection(asyncio.Protocol):
    """Open it with `connect`. `lost` gets the reason of its end as a result."""

    def __init__(self, server: Server) -> None:
        loop = asyncio.get_running_loop()
        self.server = server
        self.info: dict[str, Any] = {}
        self.lost: asyncio.Future[BusError] = loop.create_future()
        self._closed: asyncio.Future[None] = loop.create_future()
        self.violation = ""  # the last refusal that did not end the connection
        self._transport: asyncio.Transport | None = None
        self._reader = natswire.Reader()
        self._greeting: asyncio.Future[bytes] = loop.create_future()
        self._pongs: list[asyncio.Future[None]] = []  # of our PINGs, in their order
        self._handlers: dict[int, Handler] = {}
        self._sids = 0
        self.inbox = f"_INBOX.{token_hex(11)}"
        self._requests: dict[str, asyncio.Future[Message]] = {}
        self._error = ""

    def __repr__(self) -> str:
        state = "lost" if self.lost.done() else "open"
        return f"<Connection {self.server} {state}, {len(self._requests)} requests>"

    # The life of the connection

    async def connect(self, address: Address, name: str, timeout_s: float) -> None:
        """Raises Unreachable, Refused. Then the connection is closed."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._greet(address, name)
        except TimeoutError:
            raise self._fail(Unreachable(f"{self.server} does not answer")) from None
        except ssl.SSLError as error:
            reason = getattr(error, "verify_message", "") or error.reason or "TLS failed"
            remedy = "" if address.ca else "; tls:// with ?ca=FILE names its authority"
            raise self._fail(Refused(f"{self.server}: TLS: {reason}{remedy}")) from None
        except ConnectionRefusedError:  # of two event loops, with two texts
            raise self._fail(Unreachable(f"{self.server}: Connection refused")) from None
        except OSError as error:
            reason = error.strerror or str(error) or "no connection"
            raise self._fail(Unreachable(f"{self.server}: {reason}")) from None
        except BusError as error:
            raise self._fail(error) from None
        except BaseException:
            self._fail(Unreachable("closed"))
            raise

    async def _greet(self, address: Address, name: str) -> None:
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self, self.server.host, self.server.port)
        try:
            self.info = json.loads(await self._or_lost(self._greeting))
            max_payload = int(self.info.get("max_payload", 0))
        except (ValueError, AttributeError, RecursionError):
            raise Refused(f"{self.server} is no NATS server") from None
        if address.is_tls or self.info.get("tls_required"):
            if not (self.info.get("tls_required") or self.info.get("tls_available")):
                # Before the password is sent, and not after.
                raise Refused(f"{self.server} has no TLS, and CLUSTER asks for it (tls://)")
            try:
                context = ssl.create_default_context(cafile=address.ca)
            except (ssl.SSLError, OSError):
                raise Refused(f"ca={address.ca}: cannot be read as certificates (PEM)") from None
            transport = cast("asyncio.Transport", self._transport)
            self._transport = await loop.start_tls(
                transport, self, context, server_hostname=self.server.host
            )
        if max_payload < MAX_BYTES:
            raise Refused(f"{self.server}: max_payload is {max_payload}: at least {MAX_BYTES}")
        self._write(connect_line(address, self.info, name))
        await self._or_lost(self.ping())
        self.subscribe(f"{self.inbox}.*", self._on_answer)

    async def _or_lost(self, future: asyncio.Future[Any]) -> Any:
        await asyncio.wait((future, self.lost), return_when=asyncio.FIRST_COMPLETED)
        if self.lost.done():
            raise self.lost.result()
        return future.result()

    async def close(self) -> None:
        """Send what is left, for CLOSE_S at most."""
        transport = self._transport
        if transport is not None and not transport.is_closing():
            transport.close()
            self._fail(Unreachable("the bus is closed"))
            await asyncio.wait((self._closed,), timeout=CLOSE_S)
            transport.abort()

    def abort(self, error: BusError) -> None:
        """A silent server: nothing is waited for."""
        self._fail(error)

    def _fail(self, error: BusError) -> BusError:
        if not self.lost.done():
            self.lost.set_result(error)
        if self._transport is not None and not self._transport.is_closing():
            self._transport.abort()
        self._handlers.clear()
        for request in self._requests.values():
            if not request.done():
                request.set_exception(error)
                request.exception()  # its caller may be gone
        self._greeting.cancel()
        for pong in self._pongs:
            pong.cancel()
        self._requests.clear()
        self._pongs.clear()
        return error

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if self.lost.done():
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        try:
            for event in self._reader.feed(data):
                if self.lost.done():
                    return
                self._on_event(event)
        except natswire.ProtocolError as error:
            self._fail(Refused(f"{self.server} is no NATS server: {error}"))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._closed.done():
            self._closed.set_result(None)
        if self._error:
            text = f"{self.server}: {self._error}"
            if self._error.lower().startswith("authorization"):
                text += ": check the user, password, token or credentials file in CLUSTER"
            is_final = self._error.lower().startswith(_REFUSALS)
            self._fail(Refused(text) if is_final else Unreachable(text))
            return
        said = getattr(exc, "strerror", None) or "closed the connection"
        self._fail(Unreachable(f"{self.server}: {said}"))

    def _on_event(self, event: natswire.Event) -> None:
        match event:
            case Message():
                handle = self._handlers.get(event.sid)
                if handle is not None:
                    try:
                        handle(event)
                    except Exception:
                        logger.exception("A handler of %s failed", event.subject)
            case natswire.Pinged():
                self._write(natswire.PONG)
            case natswire.Ponged() if self._pongs:
                future = self._pongs.pop(0)
                if not future.done():
                    future.set_result(None)
            case natswire.Info(text) if not self._greeting.done():
                self._greeting.set_result(text)
            case natswire.Failed(error):
                if error.lower().startswith("permissions violation"):
                    self.violation = error  # the connection stays
                else:
                    self._error = error
            case _:
                pass

    def _write(self, data: bytes) -> bool:
        transport = self._transport
        if transport is None or self.lost.done() or transport.is_closing():
            return False
        if data is not natswire.PING and transport.get_write_buffer_size() > OUT_BYTES:
            return False
        transport.write(data)
        return True

    # Messages

    def ping(self) -> asyncio.Future[None]:
        """Done with the server's PONG: by then it has read everything sent before."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pongs.append(future)
        self._write(natswire.PING)
        return future

    def publish(
        self, subject: str, data: bytes, reply: str = "", headers: dict[str, str] | None = None
    ) -> bool:
        """Whether it is on its way."""
        return self._write(natswire.publish(subject, data, reply, headers))

    def next_number(self) -> int:
        """Numbers of this connection's own subjects and requests."""
        self._sids += 1
        return self._sids

    def subscribe(self, subject: str, handle: Handler) -> int:
        self._sids += 1
        self._handlers[self._sids] = handle
        self._write(natswire.subscribe(subject, self._sids))
        return self._sids

    def unsubscribe(self, sid: int) -> None:
        if self._handlers.pop(sid, None) is not None:
            self._write(natswire.unsubscribe(sid))

    def forget(self, handle: Handler) -> None:
        """Unsubscribe a handler. O(subscriptions)."""
        for sid in [sid for sid, known in self._handlers.items() if known is handle]:
            self.unsubscribe(sid)

    async def request(
        self, subject: str, data: bytes, timeout_s: float, headers: dict[str, str] | None = None
    ) -> Message:
        """The first answer; status 503 if nobody listens. Raises Unreachable."""
        token = str(self.next_number())
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        if not self.publish(subject, data, f"{self.inbox}.{token}", headers):
            raise Unreachable(f"{self.server}: not connected")
        self._requests[token] = future
        try:
            async with asyncio.timeout(timeout_s):
                return await future
        except TimeoutError:
            raise Unreachable(f"no answer within {timeout_s:g} s") from None
        finally:
            self._requests.pop(token, None)

    def _on_answer(self, message: Message) -> None:
        future = self._requests.get(message.subject.rpartition(".")[2])
        if future is not None and not future.done():
            future.set_result(message)
