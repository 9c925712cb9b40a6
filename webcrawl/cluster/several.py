"""This hub among several: the sessions with the others, and what goes over them.

Made before the frontier is opened, which needs the addresses; the rest joins when there is a
frontier. A crawl with one hub has none of this.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

from webcrawl.cluster.addresses import BATCH_S, HubAddresses
from webcrawl.cluster.bus import Bus
from webcrawl.cluster.claims import Claim
from webcrawl.cluster.courier import PAUSE_S, Courier
from webcrawl.cluster.peers import Peers
from webcrawl.cluster.records import Ownership
from webcrawl.cluster.steering import STEP_S, Process
from webcrawl.cluster.streams import Clock
from webcrawl.cluster.views import Views
from webcrawl.cluster.whole import WholeCrawl
from webcrawl.frontier.buckets import other_hubs
from webcrawl.frontier.disk.frontier import LocalFrontier
from webcrawl.frontier.store import StoreError
from webcrawl.hub.server import FrontierServer


class SeveralHubs:
    """Of the hub of `claim`.

    addresses -- None: no address has a delay or a cap
    partition -- the hosts of the other hubs
    courier, whole, rounds -- from `join` on: `rounds` is what is done each so many seconds
    """

    courier: Courier
    whole: WholeCrawl
    rounds: list[tuple[float, Callable[[], Awaitable[None] | None]]]

    def __init__(
        self,
        bus: Bus,
        claim: Claim,
        addresses: HubAddresses | None,
        *,
        longest_fetch_s: float,
        clock: Clock,
        new_name: Callable[[], str],
    ) -> None:
        self.bus = bus
        self.claim = claim
        self.addresses = addresses
        self.partition = other_hubs(claim.number, claim.hubs)
        self.peers = Peers(
            bus, claim, longest_fetch_s=longest_fetch_s, clock=clock, new_name=new_name
        )
        self._clock = clock

    def __repr__(self) -> str:
        return f"<SeveralHubs {self.peers!r}>"

    def join(
        self,
        server: FrontierServer,
        frontier: LocalFrontier,
        process: Process,
        *,
        utc: Callable[[], str],
        ownership: Ownership,
        refuse: Callable[[str], None],
    ) -> None:
        """`server` serves `frontier`. `refuse` is told why this process must end."""

        def wake() -> None:
            server.places_changed()
            process.wake()

        def recall() -> None:
            process.give_back_all()
            server.recall()

        partition, claim, clock = self.partition, self.claim, self._clock
        self.courier = Courier(
            self.peers,
            frontier,
            is_ours=lambda host: partition(host) is None,
            on_applied=wake,
            refuse=refuse,
            clock=clock,
        )
        views = Views(claim.number, claim.hubs, server.counters, utc())
        self.whole = WholeCrawl(
            *(self.peers, server, frontier, views, process),
            unapplied=lambda: self.courier.unapplied,
            recorded_end=lambda: ownership.end_elsewhere,
            record_stop=ownership.stop,
            clock=clock,
            utc=utc,
        )
        self.rounds = [(PAUSE_S, self.courier.turn), (STEP_S, self.whole.step)]
        if self.addresses is not None:
            self.rounds.append((BATCH_S, self.addresses.tick))
            self.addresses.join(
                self.peers,
                lambda *given: frontier.call(lambda state: state.give_pages(*given)),
                on_freed=wake,
                on_recall=recall,
            )

    async def close(self) -> None:
        """The frontier is closed, and no request is under way."""
        if self.addresses is not None:
            with suppress(StoreError):  # the pages of unused turns stay counted
                await self.addresses.close()
        self.peers.close()
