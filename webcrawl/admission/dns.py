"""The DNS resolver: from a host name to its IP addresses.

Owns the DNS cache, the look-ups that are running and the hosts file. Knows nothing of the address
guard and of hosts' queues. Reads no clock for the cache: `now` is an argument.

Bounds: a look-up without an answer fails after `timeout_s * tries`. The cache has `cache_size`
entries of 500 bytes. Callers bound how many look-ups run; `dnsclient` bounds their bursts.
"""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from webcrawl.admission.dnsclient import FINAL_PROBLEMS, DnsClient, NameServer
from webcrawl.admission.dnswire import TYPE_A, TYPE_AAAA, DnsAnswer, question
from webcrawl.fetch.gate import Gate
from webcrawl.parse.domains import is_address

PROBE_TIMEOUT_S: Final = 3.0
RESOLV_CONF: Final = Path("/etc/resolv.conf")
HOSTS_FILE: Final = Path("/etc/hosts")

# Labels of 1 to 63 octets, 253 in all (RFC 1035, 2.3.4), of letters, digits and "-" (RFC 952).
# Deviation: "_" too, since real sites use it.
_HOST: Final = re.compile(
    r"(?=.{1,253}\.?\Z)(?:[a-z0-9_-]{1,63}\.)*[a-z0-9_-]{1,63}\.?", re.IGNORECASE
)


class Resolution(Struct, frozen=True, gc=False):
    """The IPv4 addresses of a host, or its IPv6 addresses if it has no IPv4 address.

    They are in the server's order. `expires_at` is monotonic. `took_s` is the duration of the
    look-up; 0.0 if no server was asked.
    """

    addresses: tuple[str, ...]
    expires_at: float
    took_s: float = 0.0


@dataclass(slots=True)
class ResolutionFailed(Exception):  # noqa: N818  (an outcome, not an error of ours)
    """No address. `again`: no definite answer came, so a later try may succeed.

    `reason` is a `dnswire.DnsAnswer.problem`, "bad_name" or "closed".
    """

    reason: str
    again: bool

    def __str__(self) -> str:
        return self.reason


class _Failure(NamedTuple):
    problem: str
    expires_at: float


def read_server(text: str) -> NameServer:
    """The server of a DNS_SERVERS entry: "8.8.8.8", "127.0.0.1:5353", "::1" or "[::1]:53".

    ValueError for anything else.
    """
    match = re.fullmatch(r"\[([^]]+)\](?::(\d{1,5}))?|([^:]+):(\d{1,5})|([^\]\[]+)", text.strip())
    if match is None:
        raise ValueError(text)
    address, port = match[1] or match[3] or match[5], int(match[2] or match[4] or 53)
    ip_address(address)
    if not 0 < port < 65536:
        raise ValueError(text)
    return NameServer(address, port)


