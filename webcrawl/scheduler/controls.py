"""Carries out, in one process, the orders by which a running crawl is steered.

The first process calls it directly, a worker when the first process sends orders. When `carry_out`
returns, the orders hold in this process: no request is sent that they forbid.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec.structs import replace

from webcrawl.fetch.gate import DISK, Gate
from webcrawl.hub.wire import Orders
from webcrawl.parse.urls import host_of
from webcrawl.scheduler.pump import Pump
from webcrawl.scope import HostsAndPatterns, Scope


class Controls:
    """`orders` are those that `scope` has already, of earlier runs."""

    def __init__(self, gate: Gate, scope: Scope, pump: Pump, orders: Orders) -> None:
        self._gate = gate
        self._scope = scope
        self._pump = pump
        self._orders = orders
        self._in_scope = orders  # whose entries `scope` has
        # What is left of orders that failed is unknown, so the next ones are carried out whole.
        self._unsure = replace(orders, is_paused=False)

    @property
    def is_paused(self) -> bool:
        return self._gate.is_paused

    @property
    def is_closing(self) -> bool:
        return self._pump.is_closing

    async def carry_out(self, orders: Orders) -> int:
        """Carry out `orders`, of which the earlier ones are a part. A second at most.

        Returns how many requests that they forbid were sent before and have no answer yet. If it
        raises, the next call also carries out what is left of these orders.
        """
        before, self._orders = self._orders, orders
        try:
            return await self._change(before, orders)
        except BaseException:
            self._orders = self._unsure
            raise

    def has_in_scope(self, orders: Orders) -> bool:
        """Whether the scope has the entries of `orders`: URLs in line are tested against them."""
        scope = self._in_scope
        return (scope.allow, scope.deny) == (orders.allow, orders.deny)

    async def _change(self, before: Orders, orders: Orders) -> int:
        known = self._in_scope
        self._scope.extend(orders.allow[len(known.allow) :], orders.deny[len(known.deny) :])
        self._in_scope = orders
        deny = orders.deny[len(before.deny) :]
        unanswered = 0
        if orders.is_paused and not before.is_paused:
            self._gate.shut()
            self._pump.give_back_window()
            unanswered = await self._gate.wait_until_sent()
        elif not orders.is_paused:
            self._gate.open()
        if deny:
            unanswered = await self._stop(HostsAndPatterns(deny, "deny"))
        self._pump.wake()
        return unanswered

    def give_back(self, has_changed: Callable[[str], bool]) -> None:
        """Give back all leases of hosts that `has_changed` whose requests are not sent yet.

        The rules of these hosts (RULES) have changed: the frontier judges the URLs by the new ones.
        A paused crawl may hold such requests for long.
        """
        self._pump.give_back_window()
        leased = self._pump.leased_urls()  # others are requests of a user's code
        self._gate.cut(lambda url: url in leased and has_changed(host_of(url)))

    def hold(self, *, is_held: bool) -> None:
        """Send no request while a disk is nearly full, whatever the orders are. Leases whose
        requests are not sent go back: a lease that is out would keep WARC files here
        (`extensions.archivestore`).
        """
        if is_held:
            self._gate.shut(DISK)
            self.give_back(lambda host: True)
        else:
            self._gate.open(DISK)
            self._pump.wake()

    def allow_until(self, until: float, hub: int = 0) -> None:
        """Let this process ask hosts of `hub` until then (monotonic): see `fetch.gate`.

        If it might send none at all until now, its leases are given back before. Other processes
        may ask at their addresses meanwhile (CLUSTER).
        """
        if self._gate.is_cut_off:
            self.give_back(lambda host: True)
        self._gate.allow_until(until, hub)

    async def _stop(self, denied: HostsAndPatterns) -> int:
        """Stop the requests to `denied` URLs that are not sent yet: the frontier drops the URLs."""

        def matches(url: str) -> bool:
            return denied.matches(url, host_of(url))

        self._pump.give_back_window()
        await asyncio.sleep(0)  # an admission that has just begun comes to its request
        self._gate.cut(matches)
        return await self._gate.wait_until_sent(matches)
