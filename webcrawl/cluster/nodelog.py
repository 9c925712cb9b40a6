"""The crawl logs of a node's shards as one, for those who watch it: the last lines of all."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from webcrawl.crawllog.files import RECENT, CrawlLog
from webcrawl.frontier.disk.frontier import LocalFrontier


class NodeLog:
    """The last RECENT lines, in about the order of their turns. Nothing is done until it is asked.

    Memory: RECENT lines.
    """

    def __init__(self, shards: Callable[[], Mapping[int, LocalFrontier]]) -> None:
        self._shards = shards
        self._taken: dict[int, tuple[CrawlLog, int]] = {}  # by shard: its log, lines taken of it
        self._number = 0
        self._recent: deque[bytes] = deque(maxlen=RECENT)

    @property
    def last_number(self) -> int:
        """Lines of this run, of all shards that this node had when it was asked."""
        self._take()
        return self._number

    def recent(self) -> list[bytes]:
        self._take()
        return list(self._recent)

    def _take(self) -> None:
        """Take the new lines of all shards. O(shards + new lines)."""
        new: list[bytes] = []
        for shard, frontier in self._shards().items():
            log = frontier.log
            if log is None:
                continue
            known, taken = self._taken.get(shard, (log, 0))
            if known is not log:  # the shard was elsewhere
                taken = 0
            # Its thread may write meanwhile: what is written after this number comes next time.
            number, lines = log.last_number, log.recent()
            self._taken[shard] = (log, number)
            self._number += number - taken
            if number > taken:
                new += lines[-(number - taken) :]
        self._recent.extend(sorted(new))  # a line begins with its time
