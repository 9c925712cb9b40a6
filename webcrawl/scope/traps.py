"""Crawler traps: parts of a site with an endless number of URLs.

Owns the tests for URLs deep inside a trap, and for numbered URLs, which may form a sequence. Pure.
Every test is linear in the length of the URL. docs/crawling.md has the traps that
these limits do not catch.
"""

from __future__ import annotations

import re
import sys
from collections import Counter

from webcrawl.parse.urls import target_of

DEPTH_MAX = 20  # slashes in a path: Heritrix's TooManyPathSegmentsDecideRule
REPEATS_MAX = 4  # of one segment in a path; 3 is usual: /sympy/sympy/blob/master/sympy/
SEQUENCE_MAX = 500  # numbered pages in a row, each found on the one before: 4 hours at 30 s

# Digits of an escape do not count: "%C3%A3" is a letter.
_find_digit = re.compile(r"[0-9](?<!%.)(?<!%[0-9A-F].)").search


class PathLimits:
    """A scope rule: limits the number of slashes in a path, and the repeats of one segment.

    0 is no limit. Deviation: segments of one or two digits may repeat without limit, since some
    sites write numbers as paths (`/1/1/1/1/11110/` of Project Gutenberg's mirrors,
    `/00/00/00/07/`).
    """

    def __init__(self, depth_max: int = DEPTH_MAX, repeats_max: int = REPEATS_MAX) -> None:
        self._depth_max = depth_max or sys.maxsize
        self._repeats_max = repeats_max or sys.maxsize
        self._harmless = min(self._depth_max, self._repeats_max)

    def __call__(self, url: str, host: str) -> str:
        """The reason to refuse canonical `url`: "path_depth", "repeated_path" or "".

        O(length); 0.1 µs for a path that is too short for either limit, else 0.5 µs.
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
    """Whether the path or query of a canonical URL has a digit."""
    return _find_digit(url, url.index("/", 8)) is not None
