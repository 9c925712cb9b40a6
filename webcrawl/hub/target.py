"""CLOSESPIDER_PAGECOUNT of a crawl with several hubs: each hub has places of it, in portions.

A hub leases a page only if it has a place for it (`frontier.shared.server`). Hub 0 gives places
(`Places`), fewer in a portion as the goal comes nearer. A hub says how many it has (`Uses`), and
gives back those for which it has no URL.

Invariant: what hub 0 believes of a hub (`given`) is at least what that hub has, and the sum of all
`given` is at most the goal. So no fault exceeds the goal. A letter that is on its way, or lost with
its session, only makes `given` too high for a while. Hub 0 takes the word of a hub once that hub
has heard all that hub 0 has sent in the session.

A hub that starts has as many places as it has answered pages, and gives no lease before hub 0 has
said the goal. Hub 0 knows nothing of the others when it starts, and gives no place before all have
said what they have. A hub that is away keeps its places: the target waits for it.

Knows no bus and no clock. Memory: a few numbers for each hub.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, Literal

from msgspec import Meta

from webcrawl.frontier.base import TARGET_MET
from webcrawl.frontier.counters import Counters
from webcrawl.hub.ending import FINISHED, Reason
from webcrawl.hub.mesh import Letter

PORTION_MAX: Final = 4000  # half a second of a hub's frontier

_Number = Annotated[int, Meta(ge=0, lt=1 << 62)]


class Uses(Letter, frozen=True):
    """What a hub has of the target.

    heard -- number of the last `Places` in this session
    places -- its answered pages are some of them
    free -- places that are neither answered nor leased
    fresh -- URLs for which it needs places soon, PORTION_MAX at most
    """

    heard: _Number
    places: _Number
    answered: _Number
    free: _Number
    fresh: _Number


class Places(Letter, frozen=True):
    """Hub 0's word on the target.

    number -- 1, 2, 3 ... in the session
    goal -- 0: there is no target
    more -- places for this hub
    recalls -- keep only the places of answered and leased pages, until the next word
    crawled, left -- of the whole crawl: answered pages, and places that no hub has
    """

    number: _Number
    goal: _Number
    more: _Number
    recalls: bool
    crawled: _Number
    left: _Number


class Share:
    """This hub's places, and what else its frontier must know of the crawl (`shared.server.Whole`).

    knows_goal, is_steered -- what hub 0 has said in this run: until then no lease is given
    end -- why the crawl has ended in all hubs; "" while it goes on
    """

    def __init__(self, counters: Counters) -> None:
        self.goal = 0
        self.crawled = 0
        self.left = 0
        self.places = counters.crawled
        self.knows_goal = self.is_steered = False
        self.end: Reason | Literal[""] = ""
        self._counters = counters
        self._heard = 0

    def __repr__(self) -> str:
        return f"<Share {self.answered} of {self.places}>"

    @property
    def answered(self) -> int:
        return self._counters.crawled

    @property
    def is_held(self) -> bool:
        return not (self.knows_goal and self.is_steered)

    @property
    def is_met(self) -> bool:
        return self.end == TARGET_MET

    @property
    def has_ended(self) -> bool:
        return self.end == FINISHED

    def begin(self) -> None:
        """A session with hub 0 begins."""
        self._heard = 0

    def hear(self, word: Places, out: int) -> None:
        """`out`: pages that are leased."""
        if word.recalls or (word.goal and not self.goal):
            self.places = self.answered + out
        self.places += word.more
        self._heard, self.goal, self.knows_goal = word.number, word.goal, True
        self.crawled, self.left = word.crawled, word.left

    def uses(self, out: int, fresh: int) -> Uses:
        """What to say to hub 0. Places for which there is no URL are given back."""
        held, fresh = self.answered + out, min(fresh, PORTION_MAX)
        self.places = min(self.places, held + fresh) if self.goal else held
        free = max(self.places - held, 0)
        return Uses(self._heard, self.places, self.answered, free, fresh)


class Allotment:
    """Hub 0: how many places each of `hubs` hubs has.

    goal -- the target of the crawl; 0: there is none
    """

    def __init__(self, hubs: int, goal: int) -> None:
        self.goal = goal
        self._hubs = hubs
        self._wished = 0  # the goal for which places are recalled; 0: none are
        self._given: dict[int, int] = {}
        self._uses: dict[int, Uses] = {}
        # By hub that there is a session with: the last word of hub 0, with its number.
        self._words: dict[int, Places] = {}

    def __repr__(self) -> str:
        return f"<Allotment {sum(self._given.values())} of {self.goal} to {len(self._given)} hubs>"

    def begin(self, hub: int) -> None:
        self._words[hub] = Places(0, 0, 0, False, 0, 0)

    def end(self, hub: int) -> None:
        del self._words[hub]

    def hear(self, hub: int, uses: Uses) -> None:
        self._uses[hub] = uses
        if hub in self._words and self._is_heard(hub):
            self._given[hub] = uses.places

    @property
    def crawled(self) -> int:
        return sum(uses.answered for uses in self._uses.values())

    @property
    def is_met(self) -> bool:
        return bool(self.goal) and self.crawled >= self.goal

    @property
    def unheard(self) -> list[int]:
        """The hubs that have not said how many places they have."""
        return [hub for hub in range(self._hubs) if hub not in self._given]

    def words(self) -> Iterator[tuple[int, Places]]:
        """What to say now, and to which hubs."""
        goal = self._wished or self.goal
        for hub, last in tuple(self._words.items()):
            if last.number and not self._is_heard(hub):  # one at a time
                continue
            if more := self._portion(hub):
                self._given[hub] += more
            crawled, left = (self.crawled, self._left) if goal else (0, 0)
            word = Places(last.number + 1, goal, more, bool(self._wished), crawled, left)
            if more or not last.number or _meaning(word) != _meaning(last):
                self._words[hub] = word
                yield hub, word

    def _is_heard(self, hub: int) -> bool:
        """Whether `hub` has heard the last word, and has said what it has since."""
        return hub in self._uses and self._uses[hub].heard == self._words[hub].number

    @property
    def _left(self) -> int:
        return max((self._wished or self.goal) - sum(self._given.values()), 0)

    def _portion(self, hub: int) -> int:
        """How many more places `hub` gets. Few at a time near the goal: all get some.

        None before it has heard the first word of the session, and has no limit perhaps.
        """
        is_begun = self._words[hub].number and self._is_heard(hub)
        if self._wished or not self.goal or self.unheard or not is_begun:
            return 0
        uses = self._uses[hub]
        if uses.free * 2 > uses.fresh:
            return 0
        portion = max(self._left // (2 * self._hubs), 1)
        return min(uses.fresh - uses.free, portion, self._left)

    # Another goal

    def recall(self, goal: int) -> None:
        """All hubs give back what they do not use, before `goal` can replace the one so far."""
        self._wished = goal

    @property
    def is_recalled(self) -> bool:
        """Whether all hubs that are there have heard it."""
        return all(word.recalls and self._is_heard(hub) for hub, word in self._words.items())

    @property
    def lowest(self) -> int:
        """The lowest goal that can still be met exactly: each leased page may be answered."""
        return sum(self._given.values())

    def set_goal(self, goal: int) -> None:
        """The recall is over, and this is the goal."""
        self.goal, self._wished = goal, 0


def _meaning(word: Places) -> tuple[int, bool, int, int]:
    return word.goal, word.recalls, word.crawled, word.left
