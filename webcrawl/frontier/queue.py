"""The queue of one host: links by priority, first in first out within one priority.

Owns the order of the links of a single host. Knows nothing of clocks or other hosts.

A popped link is no longer queued, but a queue on disk keeps its row until `drop`, so a kill does
not lose it. At most one link is popped at a time, and the queue remembers its position.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import insort
from collections.abc import Container
from heapq import heappop, heappush
from typing import NamedTuple

from webcrawl.frontier.lease import FIRST_KEPT, Link


class Entry(NamedTuple):
    """A link in the queue. `number` is its position in the order of arrival over all hosts."""

    number: int
    link: Link


class Queue(ABC):
    """Links of one host, the lowest (priority, number) first."""

    @abstractmethod
    def __len__(self) -> int:
        """Queued links, without the popped one."""

    @abstractmethod
    def push(self, priority: int, entry: Entry) -> None:
        """Add a link. `entry.number` is the highest so far, except for kept links."""

    @abstractmethod
    def best(self) -> tuple[int, int]:
        """(priority, number) of the next pop. IndexError if empty."""

    @abstractmethod
    def peek(self) -> tuple[int, Entry]:
        """(priority, entry) of the next pop. IndexError if empty."""

    @abstractmethod
    def pop(self) -> tuple[int, Entry]:
        """Remove the best entry: (priority, entry). IndexError if empty."""

    @abstractmethod
    def put_back(self, link: Link) -> int:
        """Queue the popped link again as `link`, at its old position. Returns its priority."""

    def keep(self, link: Link) -> None:  # noqa: B027  (nothing in memory)
        """Replace the popped link by `link`, which stays popped."""

    def drop(self) -> None:  # noqa: B027  (nothing in memory)
        """Forget the popped link: it is done."""

    def take_kept(self, reasons: Container[str]) -> list[tuple[int, Link]]:
        """Remove the links that are kept for one of `reasons`: (priority, link) of each."""
        raise NotImplementedError(f"{self!r} has no kept links of an earlier run")

    def promote(self, priority: int, number: int, better: int) -> None:
        """Move the link at (priority, number), queued or popped, to (better, number)."""
        raise NotImplementedError(f"{self!r} does not move links")


class Fifo:
    """First in first out, on a list with a read position. Lighter than a deque if it is short."""

    __slots__ = ("_items", "_read")

    def __init__(self) -> None:
        self._items: list[Entry | None] = []
        self._read = 0

    def __len__(self) -> int:
        return len(self._items) - self._read

    def push(self, entry: Entry) -> None:
        self._items.append(entry)

    def insert(self, entry: Entry) -> None:
        """Add in the order of the numbers. O(n): moves one pointer per entry behind it."""
        insort(self._items, entry, lo=self._read, key=lambda each: each.number if each else 0)

    def push_front(self, entry: Entry) -> None:
        """O(1) after a pop. Else O(n): only for a link that is put back into a new bucket."""
        if self._read:
            self._read -= 1
            self._items[self._read] = entry
        else:
            self._items.insert(0, entry)

    def peek(self) -> Entry:
        entry = self._items[self._read]
        assert entry is not None
        return entry

    def pop(self) -> Entry:
        entry = self.peek()
        self._items[self._read] = None
        self._read += 1
        if self._read > 32 and self._read * 2 > len(self._items):
            del self._items[: self._read]
            self._read = 0
        return entry


class HostQueue(Queue):
    """In memory, a bucket per priority, for orderings that do not move links.

    Push and pop are O(1) amortised for a priority already present, else O(log k) for the k distinct
    priorities of the host (at most 10 for `level`). Memory: two pointers and a small integer per
    link, beside the link itself.
    """

    __slots__ = ("_buckets", "_length", "_out", "_priorities")

    def __init__(self) -> None:
        self._buckets: dict[int, Fifo] = {}
        self._priorities: list[int] = []  # heap of the keys of _buckets
        self._length = 0
        self._out = (0, 0)  # (priority, number) of the popped link

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        inside = ", ".join(f"{p}: {len(self._buckets[p])}" for p in sorted(self._buckets))
        return f"<HostQueue {{{inside}}}>"

    def push(self, priority: int, entry: Entry) -> None:
        if priority < FIRST_KEPT:
            self._bucket(priority).push(entry)
        else:
            self._bucket(priority).insert(entry)
        self._length += 1

    def best(self) -> tuple[int, int]:
        priority, entry = self.peek()
        return priority, entry.number

    def peek(self) -> tuple[int, Entry]:
        priority = self._priorities[0]
        return priority, self._buckets[priority].peek()

    def pop(self) -> tuple[int, Entry]:
        priority = self._priorities[0]
        bucket = self._buckets[priority]
        entry = bucket.pop()
        if not bucket:
            heappop(self._priorities)
            del self._buckets[priority]
        self._length -= 1
        self._out = priority, entry.number
        return priority, entry

    def put_back(self, link: Link) -> int:
        priority, number = self._out
        self._bucket(priority).push_front(Entry(number, link))
        self._length += 1
        return priority

    def _bucket(self, priority: int) -> Fifo:
        bucket = self._buckets.get(priority)
        if bucket is None:
            bucket = self._buckets[priority] = Fifo()
            heappush(self._priorities, priority)
        return bucket


class HeapQueue(Queue):
    """In memory, one heap, for orderings that move links while they wait.

    All moves are O(log n) for n entries: the links of the host, and stale entries, which `promote`
    leaves behind and which are skipped at the head. Memory: about 200 bytes per link, beside the
    link itself.
    """

    __slots__ = ("_heap", "_links", "_out")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int]] = []  # (priority, number)
        self._links: dict[int, tuple[int, Link]] = {}  # by number: (priority, link)
        self._out = (0, 0)  # (priority, number) of the popped link

    def __len__(self) -> int:
        return len(self._links)

    def push(self, priority: int, entry: Entry) -> None:
        self._links[entry.number] = priority, entry.link
        heappush(self._heap, (priority, entry.number))

    def best(self) -> tuple[int, int]:
        heap, links = self._heap, self._links
        while True:
            priority, number = heap[0]
            if number in links and links[number][0] == priority:
                return priority, number
            heappop(heap)

    def peek(self) -> tuple[int, Entry]:
        priority, number = self.best()
        return priority, Entry(number, self._links[number][1])

    def pop(self) -> tuple[int, Entry]:
        popped = self.peek()
        self._out = heappop(self._heap)
        del self._links[self._out[1]]
        return popped

    def put_back(self, link: Link) -> int:
        priority, number = self._out
        self.push(priority, Entry(number, link))
        return priority

    def promote(self, priority: int, number: int, better: int) -> None:
        if number in self._links:
            self.push(better, Entry(number, self._links[number][1]))
        else:
            self._out = better, number
