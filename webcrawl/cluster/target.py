"""What hub 0 and the others say of the target and the end: each time all of it (`Word`, `Report`).

CLOSESPIDER_PAGECOUNT. A hub leases a page only if it has a place for it (`hub.server`).
Hub 0 says how many places each hub has: fewer in a portion as the goal comes nearer, and only as
many as it has URLs for. A hub that hears of fewer keeps those of its answered and leased pages.

Invariant: what hub 0 believes of a hub (`given`) is at least what that hub has, and the sum of all
`given` is at most the goal. So no fault exceeds the goal. Places that hub 0 takes back are given
to others only when the hub has heard it, and has said what it has. A hub that is away keeps its
places: the target waits for it.

A hub that starts has as many places as it has answered pages, and gives no lease before hub 0 has
said the goal. Hub 0 knows nothing of the others when it starts, and gives no place before all have
said what they have.

The end. A hub is quiet if its frontier is finished, it has no seeds to read, and all its mail is
applied. Its activity is the sum of the numbers of its mail, sent and applied. Hub 0 asks all hubs
(a wave). If all are quiet, it asks once more, and if all say the same activity, the crawl has
ended: all first answers came before all second ones. Between its two answers a hub has neither sent
nor applied mail, and what it had sent before was applied. So at a moment between the two waves no
mail was on its way. Since then a hub could only have got work from its own user, and it was quiet
again without mail to another one. The end of a session with any hub voids the answers.

Knows no bus and no clock. Memory: a few numbers for each hub.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, Literal

from msgspec import Meta
from msgspec.structs import replace

from webcrawl.cluster.packets import Letter
from webcrawl.frontier.counters import Counters
from webcrawl.hub.server import Part

Reason = Literal["finished", "shutdown", "closespider_pagecount"]  # the last is TARGET_MET

PORTION_MAX: Final = 4000  # half a second of a hub's frontier

ACTIVITY_END: Final = 1 << 62  # a sum modulo it: the numbers of mail are high

_Number = Annotated[int, Meta(ge=0, lt=ACTIVITY_END)]


class Report(Letter, frozen=True):
    """What a hub says to hub 0.

    heard -- number of the last `Word` in this session
    places -- that it has
    held -- those of answered and leased pages
    answered -- pages
    fresh -- URLs for which it needs places soon, PORTION_MAX at most
    quiet -- the last wave, if the hub is quiet; 0: it is not
    activity -- see above
    requisites -- whether some are to be fetched here soon, or may be on their way to other hubs
    orders -- the number of the orders (`hub.wire.Orders`) that hold at the hub
    unanswered -- requests that they forbid, sent before, without an answer yet
    """

    heard: _Number
    places: _Number
    held: _Number
    answered: _Number
    fresh: _Number
    quiet: _Number
    activity: _Number
    requisites: bool = False
    orders: _Number = 0
    unanswered: _Number = 0


class Word(Letter, frozen=True):
    """What hub 0 says to a hub.

    number -- grows in hub 0's run
    goal -- 0: there is no target
    places -- for this hub
    crawled, left -- of the whole crawl: answered pages, and places that no hub has
    wave -- the question whether the hub is quiet
    rules -- hash of the rules (RULES) in force at hub 0
    """

    number: _Number
    goal: _Number
    places: _Number
    crawled: _Number
    left: _Number
    wave: _Number
    rules: Annotated[str, Meta(max_length=64)] = ""


_SILENCE: Final = Word(0, 0, 0, 0, 0, 0)


class Share(Part):
    """This hub's places, and what else its frontier must know.

    has_other_rules -- than hub 0: no lease is given meanwhile
    """

    end: Reason | Literal[""]

    def __init__(self, counters: Counters) -> None:
        super().__init__(counters.crawled)
        self.has_other_rules = False
        self._counters = counters
        self._word = _SILENCE
        self._knows_goal = self._is_steered = False  # hub 0 has said it in this run

    def __repr__(self) -> str:
        return f"<Share {self.answered} of {self.places}>"

    @property
    def answered(self) -> int:
        return self._counters.crawled

    def mark_steered(self) -> None:
        """This hub has carried out all orders of hub 0."""
        self._is_steered = True

    def hold(self, rules: str) -> None:
        """`rules`: the hash of those in force here."""
        self.has_other_rules = self._knows_goal and self._word.rules != rules
        self.is_held = not (self._knows_goal and self._is_steered) or self.has_other_rules

    def begin(self) -> None:
        """A session with hub 0 begins: nothing is heard in it yet."""
        self._word = replace(self._word, number=0, wave=0)

    def hear(self, word: Word, out: int) -> None:
        """`out`: pages that are leased."""
        self.places = max(word.places, self.answered + out)
        self.goal, self.crawled, self.left = word.goal, word.crawled, word.left
        self._word, self._knows_goal = word, True

    def report(
        self, out: int, fresh: int, activity: int | None, *, requisites: bool = False
    ) -> Report:
        """`activity`: None: the hub is not quiet."""
        held, word = self.answered + out, self._word
        places = max(self.places, held) if word.goal else held
        quiet = 0 if activity is None else word.wave
        numbers = places, held, self.answered, min(fresh, PORTION_MAX)
        return Report(word.number, *numbers, quiet, activity or 0, requisites)


class Leader:
    """Hub 0: how many places each of `hubs` hubs has, and whether all are quiet.

    goal -- the target of the crawl; 0: there is none
    """

    def __init__(self, hubs: int, goal: int) -> None:
        self.goal = goal
        self._hubs = hubs
        self._number = 0  # of the last word
        self._wished = 0  # the goal for which places are recalled; 0: none are
        self._given: dict[int, int] = {}
        self._reports: dict[int, Report] = {}
        # By hub that there is a session with: the last word.
        self._words: dict[int, Word] = {}
        self._wave = 1
        self._first: dict[int, int] = {}  # the activity of all hubs at the wave before

    def __repr__(self) -> str:
        return f"<Leader {sum(self._given.values())} of {self.goal} to {len(self._given)} hubs>"

    def begin(self, hub: int) -> None:
        self._words[hub] = _SILENCE

    def end(self, hub: int) -> None:
        del self._words[hub]
        self._first = {}
        self._wave += 1

    def hear(self, hub: int, report: Report) -> None:
        self._reports[hub] = report
        if hub in self._words and self._words[hub].number and self._is_heard(hub):
            self._given[hub] = report.places

    @property
    def crawled(self) -> int:
        return sum(report.answered for report in self._reports.values())

    @property
    def is_met(self) -> bool:
        return bool(self.goal) and self.crawled >= self.goal

    @property
    def has_requisites(self) -> bool:
        return any(report.requisites for report in self._reports.values())

    @property
    def unheard(self) -> list[int]:
        """The hubs that have not said how many places they have."""
        return [hub for hub in range(self._hubs) if hub not in self._given]

    def words(self, rules: str) -> Iterator[tuple[int, Word]]:
        """What to say now, and to which hubs. `rules` as in `Word`."""
        goal = self._wished or self.goal
        for hub, last in tuple(self._words.items()):
            if last.number and not self._is_heard(hub):  # one at a time
                continue
            places = self._places(hub) if last.number else self._given.get(hub, 0)
            if hub in self._given:
                self._given[hub] = max(self._given[hub], places)
            numbers = places, self.crawled, self._left, self._wave
            word = Word(last.number, goal, *numbers, rules)
            if word != last or not last.number:
                self._number += 1
                self._words[hub] = replace(word, number=self._number)
                yield hub, self._words[hub]

    def _is_heard(self, hub: int) -> bool:
        """Whether `hub` has heard the last word, and has said what it has since."""
        return hub in self._reports and self._reports[hub].heard == self._words[hub].number

    @property
    def _left(self) -> int:
        return max((self._wished or self.goal) - sum(self._given.values()), 0)

    def _places(self, hub: int) -> int:
        """How many places `hub` shall have. Few more at a time near the goal: all get some."""
        if self._wished or not self.goal:
            return 0
        given, report = self._given[hub], self._reports[hub]
        wanted = report.held + report.fresh
        if given >= wanted or self.unheard or (given - report.held) * 2 > report.fresh:
            return min(given, wanted)
        portion = max(self._left // (2 * self._hubs), 1)
        return given + min(wanted - given, portion, self._left)

    # The end

    def is_finished(self) -> bool:
        """Whether all hubs were quiet in two waves. If they were in one, the next one begins."""
        reports = self._reports.items()
        answers = {hub: each.activity for hub, each in reports if each.quiet == self._wave}
        if len(answers) < self._hubs:
            return False
        is_same = answers == self._first
        self._first = answers
        self._wave += 1
        return is_same

    # Another goal

    def recall(self, goal: int) -> None:
        """All hubs give back what they do not use, before `goal` can replace the one so far."""
        self._wished = goal

    @property
    def is_recalled(self) -> bool:
        """Whether all hubs that are there have heard it."""
        return all(
            (word.goal, word.places) == (self._wished, 0) and self._is_heard(hub)
            for hub, word in self._words.items()
        )

    @property
    def lowest(self) -> int:
        """The lowest goal that can still be met exactly: each leased page may be answered."""
        return sum(self._given.values())

    def set_goal(self, goal: int) -> None:
        """The recall is over, and this is the goal."""
        self.goal, self._wished = goal, 0
