"""Reads CLUSTER: the servers of a bus, how to log in there, and the name of the crawl.

A user name, a password, a token and the content of a credentials file are in no text: not in a log
line, a `repr` or an error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote

DEFAULT_PORT: Final = 4222
DEFAULT_NAME: Final = "webcrawl"
SERVERS_MAX: Final = 16

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)  # a part of a subject


class BusServer(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Address:
    """The servers of a bus, and how to log in there. Its text has no secret."""

    servers: tuple[BusServer, ...]
    name: str = DEFAULT_NAME  # of the crawl: a bus may carry several
    is_tls: bool = False
    user: str = field(default="", repr=False)  # without a password: a token
    password: str | None = field(default=None, repr=False)
    creds: Path | None = None  # a file with a NATS user's JWT and seed
    ca: Path | None = None  # PEM: trust these authorities, and not those of the system
    replicas: int = 0  # of the records; 0: three on a cluster of servers, one on a single server

    def __str__(self) -> str:
        scheme = "tls" if self.is_tls else "nats"
        name = f"/{self.name}" if self.name != DEFAULT_NAME else ""
        return f"{scheme}://{','.join(map(str, self.servers))}{name}"

    @classmethod
    def parse(cls, url: str) -> Address:
        """Read `nats://user:pass@host:4222,host2:4222/name?creds=FILE`, `tls://...?ca=FILE`.

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
        rest, slash, name = rest.partition("/")
        if "#" in rest + name + query or (slash and not _NAME.fullmatch(name)):
            raise ValueError(
                "CLUSTER: only the name of the crawl may follow the hosts, as in"
                " nats://host:4222/NAME: 1 to 64 of A-Z a-z 0-9 _ -; in a password write / ? # as"
                " %2F %3F %23"
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
            name=name or DEFAULT_NAME,
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


def _servers(hosts: str) -> tuple[BusServer, ...]:
    servers = []
    for number, text in enumerate(hosts.split(","), 1):
        match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([\w.-]+))(?::(\d{1,5}))?", text, re.ASCII)
        port = int(match[3] or DEFAULT_PORT) if match else 0
        if match is None or not 0 < port < 65536:  # its text may be a password
            raise ValueError(f"CLUSTER: host {number} of the list is not of the form host:port")
        servers.append(BusServer(match[1] or match[2], port))
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
