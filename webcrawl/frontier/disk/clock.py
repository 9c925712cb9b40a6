"""A line for a frontier whose times are ahead of the machine's clock.

A crawl's time never goes back: it continues from its last commit. So after one run by a clock that
was ahead, all runs have its time. Times are UTC seconds.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

_AHEAD_MAX_S: Final = 300.0  # a clock that was corrected, by NTP or by hand, is ahead for so long


def utc(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def clock_warning(last_time: float, now: float) -> list[str]:
    """A line for the user if `last_time`, of the last commit, is ahead of the clock; or none."""
    if last_time - now <= _AHEAD_MAX_S:
        return []
    line = (
        f"The last commit of this crawl was at {utc(last_time)}, and this machine's clock says"
        f" {utc(now)}. The crawl goes on from the later time"
    )
    return [line]
