"""How fast a host answers, and whether it has asked for less: the state of the adaptive delay.

Owns what is learnt from each answer. `politeness` makes a delay of it. Pure, no clock.

The time to first byte is smoothed as TCP smooths its round trips (RFC 6298, 2): the last four
answers count for two thirds. An answer 429 or 503 doubles the delay, and does not count as a time:
a server refuses quickly. Ten good answers (below 500, but not 429) halve the delay again.

robots.txt is often a file where pages are computed. So its time counts only until the first page is
answered, and its answer is none of the ten.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Self

SLOW_DOWN: Final = frozenset({429, 503})  # RFC 6585, 4; RFC 9110, 15.6.4
GOOD_ANSWERS: Final = 10  # after which the delay is halved
DOUBLINGS_MAX: Final = 16
_WEIGHT: Final = 0.25  # of the last answer


class Pace(NamedTuple):
    """Of one host. On disk 9 bytes of its row, in memory 100 bytes; nothing before an answer."""

    first_byte_us: int = 0  # smoothed, microseconds; 0: no answer yet; below 0: of robots.txt
    doublings: int = 0  # of the delay
    good: int = 0  # good answers since the last change of `doublings`

    @property
    def first_byte_s(self) -> float:
        return abs(self.first_byte_us) / 1e6

    def after(
        self, status: int, first_byte_s: float, *, may_double: bool, is_robots: bool = False
    ) -> Self:
        """The pace after an answer. `first_byte_s` 0.0: not known, as of an answer from a cache.

        `may_double`: the delay is not yet at its maximum. Beyond it a doubling would only have to
        be halved again.
        """
        if status in SLOW_DOWN:
            doublings = min(self.doublings + may_double, DOUBLINGS_MAX)
            return self._replace(doublings=doublings, good=0)
        if status >= 500:
            return self
        measured_us = max(1, round(first_byte_s * 1e6)) if first_byte_s > 0 else 0
        smoothed_us = self.first_byte_us
        if is_robots:
            known = smoothed_us > 0
            return self if known else self._replace(first_byte_us=min(smoothed_us, -measured_us))
        if measured_us and smoothed_us > 0:
            smoothed_us += round(_WEIGHT * (measured_us - smoothed_us))
        elif measured_us:
            smoothed_us = measured_us
        if not self.doublings:
            return self._replace(first_byte_us=smoothed_us)
        good = (self.good + 1) % GOOD_ANSWERS
        return self._replace(
            first_byte_us=smoothed_us, doublings=self.doublings - (good == 0), good=good
        )


NO_PACE: Final = Pace()
