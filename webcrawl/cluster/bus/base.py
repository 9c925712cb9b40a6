"""The bus: how the nodes of one crawl reach each other, and the small state that they share.

Owns the interface, its errors and the reading of `CLUSTER`. It knows nothing of what is sent.

Two services, trusted differently:
- messages are sent at most once: lost, repeated or in another order, as the network likes. Whoever
  needs more counts (`courier.py`);
- entries (a key and its value) change by compare-and-set. A revision is never given twice, also not
  after the bus was wiped: an `update` that read an entry before then changes nothing. The bus may
  be wiped at any time, and after a crash of its server it may have forgotten its last writes.

A user name, a password, a token and the content of a credentials file are in no text: not in a log
line, a `repr` or an error.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote

MAX_BYTES: Final = 512 * 1024  # of a message or a value; NATS refuses more than 1 MB by default
NAME_MAX: Final = 200  # bytes of a key or a subject, once encoded
DEFAULT_PORT: Final = 4222
SERVERS_MAX: Final = 16

_CRAWL = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")


class BusError(Exception):
    """The bus did not do it. One line for the user. A write may have been done nevertheless."""


class Unreachable(BusError):  # noqa: N818
    """No connection, or no answer in time. It may pass."""


class Refused(BusError):  # noqa: N818
    """Credentials, TLS, or a bus that cannot serve a crawl: the user must act."""


class Entry(NamedTuple):
    value: bytes
    revision: int  # below 2^63; larger is not later


class Bus(ABC):
    """One connection of one node to the bus of one crawl.

    Subjects and keys are names of parts joined with dots ("links.3", "addresses.2001:db8::1"), of
    NAME_MAX bytes at most; a part may have any characters, but not be empty. Handlers run on the
    event loop, one at a time for a `subscribe`, and must not block.

    A handler's exception is logged, and the next message is handled as before.
    """

    @property
    @abstractmethod
    def is_connected(self) -> bool:
        """As far as is known: true for at most 3 s after the bus went silent."""

    @abstractmethod
    async def open(self) -> None:
        """Connect. Raises Refused at once, Unreachable after some seconds of tries."""

    @abstractmethod
    async def close(self) -> None:
        """Disconnect for good. Handlers are not called again; requests end with Unreachable."""

    @abstractmethod
    def publish(self, subject: str, data: bytes) -> None:
        """Send to all subscribers, at most once. Never waits; dropped while disconnected.

        Raises ValueError above MAX_BYTES.
        """

    @abstractmethod
    async def subscribe(self, subject: str, handle: Callable[[bytes], None]) -> None:
        """Call `handle` with what is published; also after a reconnect, also if called before."""

    @abstractmethod
    def unsubscribe(self, subject: str) -> None:
        """Undo `subscribe`: no handler of this connection is called for `subject` any more."""

    @abstractmethod
    async def request(self, subject: str, data: bytes, timeout_s: float) -> bytes:
        """One node's answer. BusError if none comes in time, none answers, or its handler fails."""

    @abstractmethod
    async def answer(self, subject: str, handle: Callable[[bytes], Awaitable[bytes]]) -> None:
        """Answer requests, at most ANSWERS at a time; further ones are dropped."""

    @abstractmethod
    async def get(self, key: str) -> Entry | None:
        """The newest entry: never one that an `update` of another node has replaced before."""

    @abstractmethod
    async def create(self, key: str, value: bytes) -> int | None:
        """The revision; None if the key has an entry."""

    @abstractmethod
    async def update(self, key: str, value: bytes, revision: int) -> int | None:
        """Replace the entry of this revision. Returns the new one; None if it has changed."""

    @abstractmethod
    async def put(self, key: str, value: bytes) -> int:
        """Replace whatever is there. Returns the revision."""

    @abstractmethod
    async def delete(self, key: str, revision: int | None = None) -> bool:
        """Whether there was an entry (of this revision), which is deleted now."""

    @abstractmethod
    async def keys(self, prefix: str) -> dict[str, Entry]:
        """All entries under `prefix`: "nodes." those below, "" all, "crawl" only this key."""


ANSWERS: Final = 64


def bus_from(url: str, crawl: str) -> Bus:
    """The bus of the setting CLUSTER. Raises ValueError, in one line that has no secret."""
    from webcrawl.cluster.bus.natsbus import NatsBus  # noqa: PLC0415  (it imports this module)

    return NatsBus(Address.parse(url), crawl)


def checked_crawl(name: str) -> str:
    if not _CRAWL.fullmatch(name):
        raise ValueError(f"CLUSTER_NAME={name!r}: 1 to 64 of A-Z a-z 0-9 _ -")
    return name


