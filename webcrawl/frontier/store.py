"""Values of the store (`disk.store`), and its error."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

Numbers = dict[str, Any]  # JSON values
# Of a queued URL: cash from pages, the virtual page's total when the URL was queued
# (orderings.Opic), and its number.
Credit = tuple[float, float, int]


class StoreError(Exception):
    """The fault of a folder, a disk or the first process: one line for the user that names it."""


class UrlStatus(Struct, frozen=True, array_like=True, gc=False):
    """How a URL ended, and how it was found."""

    # a status code; "head", "sitemap" or "wall" and one; or a reason of `counters.dropped`
    outcome: str
    time: float  # UTC
    depth: int
    redirects: int = 0
    via: str = ""
    duplicate_of: str = ""
    visit_ms: int = 0  # UTC milliseconds of its next visit; 0: it is not visited again
    near_duplicate_of: str = ""

    @property
    def is_answer(self) -> bool:
        """Whether a page was answered, by its server or by a bot wall in its place."""
        return self.outcome.removeprefix("wall ").isdigit()
