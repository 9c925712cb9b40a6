"""When a host may be asked again.

Owns the arithmetic of politeness, and what each answer teaches for the adaptive delay (`Pace`): no
queues, no clock of its own (`now` and `*_at` are monotonic seconds, passed in).

The delay runs from request to request *as the server sees them*. A request leaves us before the
server reads it, by an unknown time; the first byte of its answer arrives after the server has
read it. So counting from the first byte of one answer to the sending of the next request can
never be early at the server, whatever its queue or the network did in between. Where no answer
came, the count begins at the end of the attempt.

For the adaptive delay the time to first byte is smoothed as TCP smooths its round trips (RFC 6298,
2): the last four answers count for two thirds. An answer 429 or 503 doubles the delay, and does not
count as a time: a server refuses quickly. Ten good answers (below 500, but not 429) halve the delay
again. robots.txt is often a file where pages are computed. So its time counts only until the first
page is answered, and its answer is none of the ten.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, Self

_DOUBLED_MIN_S: Final = 0.1  # a shorter delay is doubled as if it were so long
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


@dataclass(slots=True, frozen=True)
class Politeness:
    """The delays in force. All are seconds.

    delay_s -- between two requests to one host (DOWNLOAD_DELAY)
    ip_delay_s -- between two requests to one IP address (IP_DELAY); 0 switches IP clocks off
    crawl_delay_max_s -- a robots.txt Crawl-delay counts up to here, and so does the delay by
        `delay_factor` and doublings (CRAWL_DELAY_MAX)
    backoff_min_s, backoff_max_s -- bounds of the wait after a failure
    retry_after_max_s -- a Retry-After beyond it is not waited for: that answer is final
    deferral_min_s, deferral_max_s -- bounds of the wait of a URL kept after its last retry
    delay_factor -- times the time to first byte of a host is its delay (DELAY_FACTOR); 0: off
    """

    delay_s: float = 30.0
    ip_delay_s: float = 1.0
    crawl_delay_max_s: float = 300.0
    backoff_min_s: float = 1.0
    backoff_max_s: float = 300.0
    retry_after_max_s: float = 120.0
    deferral_min_s: float = 15.0
    deferral_max_s: float = 6 * 3600.0
    delay_factor: float = 0.0

    def host_delay_s(self, crawl_delay_s: float, ruled_s: float | None = None) -> float:
        """The delay of a host whose robots.txt asks for `crawl_delay_s` (0: asks for none).

        `ruled_s`: the delay that a rule sets for the host (RULES).
        """
        delay_s = self.delay_s if ruled_s is None else ruled_s
        if crawl_delay_s <= delay_s:
            return delay_s
        return max(delay_s, min(crawl_delay_s, self.crawl_delay_max_s))

    def adapted_s(self, least_s: float, pace: Pace) -> float:
        """The delay of a host with `pace`: `least_s` or more.

        The adaptive part is never above `crawl_delay_max_s`: a slow server, or one that only says
        503, still gets a request from time to time.
        """
        wait_s = max(least_s, self.delay_factor * pace.first_byte_s)
        if pace.doublings:
            wait_s = max(wait_s, _DOUBLED_MIN_S) * 2.0**pace.doublings
        return max(least_s, min(wait_s, self.crawl_delay_max_s))

    def next_at(self, delay_s: float, asked_at: float, ended_at: float) -> float:
        """When the next request may leave. `asked_at` 0: the server saw nothing, so no wait."""
        return max(asked_at + delay_s, ended_at) if asked_at else ended_at

    def backoff_s(self, failures: int, delay_s: float) -> float:
        """Wait after `failures` in a row (>= 1): doubles from the delay, within the bounds."""
        wait = max(delay_s, self.backoff_min_s) * 2.0 ** (min(failures, 16) - 1)
        return min(wait, max(self.backoff_max_s, delay_s))

    def deferral_s(self, deferrals: int) -> float:
        """Wait before the next try of a URL or host kept `deferrals` times in a row (>= 1).

        15 s, 1 min, 4 min, 16 min, 1 h, 4 h, then 6 h each time. So a short outage of a server
        costs little time, and a dead server little work (some eight tries in its first day).
        """
        wait = self.deferral_min_s * 4.0 ** (min(deferrals, 16) - 1)
        return min(wait, self.deferral_max_s)