def encoded(name: str) -> str:
    """A key or subject as NATS allows it: other bytes than A-Z a-z 0-9 _ - as =XX, in hex."""
    parts = name.split(".")
    if not all(parts):
        raise ValueError(f"{name!r}: an empty part")
    text = ".".join(
        "".join(chr(byte) if byte in _PLAIN else f"={byte:02X}" for byte in part.encode())
        for part in parts
    )
    if len(text) > NAME_MAX:
        raise ValueError(f"{name!r}: longer than {NAME_MAX} bytes")
    return text


def decoded(text: str) -> str:
    """The name that `encoded` has made into `text`."""
    return unquote(text.replace("=", "%"))


def is_under(prefix: str, key: str) -> bool:
    """Whether `keys(prefix)` has `key`."""
    return key == prefix or not prefix or (prefix.endswith(".") and key.startswith(prefix))


def checked_size(data: bytes) -> bytes:
    if len(data) > MAX_BYTES:
        raise ValueError(f"{len(data)} bytes for the bus: at most {MAX_BYTES}")
    return data


class Server(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Address:
    """The servers of a bus, and how to log in there. Its text has no secret."""

    servers: tuple[Server, ...]
    is_tls: bool = False
    user: str = field(default="", repr=False)  # without a password: a token
    password: str | None = field(default=None, repr=False)
    creds: Path | None = None  # a file with a NATS user's JWT and seed
    ca: Path | None = None  # PEM: trust these authorities, and not those of the system
    replicas: int = 0  # of the entries; 0: three on a cluster of servers, one on a single server

    def __str__(self) -> str:
        scheme = "tls" if self.is_tls else "nats"
        return f"{scheme}://{','.join(map(str, self.servers))}"

    @classmethod
    def parse(cls, url: str) -> Address:
        """Read `nats://user:pass@host:4222,host2:4222?creds=FILE`, `tls://...?ca=FILE`.

        Raises ValueError, in one line without a secret.
        """
        scheme, separator, rest = url.strip().partition("://")
        if not separator or scheme not in ("nats", "tls"):
            raise ValueError(
                "CLUSTER: begins with neither nats:// nor tls://, such as nats://bus.example.org:4222"
            )
        rest, _, query = rest.partition("?")
        rest = rest.replace(f",{scheme}://", ",")
        if "://" in rest:
            raise ValueError("CLUSTER: all hosts with nats://, or all with tls://")
        rest, _, path = rest.partition("/")
        if path or "#" in rest + query:
            raise ValueError(
                "CLUSTER: a / or # after the hosts; in a password write / ? # as %2F %3F %23"
            )
        login, _, hosts = rest.rpartition("@")
        if "@" in login:
            raise ValueError(
                "CLUSTER: user and password stand once, before all hosts; an @ in them is %40"
            )
        user, colon, password = login.partition(":")
        options = dict(parse_qsl(query, keep_blank_values=True))
        address = cls(
            servers=_servers(hosts),
            is_tls=scheme == "tls",
            user=unquote(user),
            password=unquote(password) if colon else None,
            creds=_file(options, "creds"),
            ca=_file(options, "ca"),
            replicas=_replicas(options.pop("replicas", "0")),
        )
        if options:
            raise ValueError("CLUSTER: only creds, ca and replicas may follow the ?")
        if address.ca and not address.is_tls:
            raise ValueError("CLUSTER: ca= needs tls://")
        return address


def _servers(hosts: str) -> tuple[Server, ...]:
    servers = []
    for number, text in enumerate(hosts.split(","), 1):
        match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([\w.-]+))(?::(\d{1,5}))?", text, re.ASCII)
        port = int(match[3] or DEFAULT_PORT) if match else 0
        if match is None or not 0 < port < 65536:  # its text may be a password
            raise ValueError(f"CLUSTER: host {number} of the list is not of the form host:port")
        servers.append(Server(match[1] or match[2], port))
    if len(servers) > SERVERS_MAX:
        raise ValueError(f"CLUSTER: more than {SERVERS_MAX} hosts")
    return tuple(servers)


def _file(options: dict[str, str], name: str) -> Path | None:
    path = options.pop(name, None)
    if path is None:
        return None
    if not Path(path).is_file():
        raise ValueError(f"CLUSTER: {name}={path}: there is no such file")
    return Path(path)


def _replicas(text: str) -> int:
    if text not in ("0", "1", "3", "5"):
        raise ValueError("CLUSTER: replicas is 1, 3 or 5")
    return int(text)
