"""Carries the mail of a hub: sends the rows of its outbox, applies what other hubs send.

Owns how far each other hub is. Does not know what mail means: the frontier applies it (`mailbox`).

- When a session begins, the receiver says which mail it has applied; the sender goes on behind it.
  Letters of a session arrive in order, or the session ends. So each mail is applied once, in order.
- At most BATCHES_MAX batches are unanswered. The receiver applies what has arrived in one commit,
  after PAUSE_S at most. Fewer rows than a batch wait for LINGER_S.
- The sender reads rows from its disk each time it sends them. It deletes those that the receiver
  has called kept, and no others.
- Rows are sent once they are synced, and are called kept once the commit that has applied them is
  synced, or is in a checkpoint, if there are checkpoints. So neither a loss of power nor a restored
  checkpoint undoes what the other hub relies on.
- A sender whose last row is before one that the receiver has applied is an old copy: it is refused.

Mail that a receiver never gets was deleted before it was new, or before it was set back without a
checkpoint: it is counted as lost. Rows that cannot be read are logged, and never applied.

Memory: BATCHES_MAX batches for each other hub.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec import DecodeError

from webcrawl.cluster.letters import (
    NO_ROWS,
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
from webcrawl.frontier.mailbox import JUMP

logger = logging.getLogger(__name__)

BATCHES_MAX: Final = 4
PAUSE_S: Final = 0.1
LINGER_S: Final = 0.2
KEPT_S: Final = 1.0  # between two syncs of what was applied
_LOST_MAX: Final = JUMP // 2  # a larger gap is that of a sender that was set back
_COMMIT_ROWS: Final = 4 * ROWS_MAX  # of one commit, about


@dataclass(eq=False)
class _Way:
    """How far a hub is, in this session.

    sent -- the number of the last mail that was sent
    ends -- the last mail of each unanswered batch
    applied, kept -- as the hub has said
    waits_since -- when mail that is not sent was first seen; 0.0: there is none
    """

    sent: int
    applied: int
    kept: int = 0
    ends: deque[int] = field(default_factory=deque)
    waits_since: float = 0.0


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
        mail_after: int = 0,
    ) -> None:
        """`is_ours`: whether a canonical host is one of this hub. `on_applied`: mail was applied.

        `refuse` is told why this process must end. `mail_after`: as `frontier` was told.
        """
        self.lost = 0
        self._is_refused = False  # what it applied would be lost to the newest JOBDIR
        self._peers = peers
        self._frontier = frontier
        self._is_ours = is_ours
        self._on_applied = on_applied
        self._refuse = refuse
        self._clock = clock
        self._none = (mail_after + 1, mail_after)  # numbers of an empty outbox
        self._ways: dict[int, _Way] = {}
        self._arrived: list[tuple[Batch, int]] = []  # each with its number of rows
        self._ends: dict[int, int] = {}  # by hub: the last mail that has arrived
        self._said: dict[int, MailApplied] = {}  # in this session
        self._deletable: dict[int, int] = {}
        self._checkpoint: Mapping[int, int] | None = None  # its inbox
        self._synced_out: Mapping[int, tuple[int, int]] = {}
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
            total += last - max(way.applied if way is not None else 0, first - 1)
        return total

    async def turn(self) -> None:
        """Once each PAUSE_S."""
        if self._is_refused:
            return
        while self._arrived:
            await self._apply()
        while self._deletable:
            hub, kept = self._deletable.popitem()
            await self._frontier.call(lambda state, hub=hub, kept=kept: state.sent(hub, kept))  # type: ignore[misc]
        now = self._clock()
        for hub, way in tuple(self._ways.items()):
            if self._is_due(hub, way, now):
                await self._send(hub, way)
        if self._checkpoint is None and now >= self._synced_at + KEPT_S:
            if self._frontier.inbox != self._synced_in:
                await self._sync()
            self._synced_at = now
        self._answer()

    # The receiver

    def _begin(self, hub: int, was_lost: bool) -> None:
        self._said.pop(hub, None)
        self._ends[hub] = self._frontier.inbox.get(hub, 0)
        self._say_applied(hub)

    def _end(self, hub: int) -> None:
        """What has arrived and is not applied is said again."""
        self._ways.pop(hub, None)
        self._arrived = [each for each in self._arrived if each[0][0] != hub]

    def _take_rows(self, hub: int, letter: MailRows) -> None:
        if self._is_refused:
            return
        if sum(batch[0] == hub for batch, _ in self._arrived) >= BATCHES_MAX:
            raise DecodeError("more mail than is allowed")
        end = self._ends[hub]
        missing = letter.last - letter.count - end
        if end and 0 < missing < _LOST_MAX:
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
        first, last = self._frontier.outbox.get(hub, self._none)
        way = self._ways.get(hub)
        if letter.applied > last:
            self._is_refused = True
            self._refuse(
                f"hub {hub} has mail of this hub that JOBDIR does not have: JOBDIR is an old copy."
                " Use the newest one; without it, mark this one: scrapy hub restore JOBDIR"
            )
            return
        if way is None:
            way = self._ways[hub] = _Way(max(letter.applied, first - 1), letter.applied)
        elif letter.applied < way.applied:
            raise DecodeError("mail is not applied any more")
        way.applied = letter.applied
        way.sent = max(way.sent, letter.applied)  # in the session before
        while way.ends and way.ends[0] <= way.applied:
            way.ends.popleft()
        if way.kept < letter.kept <= letter.applied:
            way.kept = self._deletable[hub] = letter.kept

    def _last(self, hub: int) -> int:
        """The number of the last mail for `hub` that was ever written."""
        return self._frontier.outbox.get(hub, self._none)[1]

    def _is_due(self, hub: int, way: _Way, now: float) -> bool:
        unsent = self._last(hub) - way.sent
        if unsent <= 0:
            way.waits_since = 0.0
            return False
        way.waits_since = way.waits_since or now
        has_waited = unsent >= ROWS_MAX or now >= way.waits_since + LINGER_S
        return has_waited and len(way.ends) < BATCHES_MAX

    async def _send(self, hub: int, way: _Way) -> None:
        """Send as much as the receiver may be sent now."""
        way.waits_since = 0.0
        while len(way.ends) < BATCHES_MAX and way.sent < self._last(hub):
            synced = self._synced_out.get(hub, (1, 0))[1]
            packed = await self._frontier.call(
                lambda state: state.packed(hub, way.sent, ROWS_MAX, ROWS_BYTES_MAX), moves=False
            )
            letter = write_rows(packed) if packed.number else MailRows(synced, 0, NO_ROWS)
            if letter.last > synced or letter.last <= way.sent:
                await self._sync()
            if self._ways.get(hub) is not way or letter.last <= way.sent:
                return
            self._peers.send(hub, letter)
            way.sent = letter.last
            way.ends.append(letter.last)

    async def _sync(self) -> None:
        self._synced_out, self._synced_in = await self._frontier.sync()
        self._synced_at = self._clock()
