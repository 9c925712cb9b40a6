"""Carries the mail of a hub: sends the rows of its outbox, applies what other hubs send.

Owns how far each other hub is. Does not know what mail means: the frontier applies it (`mailbox`).

- When a session begins, the receiver says which mail it has applied; the sender goes on behind it.
  Letters of a session arrive in order, or the session ends. So each mail is applied once, in order.
- When all that was sent is applied, BATCHES_MAX batches at most are sent. The receiver applies what
  has arrived in one commit, after PAUSE_S at most.
- The sender reads rows from its disk each time it sends them. It deletes those that the receiver
  has called kept, and no others.
- Rows are called kept once the commit that has applied them is synced, or is in a checkpoint, if
  there are checkpoints. So neither a loss of power nor a restored checkpoint undoes what the sender
  relies on. A sender that was set back sends its later mail with numbers that it never used: later
  ones than those that were applied. If they are not, its clock is wrong, and it is refused.

Mail that a receiver never gets was deleted before it was new, or before it was set back without a
checkpoint: it is counted as lost. Rows that cannot be read are logged, and never applied.

Memory: BATCHES_MAX batches for each other hub.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from msgspec import DecodeError

from webcrawl.cluster.letters import (
    ROWS_BYTES_MAX,
    ROWS_MAX,
    Batch,
    MailApplied,
    MailRows,
    read_rows,
    write_rows,
)
from webcrawl.cluster.peers import Letters, Listener, Peers
from webcrawl.cluster.streams import Clock
from webcrawl.frontier.disk.frontier import LocalFrontier
from webcrawl.frontier.mailbox import JUMP, NO_MAIL

logger = logging.getLogger(__name__)

BATCHES_MAX: Final = 4
PAUSE_S: Final = 0.1
KEPT_S: Final = 1.0  # between two syncs of what was applied
_COMMIT_ROWS: Final = 4 * ROWS_MAX  # of one commit, about


@dataclass(eq=False)
class _Way:
    """How far a hub is, in this session.

    sent -- the number of the last mail that was sent
    applied, kept -- as the hub has said
    """

    sent: int
    applied: int
    kept: int = 0


class Courier:
    """Of the hub of `frontier`.

    lost -- mails that other hubs had deleted, and this one never had
    """

    def __init__(
        self,
        peers: Peers,
        frontier: LocalFrontier,
        *,
        is_ours: Callable[[str], bool],
        on_applied: Callable[[], None],
        refuse: Callable[[str], None],
        clock: Clock,
    ) -> None:
        """`is_ours`: whether a canonical host is one of this hub. `on_applied` is told of mail.

        `refuse` is told why this process must end.
        """
        self.lost = 0
        self._is_refused = False
        self._peers = peers
        self._frontier = frontier
        self._is_ours = is_ours
        self._on_applied = on_applied
        self._refuse = refuse
        self._before = dict(frontier.outbox)  # of the runs before
        self._begun: set[int] = set()  # hubs whose first mail of this run has a sound number
        self._clock = clock
        self._ways: dict[int, _Way] = {}
        self._arrived: list[tuple[Batch, int]] = []  # each with its number of rows
        self._ends: dict[int, int] = {}  # by hub: the last mail that has arrived
        self._said: dict[int, MailApplied] = {}  # in this session
        self._deletable: dict[int, int] = {}
        self._checkpoint: Mapping[int, int] | None = None  # its inbox
        self._synced_in: Mapping[int, int] = {}
        self._synced_at = clock()
        letters: Letters = {MailRows: self._take_rows, MailApplied: self._take_applied}
        peers.add(Listener(letters, self._begin, self._end))

    def __repr__(self) -> str:
        return f"<Courier: {self.unapplied} to be applied elsewhere, {len(self._arrived)} here>"

    def set_kept(self, inbox: Mapping[int, int]) -> None:
        """The last checkpoint has `inbox`: what is in it is kept. There are checkpoints."""
        self._checkpoint = dict(inbox)

    @property
    def unapplied(self) -> int:
        """Mail that is not known to be applied by its hub. O(hubs)."""
        total = 0
        for hub, (first, last) in self._frontier.outbox.items():
            way = self._ways.get(hub)
            since = max(way.applied if way is not None else 0, first - 1)
            if last > since:
                total += (last - since) % JUMP or 1  # numbers between two runs were not used
        return total

    async def turn(self) -> None:
        """Once each PAUSE_S."""
        if self._is_refused:
            return
        while self._arrived:
            await self._apply()
        while self._deletable:
            hub, kept = self._deletable.popitem()
            if hub not in self._begun:  # no mail of this run was sent
                kept = min(kept, self._before.get(hub, NO_MAIL)[1])
            await self._frontier.call(lambda state, hub=hub, kept=kept: state.sent(hub, kept))  # type: ignore[misc]
        now = self._clock()
        for hub, way in tuple(self._ways.items()):
            last = self._frontier.outbox.get(hub, NO_MAIL)[1]
            if hub not in self._begun and not await self._begins(hub, way, last):
                continue
            if way.sent == way.applied < last:
                await self._send(hub, way)
        if self._checkpoint is None and now >= self._synced_at + KEPT_S:
            self._synced_at = now
            if self._frontier.inbox != self._synced_in:
                self._synced_in = await self._frontier.sync()
        self._answer()

    # The receiver

    def _begin(self, hub: int) -> None:
        self._said.pop(hub, None)
        self._ends[hub] = self._frontier.inbox.get(hub, 0)
        self._say_applied(hub)

    def _end(self, hub: int) -> None:
        """What has arrived and is not applied is said again."""
        self._ways.pop(hub, None)
        self._arrived = [each for each in self._arrived if each[0][0] != hub]

    def _take_rows(self, hub: int, letter: MailRows) -> None:
        if sum(batch[0] == hub for batch, _ in self._arrived) >= BATCHES_MAX:
            raise DecodeError("more mail than is allowed")
        end = self._ends[hub]
        missing = letter.last - letter.count - end
        if end and 0 < missing < JUMP:  # it has not begun a run since
            self.lost += missing
            logger.error("This hub has lost %d links that hub %d had deleted", missing, hub)
        self._ends[hub] = max(letter.last, end)
        try:
            mail = read_rows(letter, self._is_ours)
        except DecodeError as error:
            logger.error(
                "Hub %d has sent %d mails that cannot be read: %s", hub, letter.count, error
            )
            mail = []
        self._arrived.append(((hub, letter.last, mail), letter.count))

    async def _apply(self) -> None:
        """Apply what has arrived, in one commit."""
        batches: list[Batch] = []
        rows = 0
        while self._arrived and rows < _COMMIT_ROWS:
            batch, count = self._arrived.pop(0)
            batches.append(batch)
            rows += count
        now = self._clock()
        await self._frontier.call(lambda state: state.receive_each(batches, now))
        self._on_applied()
        self._answer()

    def _answer(self) -> None:
        """Say what is applied and kept, where it has changed."""
        for hub in self._frontier.inbox:
            self._say_applied(hub)

    def _say_applied(self, hub: int) -> None:
        applied = self._frontier.inbox.get(hub, 0)
        kept = self._checkpoint if self._checkpoint is not None else self._synced_in
        letter = MailApplied(applied, min(applied, kept.get(hub, 0)))
        if letter != self._said.get(hub) and self._peers.is_connected(hub):
            self._said[hub] = letter
            self._peers.send(hub, letter)

    # The sender

    def _take_applied(self, hub: int, letter: MailApplied) -> None:
        way = self._ways.get(hub)
        if way is None:
            way = self._ways[hub] = _Way(letter.applied, letter.applied)
        elif letter.applied < way.applied:
            raise DecodeError("mail is not applied any more")
        way.applied = letter.applied
        way.sent = max(way.sent, letter.applied)  # in the session before
        if way.kept < letter.kept <= letter.applied:
            way.kept = self._deletable[hub] = letter.kept

    async def _begins(self, hub: int, way: _Way, last: int) -> bool:
        """Whether mail of this run can be sent: the hub would skip what has too low a number."""
        before = self._before.get(hub, NO_MAIL)[1]
        if last == before:
            return True
        first = await self._frontier.call(
            lambda state: state.packed(hub, before, 1, 1), moves=False
        )
        if first.number and first.first <= way.applied:
            self._is_refused = True
            self._refuse(
                f"hub {hub} has later mail of this hub than JOBDIR: JOBDIR is an old copy, and the"
                " clock of this machine was wrong. Set the clock, and copy or restore JOBDIR again"
            )
        elif first.number:
            self._begun.add(hub)
        return hub in self._begun

    async def _send(self, hub: int, way: _Way) -> None:
        """Send as much as the receiver may be sent now."""
        for _ in range(BATCHES_MAX):
            packed = await self._frontier.call(
                lambda state: state.packed(hub, way.sent, ROWS_MAX, ROWS_BYTES_MAX), moves=False
            )
            if not packed.number or self._ways.get(hub) is not way:
                return
            letter = write_rows(packed)
            self._peers.send(hub, letter)
            way.sent = letter.last
