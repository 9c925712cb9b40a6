"""A server that runs a test's script on each connection, and certificates for it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

Script = Callable[[socket.socket], None]
Run = Callable[[Coroutine[Any, Any, Any]], Any]  # the fixture `run`


class RawServer:
    """Runs `script` on every connection, each in a thread; on leaving, ends them all."""

    def __init__(
        self, script: Script, context: ssl.SSLContext | None = None, address: str = "127.0.0.1"
    ) -> None:
        self._script = script
        self._context = context
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._listener = socket.create_server((address, 0), family=family, backlog=200)
        self._connections: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self.port: int = self._listener.getsockname()[1]
        self.over = threading.Event()  # a script that hangs waits for this event

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.over.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads[1:]:
            thread.join()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            if self._context is None:
                self._script(connection)
            else:
                with self._context.wrap_socket(connection, server_side=True) as secured:
                    self._script(secured)


def read_request(connection: socket.socket) -> bytes:
    """Read the head of a request."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65536)
        if not more:
            break
        data += more
    return data


def answering(*parts: bytes) -> Script:
    """A script that sends the same bytes whatever is asked for."""

    def script(connection: socket.socket) -> None:
        read_request(connection)
        for part in parts:
            connection.sendall(part)

    return script


def path_of(request: bytes) -> str:
    """The path that `request` asks for; with no request, the script ends as for a lost connection.

    A client that is stopped, or probes, closes connections on which it has sent nothing.
    """
    if not request:
        raise ConnectionError("closed before a request came")
    return request.split(b" ")[1].decode()


def reset(connection: socket.socket) -> None:
    """Close by RST instead of FIN."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


async def until(true: Callable[[], object]) -> None:
    """Wait for a condition without an event, such as an action of the other end."""
    async with asyncio.timeout(60):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


class Identity(NamedTuple):
    """A certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.DER)


def identity(
    name: str,
    *,
    issuer: Identity | None = None,
    names: tuple[x509.GeneralName, ...] = (),
    authority: bool = False,
    days: tuple[int, int] = (-10, 10),
) -> Identity:
    """A certificate for `name`, valid from and until that many days from now."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    by = issuer.certificate.subject if issuer else subject
    signer = issuer.key if issuer else key
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder(by, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now + timedelta(days=days[0]))
        .not_valid_after(now + timedelta(days=days[1]))
        .add_extension(x509.BasicConstraints(authority, None), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    if authority:
        usage = x509.KeyUsage(
            digital_signature=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        builder = builder.add_extension(usage, critical=True)
    else:
        server = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
        builder = builder.add_extension(server, critical=False)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return Identity(builder.sign(signer, hashes.SHA256()), key)


def server_context(folder: Path, leaf: Identity, *others: Identity) -> ssl.SSLContext:
    """For a server that presents `leaf` and then `others`."""
    path = folder / "server.pem"
    pem = leaf.key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    for each in (leaf, *others):
        pem += each.certificate.public_bytes(serialization.Encoding.PEM)
    path.write_bytes(pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context
