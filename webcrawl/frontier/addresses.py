"""The interface of IP addresses that several frontiers share: those of the hubs of a crawl.

A frontier on its own needs none: its workbench has the clock and the lease of each address. With
this interface the workbench asks before it leases a host, and parks the host until the time given.
It is called from the thread of the frontier's batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Addresses(Protocol):
    """The addresses, as one frontier sees them."""

    def acquire(self, address: str, now: float) -> float:
        """Take the address for one request: 0.0, or when to ask again. O(1)."""

    def cancel(self, address: str, now: float) -> None:
        """The address that was taken is not used: no clock is set."""

    def release(self, address: str, next_at: float) -> None:
        """The request has ended. The next one to the address may leave at `next_at`."""

    def stop_waiting(self, address: str, now: float) -> None:
        """No host waits for the address any more."""

    def freed(self, now: float) -> Sequence[str]:
        """Addresses that this frontier waits for, and may take now. Each is returned once."""

    def next_at(self) -> float:
        """When `freed` has an address, as far as is known: inf is not before it is told."""

    def take_page(self, address: str) -> bool:
        """Whether one more URL may be counted at the address (MAX_PAGES_PER_IP); it is, then."""

    def is_full(self, address: str) -> bool:
        """Whether it is known that no URL will be counted at the address any more."""
