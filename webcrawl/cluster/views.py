"""The crawl of several hubs in numbers: what each hub says of itself, and the sum of all.

The counts of a hub are those of its own hosts, so the sum counts each page once. A hub that is away
is counted as it was last heard, and named. Knows no bus and no clock.

What arrives is data: only names that this version knows are added.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Annotated, Final, Literal, NamedTuple

from msgspec import Meta
from msgspec.structs import replace

from webcrawl.cluster.packets import Letter, Place
from webcrawl.frontier.counters import MOMENTARY, Counters

REASONS_MAX: Final = 15  # of one group in a letter; the rest is added up as OTHERS
OTHERS: Final = "other"
_LEVELS_MAX: Final = 99
_NAME_MAX: Final = 40  # characters of a reason
_GROUPS: Final = (
    "codes",
    "dropped",
    "failed",
    "kept",
    "levels",
    "refused_access",
    "visits",
    "walls",
)
_NUMBERS: Final = tuple(
    each.name
    for each in fields(Counters)
    if each.type in ("int", "float") and each.name not in MOMENTARY
)

State = Literal["running", "paused", "outage", "closing"]
_Amount = Annotated[float, Meta(ge=0)]
_Reason = Annotated[str, Meta(max_length=_NAME_MAX)]
_Group = Annotated[dict[_Reason, int], Meta(max_length=_LEVELS_MAX + 1)]


class Count(Letter, frozen=True):
    """What a hub says of itself, once a second. 4,000 bytes at most, 1,000 usually.

    place -- its process, for users
    pages_per_s, mbps -- since the `Count` before
    unapplied -- mail to other hubs that is not known to be applied there
    numbers, groups -- of `Counters`, by name; REASONS_MAX of a group
    """

    place: Place
    state: State
    elapsed_s: _Amount
    pages_per_s: _Amount
    mbps: _Amount
    unapplied: Annotated[int, Meta(ge=0)]
    numbers: Annotated[dict[_Reason, int | float], Meta(max_length=100)]
    groups: Annotated[dict[_Reason, _Group], Meta(max_length=20)]


class HubLine(NamedTuple):
    """One hub in a table; all but its number as it was last heard.

    is_own -- it is the hub that shows the table
    away_since -- UTC; "" while there is a session with it
    """

    hub: int
    place: str
    state: str
    is_own: bool
    pages: int
    pages_per_s: float
    pending: int
    away_since: str


class Whole(NamedTuple):
    """The crawl of all hubs, as hub `hub` knows it.

    counters -- the sum; requests under way are left out
    elapsed_s -- of the hub with the most
    """

    hub: int
    elapsed_s: float
    pages_per_s: float
    mbps: float
    unapplied: int
    counters: Counters
    hubs: tuple[HubLine, ...]

    @property
    def away(self) -> list[HubLine]:
        return [line for line in self.hubs if line.away_since]


class Views:
    """What hub `number` of `hubs` knows of all. Memory: one `Count` for each."""

    def __init__(self, number: int, hubs: int, place: str, counters: Counters, time: str) -> None:
        """`time`: now, UTC."""
        self._number = number
        self._hubs = hubs
        self._place = place
        self._counters = counters
        self._measured: tuple[float, int, int] | None = None  # when; pages and bytes then
        self._own = self._count("running", 0.0, 0)
        # Replaced as a whole, never changed: the thread of the stats lines reads them.
        self._heard: Mapping[int, Count] = {}
        self._away: Mapping[int, str] = {hub: time for hub in range(hubs) if hub != number}

    def measure(self, state: State, elapsed_s: float, unapplied: int, now: float) -> Count:
        """This hub now. 0.3 ms."""
        c = self._counters
        pages, size_bytes = c.crawled, c.wire_bytes
        before_at, pages_before, bytes_before = self._measured or (now, 0, 0)
        self._measured = now, pages, size_bytes
        over_s = now - before_at
        pages_per_s = max(pages - pages_before, 0) / over_s if over_s > 0 else 0.0
        mbps = max(size_bytes - bytes_before, 0) * 8e-6 / over_s if over_s > 0 else 0.0
        self._own = self._count(state, elapsed_s, unapplied, pages_per_s, mbps)
        return self._own

    @property
    def pages_per_s(self) -> float:
        """Of this hub, as last measured."""
        return self._own.pages_per_s

    def hear(self, hub: int, count: Count) -> None:
        self._heard = {**self._heard, hub: count}

    def begin(self, hub: int) -> None:
        self._away = {other: since for other, since in self._away.items() if other != hub}

    def end(self, hub: int, time: str) -> None:
        """The session with `hub` has ended. `time`: now, UTC."""
        self._away = {**self._away, hub: time}

    def whole(self) -> Whole:
        """The crawl now: this hub's counts as they are, the others' as last heard. Any thread."""
        numbers, groups = _values(self._counters)
        own = replace(self._own, numbers=numbers, groups=groups)
        counts, away = {**self._heard, self._number: own}, self._away
        here = [count for hub, count in counts.items() if hub not in away]
        return Whole(
            hub=self._number,
            elapsed_s=max(count.elapsed_s for count in counts.values()),
            pages_per_s=sum(count.pages_per_s for count in here),
            mbps=sum(count.mbps for count in here),
            unapplied=sum(count.unapplied for count in counts.values()),
            counters=_sum(counts.values()),
            hubs=tuple(
                self._line(hub, counts.get(hub), away.get(hub, "")) for hub in range(self._hubs)
            ),
        )

    def _count(
        self,
        state: State,
        elapsed_s: float,
        unapplied: int,
        pages_per_s: float = 0.0,
        mbps: float = 0.0,
    ) -> Count:
        numbers, groups = _values(self._counters)
        rates = round(pages_per_s, 2), round(mbps, 3)
        return Count(
            self._place, state, max(round(elapsed_s, 3), 0.0), *rates, unapplied, numbers, groups
        )

    def _line(self, hub: int, count: Count | None, away_since: str) -> HubLine:
        is_own = hub == self._number
        if count is None:
            return HubLine(hub, "", "", is_own, 0, 0.0, 0, away_since)
        return HubLine(
            hub=hub,
            place=count.place,
            state=count.state,
            is_own=is_own,
            pages=int(count.numbers.get("crawled", 0)),
            pages_per_s=0.0 if away_since else count.pages_per_s,
            pending=max(int(count.numbers.get("pending", 0)), 0),
            away_since=away_since,
        )


def _values(counters: Counters) -> tuple[dict[str, int | float], dict[str, dict[str, int]]]:
    """The numbers and groups of `Count`. Any thread."""
    values = counters.to_dict()
    groups = {
        name: _largest(values[name], _LEVELS_MAX if name == "levels" else REASONS_MAX)
        for name in _GROUPS
    }
    numbers = {name: values[name] for name in _NUMBERS if values[name]}
    return numbers, {name: counts for name, counts in groups.items() if counts}


def _largest(counts: Mapping[str, int], limit: int) -> dict[str, int]:
    some = sorted(((-n, name) for name, n in counts.items() if n))
    kept: Counter[str] = Counter()
    for rank, (n, name) in enumerate(some):
        kept[name[:_NAME_MAX] if rank < limit else OTHERS] -= n
    return dict(kept)


def _sum(counts: Iterable[Count]) -> Counters:
    """Seconds of earlier runs do not add up: the longest counts."""
    total, earlier_s = Counters(), 0.0
    for count in counts:
        known = {name: n for name, n in count.numbers.items() if name in _NUMBERS}
        earlier_s = max(earlier_s, known.pop("earlier_s", 0.0))
        total.add(known)
        total.add({name: group for name, group in count.groups.items() if name in _GROUPS})
    total.earlier_s = earlier_s
    return total