class Resolver:
    """Looks up host names and caches the answers. Callers that ask for one name share one look-up.

    Without `servers`, asks the servers of resolv.conf, and the hosts file has precedence.
    The first look-up opens the sockets; from then until `close`, all calls must come from one event
    loop. Deviation: a TTL is raised to `min_ttl_s` and cut to `max_ttl_s`, since many TTLs are
    shorter than the delay of a polite crawl.
    """

    def __init__(
        self,
        servers: Sequence[str] = (),
        *,
        timeout_s: float = 5.0,
        tries: int = 2,
        min_ttl_s: float = 600.0,
        max_ttl_s: float = 86_400.0,
        negative_ttl_s: float = 300.0,
        cache_size: int = 10_000,
        gate: Gate | None = None,
    ) -> None:
        asked = [read_server(text) for text in servers] or system_servers()
        self._client = DnsClient(asked, timeout_s, tries, gate)
        self._hosts = {} if servers else _system_hosts()
        self._min_ttl_s = min_ttl_s
        self._max_ttl_s = max_ttl_s
        self._negative_ttl_s = negative_ttl_s
        self._cache_size = cache_size
        self._cache: OrderedDict[str, Resolution | _Failure] = OrderedDict()
        # The results that other callers wait for; None if the caller that asks is cancelled.
        self._under_way: dict[str, asyncio.Future[Resolution | _Failure | None]] = {}
        self._closed = False

    def __repr__(self) -> str:
        return f"<Resolver {len(self._under_way)} under way, {len(self._cache)} cached>"

    async def resolve(self, host: str, now: float) -> Resolution:
        """The addresses of `host`, the host of a canonical URL; `now` is monotonic.

        Raises ResolutionFailed. About 60 µs for a look-up, 1 µs from the cache.
        """
        result = self._without_lookup(host, now)
        while result is None:
            shared = self._under_way.get(host)
            result = await (self._look_up(host, now) if shared is None else asyncio.shield(shared))
        if isinstance(result, _Failure):
            raise ResolutionFailed(result.problem, again=result.problem not in FINAL_PROBLEMS)
        return result

    async def is_answered(self, host: str) -> bool:
        """A probe: whether a name server answers for `host` within PROBE_TIMEOUT_S.

        The answer may have addresses, or say definitely that there are no addresses.
        """
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_S):
                answer = await self._client.ask(question(host, TYPE_A))
        except TimeoutError:
            return False
        return answer.problem in ("", "no_socket") or answer.problem in FINAL_PROBLEMS

    async def close(self) -> None:
        """End the running look-ups, with the reason "closed", and close every socket.

        A look-up that asks by TCP goes on up to its time-out.
        """
        self._closed = True
        self._client.close()

    def _without_lookup(self, host: str, now: float) -> Resolution | _Failure | None:
        """The result, if no server needs to be asked."""
        cached = self._cache.get(host)
        if cached is not None:
            if now < cached.expires_at:
                return cached
            del self._cache[host]
        if host in self._hosts:
            return Resolution(self._hosts[host], now + self._max_ttl_s)
        literal = literal_of(host)
        if literal:
            return Resolution((literal,), math.inf)
        if not is_host_name(host):
            return _Failure("bad_name", now)
        if self._closed:
            return _Failure("closed", now)
        return None

    async def _look_up(self, host: str, now: float) -> Resolution | _Failure:
        shared = self._under_way[host] = asyncio.get_running_loop().create_future()
        began, result = time.monotonic(), None  # uvloop's time has whole milliseconds
        try:
            answer = await self._client.ask(question(host, TYPE_A))
            if answer.problem == "nodata":  # Deviation: IPv6 only where there is no IPv4
                answer = await self._client.ask(question(host, TYPE_AAAA))
            result = self._remembered(host, answer, now)
            if isinstance(result, Resolution):
                result = replace(result, took_s=time.monotonic() - began)
            return result
        finally:
            del self._under_way[host]
            shared.set_result(result)

    def _remembered(self, host: str, answer: DnsAnswer, now: float) -> Resolution | _Failure:
        """The result, which the cache has from now on unless another answer may come.

        A full cache drops its oldest entry. O(1).
        """
        result: Resolution | _Failure
        if not answer.problem:
            ttl_s = min(max(answer.ttl_s, self._min_ttl_s), self._max_ttl_s)
            result = Resolution(answer.addresses, now + ttl_s)
        else:
            result = _Failure(answer.problem, now + self._negative_ttl_s)
            if answer.problem not in FINAL_PROBLEMS:
                return result
        if len(self._cache) >= self._cache_size:
            self._cache.popitem(last=False)
        self._cache[host] = result
        return result


def is_host_name(host: str) -> bool:
    """Whether `host` may be the name of a host."""
    return _HOST.fullmatch(host) is not None


def literal_of(host: str) -> str:
    """The address, if `host` is an IP address or localhost (RFC 6761, 6.3); else ""."""
    if host == "localhost" or host.endswith(".localhost"):
        return "127.0.0.1"
    if host[:1] == "[" and host[-1:] == "]":
        host = host[1:-1]
    elif not is_address(host):
        return ""  # a name: no need for an exception
    try:
        return str(ip_address(host))
    except ValueError:
        return ""


def system_servers() -> list[NameServer]:
    """The name servers of resolv.conf(5). If that file has no name server, the local one."""
    lines = _system_file(RESOLV_CONF)
    servers = [NameServer(line[1]) for line in lines if line[0] == "nameserver" and len(line) > 1]
    return servers or [NameServer("127.0.0.1")]


def _system_hosts() -> dict[str, tuple[str, ...]]:
    """The names of hosts(5), each with its addresses: IPv4 first."""
    hosts: dict[str, tuple[str, ...]] = {}
    for address, *names in _system_file(HOSTS_FILE):
        if literal_of(address):
            for name in names:
                hosts[name.lower()] = (*hosts.get(name.lower(), ()), address)
    return {name: tuple(sorted(found, key=lambda ip: ":" in ip)) for name, found in hosts.items()}


def _system_file(path: Path) -> list[list[str]]:
    """The words of each line, without comments and empty lines."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    lines = (re.split("[#;]", line, maxsplit=1)[0].split() for line in text.splitlines())
    return [words for words in lines if words]
