"""A line of rows on disk, in the order of their keys, whose first rows are also in memory.

For lines that lose rows at their front: to search there again would pass each deleted row.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from itertools import chain
from typing import Final

from webcrawl.frontier.disk.database import Database

_ROW_BYTES: Final = 150  # of a row in memory, beside its key and value
HEAD_BYTES: Final = 128 << 10  # of the rows in memory; cut back to it at twice as many

Row = tuple[bytes, bytes]


class RowLine:
    """The rows whose keys begin with `prefix`. Only this object adds and removes them.

    length -- their number, if that of the rows on disk was given
    Invariant: `_head` has all rows up to the key `_known_to`, also those not committed yet.
    """

    def __init__(self, db: Database, prefix: bytes, length: int = 0) -> None:
        self._db = db
        self._prefix = prefix
        self.length = length
        self._end = prefix + b"\xff"
        self._head: list[Row] = []
        self._head_bytes = 0
        self._known_to = prefix

    def first(self) -> Row | None:
        """The first row, None if there is no row."""
        if not self._head and self._known_to < self._end:
            self._fill()
        return self._head[0] if self._head else None

    def pop(self) -> Row | None:
        """Remove the first row, and return it; None if there is no row."""
        row = self.first()
        if row is not None:
            self._db.delete(row[0])
            self.length -= 1
            del self._head[0]
            self._head_bytes -= _size(row)
        return row

    def add(self, key: bytes, value: bytes) -> None:
        """Add a row. O(rows in memory), as `pop` and `remove`."""
        self._db.put(key, value)
        self.length += 1
        if key <= self._known_to:
            row = key, value
            insort(self._head, row)
            self._head_bytes += _size(row)
            if self._head_bytes > 2 * HEAD_BYTES:
                self._cut()

    def remove(self, key: bytes) -> None:
        """Remove the row with `key`."""
        self._db.delete(key)
        self.length -= 1
        at = bisect_left(self._head, (key, b""))
        if at < len(self._head) and self._head[at][0] == key:
            self._head_bytes -= _size(self._head.pop(at))

    def rows(self, after: bytes) -> Iterator[Row]:
        """The rows behind the key `after`, in order. Those that are not in memory: if committed."""
        self.first()
        at = bisect_left(self._head, (after + b"\0", b""))
        rest = self._db.rows(self._prefix, max(after, self._known_to))
        return chain(self._head[at:], rest if self._known_to < self._end else ())

    def _fill(self) -> None:
        """Read more rows into the head, which is empty."""
        after, self._known_to = self._known_to, self._end
        for row in self._db.rows(self._prefix, after):
            self._head.append(row)
            self._head_bytes += _size(row)
            if self._head_bytes >= HEAD_BYTES:
                self._known_to = row[0]
                break
        known = {key for key, _ in self._head}
        for row in self._db.added(self._prefix):  # since the last commit
            if after < row[0] <= self._known_to and row[0] not in known:
                insort(self._head, row)
                self._head_bytes += _size(row)

    def _cut(self) -> None:
        """Leave the last rows of the head to the disk."""
        while self._head_bytes > HEAD_BYTES and len(self._head) > 1:
            self._head_bytes -= _size(self._head.pop())
        self._known_to = self._head[-1][0]


def _size(row: Row) -> int:
    return len(row[0]) + len(row[1]) + _ROW_BYTES
