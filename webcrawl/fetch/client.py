"""The HTTP client: one request, one answer, one `Exchange`, on plain asyncio.

Owns which transfers are under way, and which connections are idle. Looks up no name but the
proxy's, follows no redirect, keeps no cookie. Signs each request anew, if it has a
`signing.Signer`. Keeps connections alive (`connections`) if `Limits.keep_alive_s` says so.

Invariant: whatever a peer sends, `fetch` returns an Exchange or raises FetchFailed, within the
bounds of time and memory of `transfer`.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Container

from webcrawl.base.openfiles import IDLE
from webcrawl.fetch.connections import Connections, Server
from webcrawl.fetch.decode import codings_of, decode, decode_quickly
from webcrawl.fetch.exchange import Exchange, FetchFailed
from webcrawl.fetch.gate import Gate, Matches
from webcrawl.fetch.proxy import Proxy
from webcrawl.fetch.request import FetchRequest, Limits
from webcrawl.fetch.requesthead import build_request, split_url
from webcrawl.fetch.room import Room
from webcrawl.fetch.signing import Signer
from webcrawl.fetch.tls import CertificateJudge, client_context
from webcrawl.fetch.transfer import Held, State, Transfer

_REPEATABLE = frozenset({"GET", "HEAD"})  # may be sent again if a reused connection fails


class Client:
    """Runs any number of fetches at a time. `repr` counts its active and idle connections."""

    def __init__(
        self,
        limits: Limits,
        context: ssl.SSLContext | None = None,
        judge: CertificateJudge | None = None,
        local_address: tuple[str, int] | None = None,
        idle_max: tuple[int, int] = IDLE,
        gate: Gate | None = None,
        proxy: Proxy | None = None,
        signer: Signer | None = None,
        refused_ports: Container[int] = (),
        room: Room | None = None,
    ) -> None:
        """With `proxy` every connection is to it, whatever the request's address is.

        Nothing is sent to `refused_ports`: scope tests links, but a robots.txt may redirect there.
        `room`: large answers wait for it, and the caller releases `Exchange.share`.
        """
        self.limits = limits
        self.proxy = proxy
        self._signer = signer
        self._refused_ports = refused_ports
        self._context = context or client_context()
        self._judge = judge or CertificateJudge()
        self._local_address = local_address
        self._under_way: set[Transfer] = set()
        self._idle = Connections(idle_max)
        self._gate = gate or Gate()
        self._room = room
        self._gate.senders.append(self)

    def __repr__(self) -> str:
        return f"<Client {self.active} active, {len(self._idle)} idle>"

    @property
    def active(self) -> int:
        return len(self._under_way)

    async def fetch(self, request: FetchRequest) -> Exchange:
        """The answer to `request`. Raises FetchFailed; ValueError if its URL is not http or https;
        UnsendableError if it would not be valid HTTP; and any exception of its callbacks.
        """
        while True:
            if self._gate.holds_some:
                await self._gate.wait(request.url)
            transfer, kept = self._transfer(request)
            self._under_way.add(transfer)
            try:
                await transfer.run(self._context if transfer.server.secure else None, kept)
            except BaseException as error:
                transfer.release_room()
                if isinstance(error, Held):
                    continue
                is_theirs = isinstance(error, FetchFailed) and error.reason != "cancelled"
                if is_theirs and kept is not None and not transfer.first_byte_at:
                    self._idle.mark_unreliable(transfer.server)
                raise
            finally:
                self._under_way.discard(transfer)
            if kept is not None and transfer.reader.status == 408:
                # It may be about the idle connection, sent before this request (RFC 9110, 15.5.9).
                self._idle.mark_unreliable(transfer.server)
            return await self._exchange(transfer)

    def _transfer(self, request: FetchRequest) -> tuple[Transfer, asyncio.Transport | None]:
        """A transfer for `request`, and the idle connection that it uses, if there is one."""
        limits = request.limits or self.limits
        target = split_url(request.url)
        if target.port in self._refused_ports:
            raise FetchFailed("blocked_port", str(target.port), ended_at=time.monotonic())
        local_address = request.local_address or self._local_address
        server = Server(target.secure, target.host, target.port, request.address, local_address)
        keep = (
            limits.keep_alive_s > 0
            and request.method in _REPEATABLE
            and self._idle.is_reliable(server)
        )
        headers, proxy = request.headers, self.proxy
        if self._signer is not None:
            headers = self._signer.signed(headers, request.method, target, time.time())
        absolute = proxy is not None and not target.secure
        wire = build_request(
            request.method, target, headers, request.body, keep=keep, absolute=absolute
        )
        kept = self._idle.pop(server) if keep else None
        idle = self._idle if keep else None
        transfer = Transfer(request, wire, limits, server, idle, self._gate, proxy, self._room)
        return transfer, kept

    def abort(self, urls: Container[str] | None = None) -> None:
        """End all fetches, or those of `urls`, with FetchFailed("cancelled")."""
        for transfer in tuple(self._under_way):
            if urls is None or transfer.request.url in urls:
                transfer.stop(FetchFailed("cancelled"))

    def stop_unsent(self, matches: Matches, *, is_final: bool) -> None:
        for transfer in tuple(self._under_way):
            if transfer.state is State.CONNECTING and matches(transfer.request.url):
                transfer.stop(FetchFailed("cancelled") if is_final else Held())

    def unanswered(self, matches: Matches) -> int:
        return sum(
            transfer.state is State.AWAITING_ANSWER and matches(transfer.request.url)
            for transfer in self._under_way
        )

    async def close(self) -> None:
        """End all fetches and wait until the last socket is closed."""
        self.abort()
        self._idle.close()
        while self._under_way:  # noqa: ASYNC110  (three turns of the loop, once per crawl)
            await asyncio.sleep(0)

    async def _exchange(self, transfer: Transfer) -> Exchange:
        reader = transfer.reader
        exchange = Exchange(
            method=transfer.request.method,
            url=transfer.request.url,
            request=transfer.wire,
            head=reader.head,
            status=reader.status,
            http_version=reader.http_version,
            headers=reader.headers,
            ip="" if self.proxy is not None else transfer.server.address,
            body=b"" if transfer.body_skipped else reader.body,
            via_proxy=self.proxy is not None,
            body_skipped=transfer.body_skipped,
            truncated=reader.truncated,
            has_surplus=reader.has_surplus,
            started_time=transfer.started_time,
            asked_at=transfer.first_byte_at,
            ended_at=transfer.ended_at,
            connect_s=transfer.connected_at - transfer.started_at,
            first_byte_s=transfer.first_byte_at - transfer.connected_at,
            total_s=transfer.ended_at - transfer.started_at,
        )
        if transfer.ssl_object is not None:
            exchange.tls = self._judge.describe(transfer.ssl_object, transfer.server.host)
        if transfer.body_skipped:
            return exchange
        content = reader.content if reader.chunked else exchange.body
        if transfer.request.decodes:
            what = content, reader.headers, transfer.limits.max_size_bytes
            decoded = decode_quickly(*what)
            if decoded is None:
                try:
                    await transfer.room_to_decode()
                    decoded = await asyncio.to_thread(decode, *what)
                except BaseException:
                    transfer.release_room()
                    raise
            exchange.payload = decoded.payload
            exchange.decode_problem = reader.problem or decoded.problem
            exchange.codings_left = decoded.left
        else:
            exchange.payload, exchange.decode_problem = content, reader.problem
            exchange.codings_left = tuple(codings_of(reader.headers))
        if transfer.share is not None:
            exchange.share = transfer.share
            has_both = exchange.payload is not exchange.body
            size_bytes = len(exchange.body) + has_both * len(exchange.payload)
            transfer.share.charge(size_bytes, transfer.ended_at - transfer.granted_at)
        return exchange
