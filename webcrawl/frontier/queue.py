"""The queue of one host: links in buckets by priority, first in first out within a bucket.

Owns the order of the links of a single host. Knows nothing of clocks or other hosts.
Push and pop are O(1) amortised for a priority already present and O(log k) for the k distinct
priorities of the host (at most 10 for `level`). Memory: two pointers and a small integer a link
beside the link itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from heapq import heappop, heappush
from typing import NamedTuple

from webcrawl.frontier.lease import Link


class Entry(NamedTuple):
    """A link in the queue. `number` is its place in the order of arrival over all hosts."""

    number: int
    link: Link


class Queue(ABC):
    """Links of one host, the lowest priority number first.

    A link that was popped is out of line but not gone: a store that lasts has it until `drop`.
    """

    @abstractmethod
    def __len__(self) -> int:
        """Links in line."""

    @abstractmethod
    def push(self, priority: int, entry: Entry) -> None:
        """Add to the end of the line of `priority`; `entry.number` is the highest so far."""

    @abstractmethod
    def push_front(self, priority: int, entry: Entry) -> None:
        """Put what was popped last back to where it was."""

    @abstractmethod
    def best(self) -> tuple[int, int]:
        """Priority and number of what `peek` shows. IndexError when empty."""

    @abstractmethod
    def peek(self) -> tuple[int, Entry]:
        """(priority, entry) of the next pop. IndexError when empty."""

    @abstractmethod
    def pop(self) -> tuple[int, Entry]:
        """Take out of line and return what `peek` shows. IndexError when empty."""

    def keep(self, priority: int, entry: Entry) -> None:  # noqa: B027  (nothing in memory)
        """What was popped last has changed."""

    def drop(self, priority: int, number: int) -> None:  # noqa: B027  (nothing in memory)
        """What was popped last is done."""


class Fifo:
    """First in first out on a list with a read mark: lighter than a deque for short queues."""

    __slots__ = ("_items", "_read")

    def __init__(self) -> None:
        self._items: list[Entry | None] = []
        self._read = 0

    def __len__(self) -> int:
        return len(self._items) - self._read

    def push(self, entry: Entry) -> None:
        self._items.append(entry)

    def push_front(self, entry: Entry) -> None:
        """O(1) after a pop; O(n) else, which only a returned lease on a fresh bucket meets."""
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
    """In memory."""

    __slots__ = ("_buckets", "_length", "_priorities")

    def __init__(self) -> None:
        self._buckets: dict[int, Fifo] = {}
        self._priorities: list[int] = []  # heap of the keys of _buckets
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        inside = ", ".join(f"{p}: {len(self._buckets[p])}" for p in sorted(self._buckets))
        return f"<HostQueue {{{inside}}}>"

    def push(self, priority: int, entry: Entry) -> None:
        self._bucket(priority).push(entry)
        self._length += 1

    def push_front(self, priority: int, entry: Entry) -> None:
        self._bucket(priority).push_front(entry)
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
        return priority, entry

    def _bucket(self, priority: int) -> Fifo:
        bucket = self._buckets.get(priority)
        if bucket is None:
            bucket = self._buckets[priority] = Fifo()
            heappush(self._priorities, priority)
        return bucket
