"""Traps: parts of a site where links lead on for ever.

Owns what a URL looks like that is deep inside of one, and which hops look like steps of a sequence.
Pure. Every test is linear in the URL, whatever it holds. Why these limits, and what they do not
catch, stands in docs/architecture.md.
"""

from __future__ import annotations

import re
import sys
from collections import Counter

from webcrawl.parse.urls import target_of

# A digit of an escape is none: "%C3%A3" is a letter.
_find_digit = re.compile(r"[0-9](?<!%.)(?<!%[0-9A-F].)").search


class PathLimits:
    """A scope rule: how long a path may be, and how often one segment may be in it. 0 is no limit.

    Deviation: a segment of one or two digits may come as often as it likes. Such segments spell a
    number out (`/1/1/1/1/11110/` of Project Gutenberg's mirrors, `/00/00/00/07/`).
    """

    def __init__(self, depth_max: int = 0, repeats_max: int = 0) -> None:
        self._depth_max = depth_max or sys.maxsize
        self._repeats_max = repeats_max or sys.maxsize
        self._harmless = min(self._depth_max, self._repeats_max)

    def __call__(self, url: str, host: str) -> str:
        """The reason to refuse canonical `url`: "path_depth", "repeated_path" or "".

        O(length); 0.1 us for a path that neither limit can meet, else 0.5 us.
        """
        if url.count("/") - 2 <= self._harmless:
            return ""
        parts = url.split("/")  # "http:", "", the host, and segments up to a slash of the query
        repeated = len(parts) - len(set(parts)) >= self._repeats_max
        if not repeated and len(parts) - 3 <= self._depth_max:
            return ""
        segments = target_of(url).partition("?")[0].split("/")[1:]
        if len(segments) > self._depth_max:
            return "path_depth"
        return "repeated_path" if repeated and self._is_repeated(segments) else ""

    def _is_repeated(self, segments: list[str]) -> bool:
        counts = Counter(
            segment
            for segment in segments
            if segment and not (len(segment) < 3 and segment.isdigit())
        )
        return max(counts.values(), default=0) > self._repeats_max


def is_numbered(url: str) -> bool:
    """Whether there is a digit in path or query of a canonical URL."""
    return _find_digit(url, url.index("/", 8)) is not None
