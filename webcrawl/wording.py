"""Text for people: characters of the web as escapes, and numbers with their nouns. Pure."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""`text` in one line that changes nothing in a terminal: controls and the like as \x1b."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def counted(number: int, one: str, many: str = "") -> str:
    """Such as "1 seed", "1,000 seeds", "2 entries" with `many`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
