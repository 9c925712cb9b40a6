"""The queue of one host's links on disk, and the lines of hosts that wait on disk.

Memory holds the next link of a queue, and the first hosts of a line. Does not know politeness,
orderings or caps: priorities and ranks come from the frontier.
"""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

from webcrawl.frontier.disk import rows
from webcrawl.frontier.disk.database import Database
from webcrawl.frontier.disk.rowline import RowLine
from webcrawl.frontier.lease import FIRST_KEPT, Link


class Entry(NamedTuple):
    """A link in the queue. `number` is its position in the order of arrival over all hosts."""

    number: int
    link: Link


class HostQueue:
    """Links of one host, the lowest (priority, number) first: all on disk, the next also in memory.

    A popped link stays on disk until it is dropped: if the process dies first, the next run finds
    it queued. One link is out at a time. A pop seeks one row, behind the key of the link popped
    before: deleted rows in front of that key cost nothing.
    """

    __slots__ = ("_best", "_db", "_head", "_host", "_length", "_out", "host_id", "place")

    def __init__(
        self,
        db: Database,
        host: str,
        host_id: int,
        length: int = 0,
        best: tuple[int, int] | None = None,
    ) -> None:
        self._db = db
        self._host = host
        self.host_id = host_id
        self.place = b""  # key of the committed WAITING, DEFERRED or ACTIVE row of the host
        self._length = length
        self._best = best  # (priority, number)
        self._head: tuple[int, Entry] | None = None  # the link at `_best`, once it was read
        self._out: tuple[int, int] | None = None  # place of the popped link

    def __len__(self) -> int:
        """Queued links, without the popped one."""
        return self._length

    def stored(self) -> tuple[int, tuple[int, int] | None]:
        """Length and best place on disk, where the popped link is still queued."""
        if self._out is None:
            return self._length, self._best
        return self._length + 1, min(self._out, self._best or self._out)

    def push(self, priority: int, entry: Entry) -> None:
        """Add a link. `entry.number` is the highest so far, except for kept links."""
        place = (priority, entry.number)
        self._db.put(rows.queue_key(self.host_id, *place), rows.link_row(entry.link))
        self._length += 1
        if self._best is None or place < self._best:
            self._best, self._head = place, (priority, entry)

    def best(self) -> tuple[int, int]:
        """(priority, number) of the next pop. IndexError if empty."""
        if self._best is None:
            raise IndexError("the queue is empty")
        return self._best

    def peek(self) -> tuple[int, Entry]:
        """(priority, entry) of the next pop. IndexError if empty."""
        if self._head is not None:
            return self._head
        priority, number = self.best()
        row = self._db.get(rows.queue_key(self.host_id, priority, number))
        assert row is not None, f"the row of a link of {self._host} is missing"
        self._head = priority, Entry(number, rows.read_link(row, self._host))
        return self._head

    def pop(self) -> tuple[int, Entry]:
        """Remove the best entry: (priority, entry). IndexError if empty."""
        popped = self.peek()
        self._out, self._best, self._head = self._best, None, None
        self._length -= 1
        if self._length:
            priority, (number, _) = popped
            behind = rows.queue_key(self.host_id, priority, number)
            found = next(self._db.rows(rows.queue_prefix(self.host_id), behind), None)
            assert found is not None, f"the row of a link of {self._host} is missing"
            key, row = found
            priority, number = self._best = rows.queue_place(key)
            self._head = priority, Entry(number, rows.read_link(row, self._host))
        return popped

    def put_back(self, link: Link) -> int:
        """Queue the popped link again as `link`, at its old position. Returns its priority."""
        assert self._out is not None
        priority, number = self._out
        self._out = None
        self.push(priority, Entry(number, link))
        return priority

    def keep(self, link: Link) -> None:
        """Replace the popped link by `link`, which stays popped."""
        assert self._out is not None
        self._db.put(rows.queue_key(self.host_id, *self._out), rows.link_row(link))

    def drop(self) -> None:
        """Forget the popped link: it is done."""
        assert self._out is not None
        self._db.delete(rows.queue_key(self.host_id, *self._out))
        self._out = None

    def take_kept(self, reasons: Container[str]) -> list[tuple[int, Link]]:
        """Remove and return the links that are kept for one of `reasons`, with their priorities.

        Finds only links that were queued at the last commit. O(kept links of the host).
        """
        taken = []
        first_kept = rows.queue_key(self.host_id, FIRST_KEPT - 1, 0)
        for key, row in self._db.rows(rows.queue_prefix(self.host_id), first_kept):
            link, place = rows.read_link(row, self._host), rows.queue_place(key)
            if link.kept in reasons and place != self._out:
                taken.append((place[0], link))
                self._db.delete(key)
        self._length -= len(taken)
        if taken and self._best is not None and self._best[0] >= FIRST_KEPT:
            left = self._db.rows(rows.queue_prefix(self.host_id))
            places = (rows.queue_place(key) for key, _ in left)
            self._best = next((place for place in places if place != self._out), None)
            self._head = None
        return taken

    def promote(self, priority: int, number: int, better: int) -> None:
        """Move the link at (priority, number), queued or popped, to (better, number)."""
        before, after = (priority, number), (better, number)
        key = rows.queue_key(self.host_id, *before)
        row = self._db.get(key)
        assert row is not None, f"the row of a link of {self._host} is missing"
        self._db.delete(key)
        self._db.put(rows.queue_key(self.host_id, *after), row)
        if before == self._out:
            self._out = after
        elif before == self._best:
            self._best, self._head = after, self._head and (better, self._head[1])
        elif self._best is not None and after < self._best:
            self._best, self._head = after, None


class HostLine:
    """Hosts in the order of their keys: see `RowLine`. `length`: their number.

    The keys begin with `prefix`: rows.WAITING for a place among the active hosts, rows.DEFERRED for
    a point in time.
    """

    def __init__(self, db: Database, prefix: bytes, length: int = 0) -> None:
        """`length`: the number of hosts on disk."""
        self.length = length
        self._rows = RowLine(db, prefix)

    def first(self) -> bytes | None:
        """Key of the first host, None if there is no host."""
        row = self._rows.first() if self.length else None
        return row[0] if row is not None else None

    def take(self) -> str | None:
        """Remove the first host; its name, None if there is no host."""
        row = self._rows.take() if self.length else None
        if row is None:
            return None
        self.length -= 1
        return row[1].decode()

    def add(self, key: bytes, host: str) -> None:
        self.length += 1
        self._rows.add(key, host.encode())

    def remove(self, key: bytes) -> None:
        self.length -= 1
        self._rows.remove(key)
