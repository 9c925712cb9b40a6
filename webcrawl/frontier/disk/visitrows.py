"""The rows of pages that are visited again (RECRAWL), in the order of their time.

A page between two visits has one VISIT row. Its key begins with its time, so the pages that are due
are read in order; the page's status has that time too, which finds the row of a URL. While a page
is queued or leased, its QUEUE row has the state instead.

Memory: the next rows that are due (`RowLine`). Times are monotonic seconds.
"""

from __future__ import annotations

from math import ceil, inf

from msgspec.structs import replace

from webcrawl.frontier.disk import rows
from webcrawl.frontier.disk.database import Database
from webcrawl.frontier.disk.rowline import RowLine
from webcrawl.frontier.disk.seenrows import SeenRows


class VisitRows:
    """The pages between two visits."""

    def __init__(self, db: Database, seen: SeenRows, utc_s: float) -> None:
        """`utc_s` turns monotonic times into UTC."""
        self._db = db
        self._seen = seen
        self._utc_s = utc_s
        self._line = RowLine(db, rows.VISIT)

    def next_due_at(self) -> float:
        """When the next page is due; inf if there is none."""
        first = self._line.first()
        return rows.visit_time(first[0]) / 1000 - self._utc_s if first is not None else inf

    def take_due(self, now: float, limit: int) -> list[tuple[str, bytes]]:
        """Remove up to `limit` pages that are due: (URL, row of its state), in order."""
        taken: list[tuple[str, bytes]] = []
        while len(taken) < limit and self.next_due_at() <= now:
            row = self._line.pop()
            assert row is not None
            taken.append(rows.read_visit(row[1]))
        return taken

    def add(self, url: str, at: float, state: bytes) -> None:
        """The page is due at `at`. Its status, which is kept before, gets the time."""
        at_ms = max(ceil((at + self._utc_s) * 1000), 1)
        key = rows.visit_key(at_ms, self._seen.fingerprint(url))
        self._line.add(key, rows.encode((url, state)))
        self.set_due(url, at_ms)

    def find(self, url: str) -> tuple[float, bytes] | None:
        """(when it is due, row of its state); None if the page is not between two visits."""
        status = self._seen.status(url)
        if status is None or not status.visit_ms:
            return None
        row = self._db.get(rows.visit_key(status.visit_ms, self._seen.fingerprint(url)))
        if row is None or rows.read_visit(row)[0] != url:  # it is queued, or was moved to a slot
            return None
        return status.visit_ms / 1000 - self._utc_s, rows.read_visit(row)[1]

    def remove(self, url: str, at: float) -> None:
        """Remove the row that `find` has found, of a page that is queued or added again."""
        at_ms = round((at + self._utc_s) * 1000)
        self._line.remove(rows.visit_key(at_ms, self._seen.fingerprint(url)))

    def set_due(self, url: str, at_ms: int) -> None:
        """Keep when the page is visited again, UTC; 0: it is not."""
        status = self._seen.status(url)
        if status is not None and status.visit_ms != at_ms:
            self._seen.keep(url, rows.encode(replace(status, visit_ms=at_ms)))
