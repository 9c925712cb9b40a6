"""The language of a host: of its text, and as its pages declare it.

The first row is the plain one, and the others are off by default: `--features none,language-*`.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from simweb.features import Feature

LATE = 4  # the pages of a host that turns before it does


@dataclass(frozen=True)
class Tongue(Feature):
    """A kind. `turns`: pages from number LATE on are in Portuguese, and declare it."""

    family = "language"
    text: str  # of `words.TEXTS`
    declared: str
    _: KW_ONLY
    turns: bool = False
    default: bool = False

    def at(self, page: int) -> Tongue:
        """The kind that page number `page` of a host is of."""
        return TONGUES[0] if self.turns and page >= LATE else self


TONGUES = (
    Tongue("plain", 10, "Portuguese", "pt", "pt-br", default=True),
    Tongue("other", 70, "English, which it declares", "en", "en"),
    Tongue("false", 8, "English, and declares Portuguese", "en", "pt-br"),
    Tongue("hidden", 6, "Portuguese, and declares English", "pt", "en"),
    Tongue("late", 6, "English, and Portuguese from its fifth page on", "en", "en", turns=True),
)
