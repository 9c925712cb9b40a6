"""Steering of all nodes (docs/watching.md): one record has the whole state, by compare-and-set.

Each node looks at it with each heartbeat and carries out what it has not yet. An entry is added
once, however often its command is repeated: the answer to an update may have been lost. `stop` is
no order but an end (`ending`); a target is in `target`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from webcrawl.cluster.agreement.records import ORDERS, OrdersRecord, change, read
from webcrawl.cluster.bus import Bus
from webcrawl.frontier.shared.wire import Orders
from webcrawl.scope import ScopeError
from webcrawl.scope.rules import check_entry
from webcrawl.wording import printable

logger = logging.getLogger(__name__)


class SharedOrders:
    """The orders of all nodes, as this one has last seen them. Memory: the record."""

    def __init__(self, bus: Bus) -> None:
        self.record = OrdersRecord()
        self._bus = bus
        self._usable: dict[tuple[str, str], bool] = {}  # of each entry met, by its command

    def __repr__(self) -> str:
        return f"<SharedOrders {self.record.version}>"

    @property
    def orders(self) -> Orders:
        """For the processes of this node, without entries that cannot be used."""
        allow = tuple(each for each in self.record.allow if self._is_usable("allow", each))
        deny = tuple(each for each in self.record.deny if self._is_usable("deny", each))
        return Orders(self.record.is_paused, allow, deny)

    def _is_usable(self, command: str, entry: str) -> bool:
        usable = self._usable.get((command, entry))
        if usable is None:
            try:
                check_entry(command, entry)
                usable = True
            except ScopeError as error:
                logger.warning("An entry on the bus is not obeyed: %s", printable(str(error)))
                usable = False
            self._usable[command, entry] = usable
        return usable

    async def look(self) -> bool:
        """Read the record; whether it differs from before. BusError.

        A lost one is written again: entries were only ever added, and no older version counts.
        """
        known = self.record
        found = await read(self._bus, ORDERS, OrdersRecord)
        record = found.record if found is not None else OrdersRecord()
        if record.version < known.version:

            def restored(other: OrdersRecord | None) -> OrdersRecord:
                return known if other is None or other.version < known.version else other

            record = await change(self._bus, ORDERS, OrdersRecord, restored) or known
        self.record = record
        return record != known

    async def pause(self, *, is_paused: bool) -> OrdersRecord:
        return await self._change(lambda record: replace(record, is_paused=is_paused))

    async def add(self, allow: Iterable[str] = (), deny: Iterable[str] = ()) -> OrdersRecord:
        allow, deny = tuple(allow), tuple(deny)
        return await self._change(
            lambda record: replace(
                record, allow=_with(record.allow, allow), deny=_with(record.deny, deny)
            )
        )

    async def replace(self, allow: Iterable[str], deny: Iterable[str]) -> OrdersRecord:
        """Have these entries and no others: by the first node of a run (`steering`)."""
        entries = tuple(dict.fromkeys(allow)), tuple(dict.fromkeys(deny))
        return await self._change(lambda record: replace(record, allow=entries[0], deny=entries[1]))

    async def _change(self, edit: Callable[[OrdersRecord], OrdersRecord]) -> OrdersRecord:
        """BusError: the bus cannot be reached, and the change may have been made."""
        known = self.record

        def edited(record: OrdersRecord | None) -> OrdersRecord:
            before = record if record is not None and record.version >= known.version else known
            after = edit(before)
            return before if after == before else replace(after, version=before.version + 1)

        self.record = await change(self._bus, ORDERS, OrdersRecord, edited) or known
        return self.record


def _with(entries: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    return entries + tuple(each for each in dict.fromkeys(more) if each not in entries)
