"""The queue of one host's links on disk. Memory holds the next link.

Does not know politeness, orderings or caps: priorities come from the frontier.
"""

from __future__ import annotations

from collections.abc import Container

from webcrawl.frontier.disk import rows
from webcrawl.frontier.disk.database import Database
from webcrawl.frontier.lease import FIRST_KEPT, Link


class HostQueue:
    """Links of one host, the lowest (priority, number) first: all on disk, the next also in memory.

    length -- queued links, without the popped one
    best -- (priority, number) of the next pop; None if the queue is empty

    `number` is a link's position in the order of arrival over all hosts.

    A popped link stays on disk until it is dropped: if the process dies first, the next run finds
    it queued. One link is out at a time. A pop seeks one row, behind the key of the link popped
    before: deleted rows in front of that key cost nothing.
    """

    __slots__ = ("_db", "_head", "_out", "best", "host_id", "length", "place")

    def __init__(
        self,
        db: Database,
        host_id: int,
        length: int = 0,
        best: tuple[int, int] | None = None,
    ) -> None:
        self._db = db
        self.host_id = host_id
        self.place = b""  # key of the committed WAITING, DEFERRED or ACTIVE row of the host
        self.length = length
        self.best = best
        self._head: Link | None = None  # the link at `best`, once it was read
        self._out: tuple[int, int] | None = None  # place of the popped link

    def stored(self) -> tuple[int, tuple[int, int] | None]:
        """Length and best place on disk, where the popped link is still queued."""
        if self._out is None:
            return self.length, self.best
        return self.length + 1, min(self._out, self.best or self._out)

    def push(self, priority: int, number: int, link: Link) -> None:
        """Add a link. `number` is the highest so far, except for kept links."""
        place = (priority, number)
        self._db.put(rows.queue_key(self.host_id, priority, number), rows.encode(link))
        self.length += 1
        if self.best is None or place < self.best:
            self.best, self._head = place, link

    def peek(self) -> Link:
        """The link of the next pop. There must be one."""
        if self._head is None:
            assert self.best is not None, "the queue is empty"
            row = self._db.get(rows.queue_key(self.host_id, *self.best))
            assert row is not None, f"the row of a link of host {self.host_id} is missing"
            self._head = rows.read_link(row)
        return self._head

    def pop(self) -> tuple[int, Link]:
        """Remove the best link: (priority, link). There must be one."""
        link, place = self.peek(), self.best
        assert place is not None
        self._out, self.best, self._head = place, None, None
        self.length -= 1
        if self.length:
            behind = rows.queue_key(self.host_id, *place)
            found = next(self._db.rows(rows.queue_prefix(self.host_id), behind), None)
            assert found is not None, f"the row of a link of host {self.host_id} is missing"
            key, row = found
            self.best, self._head = rows.queue_place(key), rows.read_link(row)
        return place[0], link

    def put_back(self, link: Link) -> int:
        """Queue the popped link again as `link`, at its old position. Returns its priority."""
        assert self._out is not None
        priority, number = self._out
        self._out = None
        self.push(priority, number, link)
        return priority

    def replace(self, link: Link) -> None:
        """Replace the popped link by `link`, which stays popped."""
        assert self._out is not None
        self._db.put(rows.queue_key(self.host_id, *self._out), rows.encode(link))

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
            link, place = rows.read_link(row), rows.queue_place(key)
            if link.kept in reasons and place != self._out:
                taken.append((place[0], link))
                self._db.delete(key)
        self.length -= len(taken)
        if taken and self.best is not None and self.best[0] >= FIRST_KEPT:
            left = self._db.rows(rows.queue_prefix(self.host_id))
            places = (rows.queue_place(key) for key, _ in left)
            self.best = next((place for place in places if place != self._out), None)
            self._head = None
        return taken

    def promote(self, priority: int, number: int, better: int) -> None:
        """Move the link at (priority, number), queued or popped, to (better, number)."""
        before, after = (priority, number), (better, number)
        key = rows.queue_key(self.host_id, *before)
        row = self._db.get(key)
        assert row is not None, f"the row of a link of host {self.host_id} is missing"
        self._db.delete(key)
        self._db.put(rows.queue_key(self.host_id, *after), row)
        if before == self._out:
            self._out = after
        elif before == self.best:
            self.best = after
        elif self.best is not None and after < self.best:
            self.best, self._head = after, None
