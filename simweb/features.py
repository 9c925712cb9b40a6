"""The common form of all behaviours: a name, a weight, one line of description.

Owns the draw (which host or page gets which behaviour) and the choice by name. Must not know the
behaviours: each family (`dns-`, `origin-`, `robots-`, `host-`, `page-`, `link-`) is a table in its
own module. The first row of a table is its plain behaviour and cannot be switched off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from fnmatch import fnmatchcase
from itertools import accumulate
from random import Random
from typing import ClassVar, Generic, TypeVar

_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class Feature:
    """One row of a table. `weight` is its share against the other rows of its family.

    A family's own class has the behaviour as the fourth argument; all others have names.
    """

    family: ClassVar[str]
    short: str  # its name within the family
    weight: float
    about: str
    _: KW_ONLY
    sound: bool = True  # a crawler must find the pages that lie behind it
    default: bool = True  # on unless switched off

    @property
    def name(self) -> str:
        return f"{self.family}-{self.short}"


F = TypeVar("F", bound=Feature)


def mix(*numbers: int) -> int:
    """A 64-bit hash of small numbers, the same everywhere (splitmix64's steps). 0.15 µs each."""
    value = 0x9E3779B97F4A7C15
    for number in numbers:
        value = ((value ^ number) * 0xBF58476D1CE4E5B9) & _MASK
        value ^= value >> 29
        value = (value * 0x94D049BB133111EB) & _MASK
        value ^= value >> 32
    return value


def unit(number: int) -> float:
    """A hash as a number in [0, 1)."""
    return number / (_MASK + 1)


class Draw(Generic[F]):
    """The rows of one family that are switched on, and a weighted draw among them."""

    def __init__(self, table: Sequence[F], weights: Mapping[str, float]) -> None:
        self.rows: list[F] = [row for row in table if row.name in weights or row is table[0]]
        self._indexes = range(len(self.rows))
        self._weights = list(accumulate(weights.get(row.name, row.weight) for row in self.rows))

    def many(self, rng: Random, count: int) -> bytes:
        """`count` row numbers; the first is always the plain row. 0.2 µs each."""
        drawn = bytearray(rng.choices(self._indexes, cum_weights=self._weights, k=count))
        drawn[:1] = b"\0"
        return bytes(drawn)

    def one(self, rng: Random) -> F:
        return rng.choices(self.rows, cum_weights=self._weights)[0]


def select(text: str, table: Sequence[Feature]) -> dict[str, float]:
    """What `text` switches on, with weights: `default`, `all`, `none`, `a,b=20`, `all,-c`, `-d-*`.

    Read from left to right; a leading `-` takes away, `*` stands for anything, `=` gives another
    weight. A list that begins by taking away begins from the default set, any other from none.
    Raises ValueError for a pattern that matches nothing and for a weight that is none.
    """
    sets = {
        "all": {row.name for row in table},
        "default": {row.name for row in table if row.default},
        "none": set[str](),
    }
    own = {row.name: row.weight for row in table}
    words = [word.strip() for word in text.split(",") if word.strip()]
    first = "default" if not words or words[0].startswith("-") else "none"
    chosen = {name: own[name] for name in sets[first]}
    for word in words:
        pattern, _, weight = word.removeprefix("-").partition("=")
        names = sets.get(pattern)
        if names is None:
            names = {name for name in own if fnmatchcase(name, pattern)}
            if not names:
                raise ValueError(f"no feature is called {pattern!r}; --list-features shows them")
        for name in names:
            if word.startswith("-"):
                chosen.pop(name, None)
            else:
                chosen[name] = float(weight) if weight else own[name]
    return chosen
