"""HTTPS of the simulated web: certificates, and the listener that presents them.

The ClientHello is peeked at before the handshake, since the name in it (RFC 6066, 3) chooses the
host and thereby the certificate, the TLS version or the fault. A handshake takes about 1 ms of CPU.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import warnings
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from struct import error as struct_error
from struct import unpack_from
from tempfile import NamedTemporaryFile

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from simweb.http import is_loopback
from simweb.origins import OriginKind

_HELLO_S = 10.0  # a client must send its first bytes in this time
_HELLO_MAX = 16 << 10
_ACCEPTED_MAX = 64  # connections accepted in one turn of the event loop


def server_name(hello: bytes) -> str:
    """The host name in a ClientHello (RFC 8446, 4.1.2), in lower case; "" without a name."""
    try:
        at = 43  # record and handshake headers, version, random
        at += 1 + hello[at]  # session id
        at += 2 + unpack_from(">H", hello, at)[0]  # cipher suites
        at += 1 + hello[at]  # compression methods
        at += 2
        while True:
            kind, size = unpack_from(">HH", hello, at)
            if kind == 0:
                return hello[at + 9 : at + 4 + size].decode("latin-1").lower()
            at += 4 + size
    except (IndexError, struct_error):
        return ""


@lru_cache(4096)
def context(name: str, certificate: str, old: bool) -> ssl.SSLContext:
    """The TLS context of the host `name`. About 2 ms, once per host."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if old:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            made.minimum_version = made.maximum_version = ssl.TLSVersion.TLSv1
        made.set_ciphers("DEFAULT:@SECLEVEL=0")
    with NamedTemporaryFile() as file:
        file.write(_pem(name, certificate))
        file.flush()
        made.load_cert_chain(file.name)
    return made


def _pem(name: str, certificate: str) -> bytes:
    """A self-signed certificate for `name`, and its key."""
    key = _key()
    name = "outro.example" if certificate == "other-name" else name
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])
    now = datetime.now(UTC)
    last = now + timedelta(days=-1 if certificate == "expired" else 30)
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=30))
        .not_valid_after(last)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


@cache
def _key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


class SecureServer:
    """Accepts connections. `kind_of` gives the kind of origin of a host name."""

    def __init__(
        self, protocol: Callable[[], asyncio.Protocol], kind_of: Callable[[str], OriginKind | None]
    ) -> None:
        self._protocol = protocol
        self._kind_of = kind_of
        self._loop = asyncio.get_running_loop()
        self._sockets: list[socket.socket] = []
        self._guests: set[asyncio.Task[None]] = set()

    def listen(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._sockets.append(sock)
        self._loop.add_reader(sock, self._accept, sock)

    def close(self) -> None:
        for sock in self._sockets:
            self._loop.remove_reader(sock)
            sock.close()
        for guest in self._guests:
            guest.cancel()

    def _accept(self, sock: socket.socket) -> None:
        for _ in range(_ACCEPTED_MAX):
            try:
                guest, _ = sock.accept()
            except OSError:
                return
            if not is_loopback(guest.getsockname()[0]):
                guest.close()
                continue
            guest.setblocking(False)
            task = self._loop.create_task(self._welcome(guest))
            self._guests.add(task)
            task.add_done_callback(self._guests.discard)

    async def _welcome(self, guest: socket.socket) -> None:
        try:
            name = server_name(await asyncio.wait_for(self._hello(guest), _HELLO_S))
            kind = self._kind_of(name)
            if kind is None:
                guest.close()
            elif kind.wire is None:
                await self._loop.connect_accepted_socket(
                    self._protocol, guest, ssl=context(name, kind.certificate, kind.old)
                )
            else:
                await self._say(guest, kind.wire)
        except OSError:  # a failed handshake and a TimeoutError are OSErrors too
            guest.close()
        except asyncio.CancelledError:
            guest.close()
            raise

    async def _hello(self, guest: socket.socket) -> bytes:
        """Peeks at the first bytes: they stay in the socket's buffer."""
        there = asyncio.Event()
        self._loop.add_reader(guest, there.set)
        try:
            await there.wait()
            return guest.recv(_HELLO_MAX, socket.MSG_PEEK)
        finally:
            self._loop.remove_reader(guest)

    async def _say(self, guest: socket.socket, wire: bytes) -> None:
        """Sends `wire` and closes. Without bytes to send, waits until the client closes."""
        guest.recv(_HELLO_MAX)  # closing with unread bytes would reset the connection
        if wire:
            await self._loop.sock_sendall(guest, wire)
        else:
            while await self._loop.sock_recv(guest, _HELLO_MAX):
                pass
        guest.close()
