"""What belongs to the crawl. (Stub: the signature is settled.)"""

from __future__ import annotations

from collections.abc import Callable, Iterable

Rule = Callable[[str, str], str]  # (url, host) -> "" or the reason of the refusal


class ScopeError(ValueError):
    """A setting that cannot be used: its name, its value and what is allowed."""


class Scope:
    """Decides which URLs belong to the crawl."""

    def __init__(
        self,
        *,
        suffixes: Iterable[str] = (),
        deny: Iterable[str] = (),
        allow: Iterable[str] = (),
        schemes: Iterable[str] = ("http", "https"),
        max_length: int = 2083,
        rules: Iterable[Rule] = (),
    ) -> None:
        self._max_length = max_length

    def refuses(self, url: str, host: str) -> str:
        """Why `url` is out of scope ("scheme", "length", "suffix", "deny", "allow"), or ""."""
        return "length" if len(url) > self._max_length else ""
