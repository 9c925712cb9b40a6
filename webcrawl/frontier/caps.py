"""The caps: how many URLs per host, per registered domain and per IP address are crawled.

Owns the counts; knows nothing of queues or clocks. A cap of 0 is no cap, a cap of 1 is uniqueness.
Memory: one integer per host, domain and address seen; nothing for a cap of 0.
"""

from __future__ import annotations

from typing import Literal, Protocol

from webcrawl.frontier.addresses import Addresses
from webcrawl.parse.domains import registered_domain
from webcrawl.scope.hostrules import HostRules

CapReason = Literal["host_cap", "domain_cap", "ip_cap"]
# Names of counts begin with these: of our URLs at an address, and of those of all hubs.
_IP, GIVEN = "ip ", "given "


class Counts(Protocol):
    """Numbers by name: a dict, or rows of a store."""

    def get(self, name: str, default: int, /) -> int: ...

    def __setitem__(self, name: str, count: int, /) -> None: ...


class Caps:
    """The three caps. Each `take_*` counts one more URL, or names the cap that refuses it.

    per_host, per_domain, per_ip -- MAX_PAGES_PER_HOST and so on; 0: no cap
    rules -- other caps for some hosts; None: no file of rules
    counts -- "host <name>", "domain <name>", "ip <address>"; set by the frontier
    shared -- addresses that other frontiers count URLs at, too; set by the frontier
    """

    def __init__(
        self,
        per_host: int = 0,
        per_domain: int = 0,
        per_ip: int = 0,
        rules: HostRules | None = None,
    ) -> None:
        self.per_host = per_host
        self.per_domain = per_domain
        self.per_ip = per_ip
        self._rules = rules
        self.limits_urls = (
            per_host > 0 or per_domain > 0 or rules is not None
        )  # `take_url` may refuse one
        self.counts: Counts = {}
        self.shared: Addresses | None = None

    def is_full(self, host: str) -> CapReason | Literal[""]:
        """The cap for which `take_url` would refuse a URL of `host`, or ""."""
        counts, per_host = self.counts, self._per_host_of(host)
        if per_host and counts.get("host " + host, 0) >= per_host:
            return "host_cap"
        domain = "domain " + registered_domain(host) if self.per_domain else ""
        return "domain_cap" if domain and counts.get(domain, 0) >= self.per_domain else ""

    def take_url(self, host: str) -> CapReason | Literal[""]:
        """Count a URL of `host`; "", or "host_cap" or "domain_cap" if that cap refuses it. O(1)."""
        counts, per_host = self.counts, self._per_host_of(host)
        if per_host:
            of_host = counts.get("host " + host, 0)
            if of_host >= per_host:
                return "host_cap"
        if self.per_domain:
            domain = "domain " + registered_domain(host)
            of_domain = counts.get(domain, 0)
            if of_domain >= self.per_domain:
                return "domain_cap"
            counts[domain] = of_domain + 1
        if per_host:
            counts["host " + host] = of_host + 1
        return ""

    def take_ip(self, ip: str) -> CapReason | Literal[""]:
        """Count a URL at the address `ip`; "", or "ip_cap" if the cap refuses it. O(1)."""
        if self.per_ip:
            taken = self.counts.get(_IP + ip, 0)
            if taken >= self.per_ip:
                return "ip_cap"
            if self.shared is not None and not self.shared.take_page(ip):
                return "ip_cap"
            self.counts[_IP + ip] = taken + 1
        return ""

    def ip_is_full(self, ip: str) -> bool:
        """Whether `take_ip` would refuse a URL."""
        if not self.per_ip:
            return False
        is_full = self.shared is not None and self.shared.is_full(ip)
        return is_full or self.counts.get(_IP + ip, 0) >= self.per_ip

    def _per_host_of(self, host: str) -> int:
        """MAX_PAGES_PER_HOST, or a rule's in its place."""
        ruled = self._rules.of(host).max_pages if self._rules is not None else None
        return self.per_host if ruled is None else ruled
