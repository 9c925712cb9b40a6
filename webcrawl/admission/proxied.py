"""Admission of hosts whose names a proxy looks up (PROXY): no address is known, none is asked.

Takes the place of `dns` and `guard`. Each host gets a stand-in address of its own, so IP_DELAY and
MAX_PAGES_PER_IP count for each host by itself. The guard knows only the host of a URL: it tests an
address as ever, and refuses names that no public DNS has. To which address a public name leads,
only the proxy sees: its own rules must refuse private addresses.

Owns also the probes of the outage detection: whether the proxy answers, and whether it reaches a
server.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

from webcrawl.admission.dns import Resolution, ResolutionFailed, is_host_name, literal_of
from webcrawl.admission.guard import AddressGuard
from webcrawl.admission.outage import PROBE_TIMEOUT_S, Target
from webcrawl.fetch.proxy import Proxy, open_tunnel, problem_of, tunnel_place
from webcrawl.frontier.host import STAND_IN

# RFC 6762, 3; RFC 8375. ICANN reserves ".internal" for private use. "localhost" is an address here.
_PRIVATE_NAMES: Final = (".local", ".internal", ".home.arpa")
_VALID_S: Final = 600.0
_MEMO_S: Final = 0.5  # one check of the proxy serves all probes of a round


def stand_in(host: str) -> str:
    """The stand-in address of `host`: in 100::/64, which leads nowhere (RFC 6666). 2 µs."""
    digest = blake2b(host.encode(), digest_size=8).hexdigest()
    return STAND_IN + ":".join(f"{int(digest[at : at + 4], 16):x}" for at in range(0, 16, 4))


class ProxyResolver:
    """In place of `dns.Resolver`: never fails for a name, and asks nobody."""

    async def resolve(self, host: str, now: float) -> Resolution:
        """The stand-in of `host`; the address itself if `host` is one. Raises ResolutionFailed."""
        literal = literal_of(host)
        if literal:
            return Resolution((literal,), now + _VALID_S)
        if not is_host_name(host):
            raise ResolutionFailed("bad_name", again=False)
        return Resolution((stand_in(host),), now + _VALID_S)

    async def is_answered(self, host: str) -> bool:
        """A probe of name servers: none are asked."""
        return True

    async def close(self) -> None:
        """Nothing is open."""


class ProxyGuard(AddressGuard):
    """In place of `AddressGuard`: also admits stand-ins, of public names unless `allow_private`."""

    __slots__ = ("_allow_private",)

    def __init__(self, allow_private: bool = False) -> None:
        super().__init__(allow_private)
        self._allow_private = allow_private

    def admitted(self, host: str, addresses: Sequence[str]) -> tuple[str, ...]:
        if addresses and addresses[0].startswith(STAND_IN):
            return tuple(addresses) if self._allow_private or _is_public_name(host) else ()
        return super().admitted(host, addresses)


def _is_public_name(host: str) -> bool:
    """Whether public DNS may have the name. Without a dot, only search domains find it."""
    name = host.rstrip(".").lower()
    return "." in name and not name.endswith(_PRIVATE_NAMES)


class ProxyProbe:
    """In place of `outage.connects`: tests the proxy, then the way behind it. Blocks no event loop.

    For https a tunnel shows whether the proxy reaches the server; nothing is sent through it. For
    http only a request would show that, so a proxy that answers is all that is known.
    """

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self.problem = ""  # why the proxy could not be used at the last probe
        self._checked_at = 0.0
        self._check: asyncio.Task[str] | None = None

    def __repr__(self) -> str:
        return f"<ProxyProbe {self.proxy}: {self.problem or 'no problem'}>"

    async def connects(self, target: Target) -> bool:
        """Whether the proxy works and, if its port is 443, `target` too (its `address`: a host)."""
        problem = await self._checked()
        self.problem = f"The proxy {self.proxy} cannot be used: {problem}" if problem else ""
        if self.problem:
            return False
        if target.port != 443:
            return True
        where = tunnel_place(target.address, target.port)
        return await open_tunnel(self.proxy, where, PROBE_TIMEOUT_S)

    async def _checked(self) -> str:
        now = time.monotonic()
        if self._check is None or (self._check.done() and now > self._checked_at + _MEMO_S):
            self._checked_at = now
            self._check = asyncio.create_task(
                asyncio.to_thread(problem_of, self.proxy, PROBE_TIMEOUT_S)
            )
        return await asyncio.shield(self._check)
