"""How many URLs a host, a registered domain and an IP address may take part with.

Owns the counts; knows nothing of queues or clocks. A cap of 0 is no cap, a cap of 1 is uniqueness.
Memory: one integer a host, domain and address seen, and none at all for a cap of 0.
"""

from __future__ import annotations

from typing import Literal, Protocol

from webcrawl.parse.domains import registered_domain

CapReason = Literal["host_cap", "domain_cap", "ip_cap"]


class Counts(Protocol):
    """Numbers by name: a dict, or what a store keeps."""

    def get(self, name: str, default: int, /) -> int: ...

    def __setitem__(self, name: str, count: int, /) -> None: ...


class Caps:
    """The three caps: each `take_*` counts one more URL, or says why it may not."""

    def __init__(self, per_host: int = 0, per_domain: int = 0, per_ip: int = 0) -> None:
        self.per_host = per_host
        self.per_domain = per_domain
        self.per_ip = per_ip
        self.counts: Counts = {}

    def take_url(self, host: str) -> CapReason | Literal[""]:
        """Count a URL of `host`; "" or the cap it exceeds: "host_cap" or "domain_cap". O(1)."""
        counts = self.counts
        if self.per_host:
            of_host = counts.get("host " + host, 0)
            if of_host >= self.per_host:
                return "host_cap"
        if self.per_domain:
            domain = "domain " + registered_domain(host)
            of_domain = counts.get(domain, 0)
            if of_domain >= self.per_domain:
                return "domain_cap"
            counts[domain] = of_domain + 1
        if self.per_host:
            counts["host " + host] = of_host + 1
        return ""

    def take_ip(self, ip: str) -> CapReason | Literal[""]:
        """Count a URL at the address `ip`; "" or "ip_cap". O(1)."""
        if self.per_ip:
            taken = self.counts.get("ip " + ip, 0)
            if taken >= self.per_ip:
                return "ip_cap"
            self.counts["ip " + ip] = taken + 1
        return ""

    def ip_is_full(self, ip: str) -> bool:
        """Whether `take_ip` would refuse."""
        return bool(self.per_ip) and self.counts.get("ip " + ip, 0) >= self.per_ip
