"""What the hubs of one crawl are to each other: the interface, and the messages.

A `Mesh` has one session at a time with each other hub (`cluster.peers`). A session is never
resumed: what was on its way when it ended may or may not have arrived. So whoever uses the mesh
says again at the begin of the next session what the other hub must know.

Messages ("letters") are structs of plain values. Each is tested by its type when it arrives; its
receiver tests what it means before it keeps or obeys it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from msgspec import Struct


class Letter(Struct, frozen=True, array_like=True, gc=False, tag=True):
    """An array that begins with the name of its class. Each user of the mesh has its own kinds."""


Kind = TypeVar("Kind", bound=Letter)


class Mesh(Protocol):
    """The sessions of hub `number` with the other ones of `hubs` hubs: 0 to `hubs` - 1.

    All calls and callbacks are in the thread of the event loop. A callback is called in the order
    in which it was added, and must not raise for what another hub has sent.
    """

    number: int
    hubs: int

    @property
    def serves(self) -> bool:
        """Whether this hub may serve now: it owns its record, and its pause is over."""

    def is_connected(self, hub: int) -> bool:
        """Whether there is a session with `hub`."""

    def send(self, hub: int, letter: Letter) -> None:
        """Send in order. Never waits; without a session the letter is lost."""

    def on_letter(self, kind: type[Kind], handle: Callable[[int, Kind], None]) -> None:
        """Call `handle` with the number of a hub and each letter of `kind` from it."""

    def on_begin(self, handle: Callable[[int, bool], None]) -> None:
        """Call `handle` with the number of a hub and whether it had called this one lost.

        A session begins. In the second case requests at addresses and places that this hub had from
        the other one are not its own any more.
        """

    def on_end(self, handle: Callable[[int], None]) -> None:
        """Call `handle` with the number of a hub whose session has ended.

        The other hub may call this one lost as soon as SILENCE_S and the longest fetch are over:
        what is not sent by then is not this hub's to send.
        """

    def on_lost(self, handle: Callable[[int], None]) -> None:
        """Call `handle` with the number of a hub that is lost.

        Its session has been away for so long that all which its fetchers had under way has ended.
        Called once for each loss, and after each start for a hub that has never come.
        """
