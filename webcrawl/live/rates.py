"""What a crawl did lately: rates, mean times and busy processes, from two samples of its counts.

Plain values in and out; the time is an argument.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from webcrawl.frontier.counters import Counters
from webcrawl.live.machine import ProcessStat
from webcrawl.report.lines import per_second

_SAMPLES: Final = 6  # a reader that asks every second sees the rates of the last five
_OLD_S: Final = 30.0  # older samples are left out: an earlier reader asked for them


class _Sample(NamedTuple):
    """The counts at one moment."""

    elapsed_s: float  # of the crawl, earlier runs included
    pages: int
    size_bytes: int
    ended: Mapping[str, int]  # requests by stage
    took_us: Mapping[str, int]  # by stage
    processes: Mapping[str, ProcessStat]


class Rates:
    """Rates between the newest sample and the oldest of the last _SAMPLES.

    The first sample is compared with the beginning of the crawl; the first after a while without a
    reader is compared with the last one before.
    """

    def __init__(self) -> None:
        self._samples: deque[_Sample] = deque([_Sample(0.0, 0, 0, {}, {}, {})], maxlen=_SAMPLES)

    def add(
        self, counters: Counters, elapsed_s: float, processes: Mapping[str, ProcessStat]
    ) -> None:
        """Take a sample."""
        newest = _Sample(
            *(elapsed_s, counters.crawled, counters.wire_bytes),
            *(dict(counters.stage_ended), dict(counters.stage_us), processes),
        )
        if self._samples[0].elapsed_s == 0.0 and len(self._samples) > 1:
            self._samples.popleft()  # the crawl may be days old
        while len(self._samples) > 1 and newest.elapsed_s - self._samples[0].elapsed_s > _OLD_S:
            self._samples.popleft()
        self._samples.append(newest)

    @property
    def over_s(self) -> float:
        return self._samples[-1].elapsed_s - self._samples[0].elapsed_s

    @property
    def pages_per_s(self) -> float:
        return max(per_second(self._samples[-1].pages - self._samples[0].pages, self.over_s), 0.0)

    @property
    def mbps(self) -> float:
        size_bytes = self._samples[-1].size_bytes - self._samples[0].size_bytes
        return max(per_second(8 * size_bytes / 1e6, self.over_s), 0.0)

    def stage(self, name: str) -> tuple[float, float]:
        """Requests per second, and their mean time in ms: of the whole crawl if none ended lately.

        0.0 if none ever ended.
        """
        before, now = self._samples[0], self._samples[-1]
        ended = now.ended.get(name, 0) - before.ended.get(name, 0)
        took_us = now.took_us.get(name, 0) - before.took_us.get(name, 0)
        if ended:
            return per_second(ended, self.over_s), took_us / ended / 1000
        return 0.0, now.took_us.get(name, 0) / (now.ended.get(name, 0) or 1) / 1000

    @property
    def busy(self) -> dict[str, float]:
        """By process: the part of the time in which its main thread ran, or waited for a processor.

        Empty at the first sample.
        """
        return self._shares(lambda stat: stat.cpu_s + stat.waited_s)

    @property
    def waited(self) -> dict[str, float]:
        """By process: the part of the time in which it only waited for a processor."""
        return self._shares(lambda stat: stat.waited_s)

    def _shares(self, seconds: Callable[[ProcessStat], float]) -> dict[str, float]:
        before, now = self._samples[0].processes, self._samples[-1].processes
        return {
            name: per_second(seconds(stat) - seconds(before[name]), self.over_s)
            for name, stat in now.items()
            if name in before and stat.cpu_s >= before[name].cpu_s  # not a new process
        }
