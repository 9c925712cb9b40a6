"""Text of a fixed form: escapes for characters of the web, numbers with nouns, sizes, UTC times,
and what is said of a setting that cannot be used.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, Literal

INTERRUPTED: Final = 130  # the exit code that shells have for SIGINT


class SettingError(ValueError):
    """The user's fault: a setting's name, or a command's, its value and what is allowed."""

    def __init__(self, name: str, value: object, allowed: str) -> None:
        super().__init__(f"{name} = {value!r} cannot be used: {allowed}")


def printable(text: str) -> str:
    r"""`text` in one line that changes nothing in a terminal: controls and the like as \x1b."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def is_utf8(text: str) -> bool:
    """False if `text` is an argument or a path that has other bytes, as lone surrogates."""
    return not any("\ud800" <= each <= "\udfff" for each in text)


def counted(number: int, one: str, many: str = "") -> str:
    """Such as "1 seed", "1,000 seeds", "2 entries" with `many`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def by_reason(counts: Mapping[str, int]) -> str:
    """The total, and the count of each reason, the most frequent first."""
    some = sorted(((n, reason) for reason, n in counts.items() if n), reverse=True)
    reasons = ", ".join(f"{reason} {n}" for n, reason in some)
    total = sum(n for n, _ in some)
    return f"{total} ({reasons})" if some else "0"


def size_text(size_bytes: float) -> str:
    """In powers of ten, with three digits: 123 MB."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size_bytes < 999.5 or unit == "TB":
            break
        size_bytes /= 1000
    return f"{size_bytes:.3g} {unit}" if size_bytes < 999.5 else f"{size_bytes:,.0f} {unit}"


def utc_now(timespec: Literal["seconds", "milliseconds"] = "seconds") -> str:
    """The time as in the crawl's files: UTC, ISO 8601, such as "2026-11-23T05:02:31Z"."""
    return datetime.now(UTC).isoformat(timespec=timespec).replace("+00:00", "Z")


def needs_extra(what: str, module: str, extra: str) -> str:
    """What the user is told if `module` is missing, which an extra of the package brings.

    PyPI's `webcrawl` is another project's. Without -e the clone's code is no longer what runs.
    """
    return f"{what} needs {module}: pip install -e '.[{extra}]' in a clone"
