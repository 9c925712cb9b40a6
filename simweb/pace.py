"""The least delay of a host for a crawler whose delay adapts to the host's answers.

Owns this project's rule, from the server's side: so many times the smoothed time to first byte,
doubled at each 429 and 503, halved after ten answers below 500. A crawler measures no less than the
server's own pause, so it must wait at least as long as this says.
"""

from __future__ import annotations

from dataclasses import dataclass

_WEIGHT = 0.25  # of the last answer
_GOOD = 10
_SHORT_S = 0.002  # a timer may be this much early
_SLACK = 1.5  # a crawler that measures more reaches its maximum earlier


@dataclass(slots=True)
class Pace:
    """Of one host. All times are seconds; `pause_s` is that before the first byte."""

    first_byte_s: float | None = None
    robots_s: float = 0.0  # of robots.txt: holds until a page is answered
    doublings: int = 0
    good: int = 0

    def delay_s(self, least_s: float, factor: float, most_s: float) -> float:
        """`least_s`, or more up to `most_s`."""
        time_s = self.robots_s if self.first_byte_s is None else self.first_byte_s
        wait_s = max(least_s, factor * time_s) * 2.0**self.doublings
        return max(least_s, min(wait_s, most_s))

    def robots(self, status: int, pause_s: float) -> None:
        """robots.txt was answered."""
        if 0 < status < 500 and status != 429:
            self.robots_s = max(self.robots_s, pause_s - _SHORT_S)

    def answered(self, status: int, pause_s: float, *, delay_s: float, most_s: float) -> None:
        """Learn from an answer; `delay_s` is the delay before it."""
        if status in (429, 503):
            self.doublings += delay_s * _SLACK < most_s
            self.good = 0
        elif 0 < status < 500:
            pause_s = max(0.0, pause_s - _SHORT_S)
            before_s = pause_s if self.first_byte_s is None else self.first_byte_s
            self.first_byte_s = before_s + _WEIGHT * (pause_s - before_s)
            if self.doublings:
                self.good = (self.good + 1) % _GOOD
                self.doublings -= self.good == 0
