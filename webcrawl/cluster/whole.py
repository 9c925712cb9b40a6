"""A crawl with several hubs as a whole, as one of them sees it: numbers, target, orders and end.

Hub 0 leads. `views`, `target` and `steering` decide; this module says it to the other
hubs, and does here what they say. Nobody relies on a letter: what must be known is said again when
a session begins.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from math import inf
from typing import Final

from msgspec.structs import replace

from webcrawl.base.wording import counted
from webcrawl.cluster.bus import BusError
from webcrawl.cluster.packets import Letter
from webcrawl.cluster.peers import Letters, Listener, Peers
from webcrawl.cluster.records import STOPPED
from webcrawl.cluster.steering import OBEY_S, STEP_S, HubSteering, Obey, Process
from webcrawl.cluster.streams import Clock
from webcrawl.cluster.target import ACTIVITY_END, Leader, Reason, Report, Share, Word
from webcrawl.cluster.views import Count, Views
from webcrawl.frontier.base import TARGET_MET
from webcrawl.frontier.disk.frontier import LocalFrontier
from webcrawl.frontier.requisites import TargetWait
from webcrawl.hub.server import FINISHED, FrontierServer
from webcrawl.hub.wire import SteeringError

logger = logging.getLogger(__name__)

_ENDS: Final[dict[str, Reason]] = {
    FINISHED: FINISHED,
    TARGET_MET: TARGET_MET,
    STOPPED: STOPPED,
}
SETTLE_S: Final = 2.0  # a hub that gets mail may report it later than the sender that it arrived
SOON_S: Final = 2.0
SOON_MIN: Final = 50  # pages
COUNT_S: Final = 1.0  # between two `Count`
LAST_S: Final = 10.0  # for the last `Count` of the others, whose fetches end meanwhile
IDLE_S: Final = 15.0  # until a line says what this hub waits for
AGAIN_S: Final = 600.0  # between two lines of the same


class End(Letter, frozen=True):
    """The crawl has ended in all hubs."""

    reason: Reason


class WholeCrawl:
    """Of hub `number` of `hubs`. Memory: a `Count` for each hub.

    views -- its numbers
    steering -- commands for all hubs
    share -- this hub's part of the target, and why the crawl has ended
    """

    def __init__(
        self,
        peers: Peers,
        server: FrontierServer,
        frontier: LocalFrontier,
        views: Views,
        process: Process,
        *,
        unapplied: Callable[[], int],
        recorded_end: Callable[[], str],
        record_stop: Callable[[], Awaitable[None]],
        clock: Clock,
        utc: Callable[[], str],
    ) -> None:
        """`server` serves `frontier`. `server.target` is the goal, if this is hub 0.

        unapplied -- mail to other hubs that is not known to be applied
        recorded_end -- the end that other hubs have written on the bus while this one ran
        record_stop -- writes there that the user has stopped the crawl. BusError
        """
        self.number, self.hubs = peers.number, peers.hubs
        self.views = views
        self.share = server.whole = Share(server.counters)
        self.share.close = self.close
        self.steering = HubSteering(peers, server, process)
        self.steering.on_obeyed = self.share.mark_steered
        self._peers = peers
        self._server = server
        self._frontier = frontier
        self.process = process
        self._unapplied = unapplied
        self._recorded_end = recorded_end
        self._record_stop = record_stop
        self._clock = clock
        self._utc = utc
        self._leader = Leader(peers.hubs, server.target)  # only hub 0's is used
        self._wait = TargetWait(SETTLE_S)
        self._counted_at = self._busy_at = clock()
        self._was_held = True
        self._line, self._line_at = "", 0.0
        letters: Letters = {
            Count: self.views.hear,
            End: self._hear_end,
            Word: self._hear_word,
            Report: self._hear_report,
        }
        peers.add(Listener(letters, self._begin, self._end_session))
        if self.number == 0:
            self._leader.begin(0)
            self.share.mark_steered()

    def __repr__(self) -> str:
        return f"<WholeCrawl of hub {self.number}: {self.share!r} {self._leader!r}>"

    # Sessions

    @property
    def away(self) -> list[int]:
        """The hubs without a session with this one."""
        return [hub for hub in self._peers.others if not self._peers.is_connected(hub)]

    def _begin(self, hub: int) -> None:
        self.views.begin(hub)
        if self.share.end:
            self._peers.send(hub, End(self.share.end))
        self._peers.send(hub, self._measure())
        if self.number == 0:
            self._leader.begin(hub)
            self._peers.send(hub, Obey(self._server.orders))
        elif hub == 0:
            self.share.begin()
            self._report()

    def _end_session(self, hub: int) -> None:
        if not (self.share.end and self.views.has_last(hub)):  # it has ended with the crawl
            self.views.disconnect(hub, self._utc())
        if self.number == 0:
            self._leader.end(hub)

    def step(self) -> None:
        """Once each STEP_S."""
        now = self._clock()
        if now >= self._counted_at + COUNT_S:
            self._counted_at = now
            self._peers.send_to_all(self._measure())
        if self.number == 0:
            self._lead()
        else:
            self._report()
        if self.away and (reason := _ENDS.get(self._recorded_end())):
            self._follow(reason, "The crawl has ended while this hub was away: %s")
        self.share.hold(self.process.rules)
        if self._was_held and not self.share.is_held:
            self._server.places_changed()
            self.process.wake()
        self._was_held = self.share.is_held
        waits = self._peers.serves and (self._is_idle() or self._lacks_places())
        if not waits:
            self._busy_at = now
        self._say_what_is_waited_for(now)

    def _measure(self) -> Count:
        return self.views.measure(self.process.elapsed_s, self._unapplied(), self._clock())

    # The target and the end

    def _lead(self) -> None:
        leader = self._leader
        leader.hear(0, self._own_report())
        if leader.is_finished():
            self.end(FINISHED)
        for hub, word in leader.words(self.process.rules):
            if hub:
                self._peers.send(hub, word)
            else:
                self._obey(word)
                leader.hear(0, self._own_report())
        if not leader.is_met:
            self._wait.met_at = inf  # the goal may be another one
        elif self._wait.is_over(self._clock(), has_requisites=leader.has_requisites):
            self.end(TARGET_MET)

    def _hear_word(self, hub: int, word: Word) -> None:
        if hub == 0:
            self._obey(word)
            self._report()

    def _obey(self, word: Word) -> None:
        self.share.hear(word, self._server.out)
        self._server.places_changed()

    def _hear_report(self, hub: int, report: Report) -> None:
        if self.number == 0:
            self._leader.hear(hub, report)
            self.steering.hear(hub, report)

    def _report(self) -> None:
        self._peers.send(0, self._own_report())

    def _own_report(self) -> Report:
        """A hub keeps places for its next SOON_S; one that ends gives back what it does not use."""
        soon = max(SOON_MIN, int(SOON_S * self.views.pages_per_s))
        fresh = 0 if self.process.is_closing else min(self._frontier.fresh, soon)
        unapplied = self._unapplied()
        is_quiet = self._is_idle() and not unapplied
        has_some = bool(self._server.counters.requisites and unapplied)
        report = self.share.report(
            self._server.out,
            fresh,
            self._activity() if is_quiet else None,
            requisites=has_some or self._frontier.has_requisites,
        )
        orders = self._server.orders.number
        return replace(report, orders=orders, unanswered=self.steering.unanswered)

    def _activity(self) -> int:
        """A number of `target.Report`. Two in a row are the same if no mail was sent or applied."""
        sent = sum(last for _, last in self._frontier.outbox.values())
        return (sent + sum(self._frontier.inbox.values())) % ACTIVITY_END

    def _is_idle(self) -> bool:
        """The frontier is finished, and nothing of this hub is on its way into it."""
        return self._frontier.is_finished() and not self.process.has_seeds()

    def _lacks_places(self) -> bool:
        """Whether nothing can be fetched here before hub 0 says more."""
        share = self.share
        has_places = share.places > share.answered or self._server.out
        return share.is_held or bool(share.goal and not has_places)

    async def recall(self, goal: int) -> int:
        """Hub 0: let all hubs give back their unused places, before `goal` is set.

        Returns the lowest goal that there can be. `set_goal` must follow. SteeringError: some have
        no limit so far, and have not heard of one.
        """
        self._leader.recall(goal)
        for _ in range(int(OBEY_S / STEP_S)):
            self._lead()
            if self._leader.is_recalled:
                break
            await asyncio.sleep(STEP_S)
        if not self._leader.goal and (self.away or not self._leader.is_recalled):
            hubs = _hubs(self.away or self._peers.others)
            raise SteeringError(f"no target can be set without the answer of {hubs}")
        return self._leader.lowest

    def set_goal(self, goal: int) -> None:
        """Hub 0: the goal from now on, 0: none."""
        self._leader.set_goal(goal)
        self._lead()

    async def stop(self) -> None:
        """A user stops the crawl here: in all hubs, and in one that is away and comes back soon."""
        self.end(STOPPED)
        with suppress(BusError):  # it is heard by the hubs that are there
            await self._record_stop()

    def end(self, reason: Reason) -> None:
        """End the crawl in all hubs. Each writes it on the bus as it closes (`records`)."""
        if not self.share.end:
            self._has_ended(reason)

    def _has_ended(self, reason: Reason) -> None:
        self.share.end = reason
        self._peers.send_to_all(End(reason))
        self.process.wake()

    def _hear_end(self, hub: int, end: End) -> None:
        """Hub 0 ends the crawl. Any hub may stop it, as its user may without hub 0."""
        if hub == 0 or end.reason == STOPPED:
            self._follow(end.reason, f"Hub {hub} has ended the crawl in all hubs: %s")

    def _follow(self, reason: Reason, line: str) -> None:
        if not self.share.end:
            logger.info(line, reason)
            self._has_ended(reason)
            if reason == STOPPED:
                self.process.stop()

    async def close(self) -> None:
        """No page is counted here any more. If the crawl has ended, hear the same of the others.

        Waits LAST_S at most, and for hubs that are there.
        """
        self.views.is_last = True
        self._peers.send_to_all(self._measure())
        for _ in range(int(LAST_S / STEP_S)):
            if not (self.share.end and self._are_counting()):
                break
            await asyncio.sleep(STEP_S)

    def _are_counting(self) -> bool:
        connected = filter(self._peers.is_connected, self._peers.others)
        return not all(map(self.views.has_last, connected))

    # What this hub waits for

    def _say_what_is_waited_for(self, now: float) -> None:
        line = "" if self.share.end or now < self._busy_at + IDLE_S else self._waits_for()
        if line and (line != self._line or now >= self._line_at + AGAIN_S):
            logger.warning("%s", line)
            self._line, self._line_at = line, now

    def _waits_for(self) -> str:
        away, here = self.away, "Nothing is left to do here"
        if self.share.has_other_rules:
            return "RULES is not that of hub 0: this hub waits. Give all hubs the same file"
        if self.share.is_held:
            away, here = [0], "Hub 0 has not said how the crawl is steered"
        elif not self._is_idle():
            here = "No page is left of the target here"
        if not away:
            return ""
        return (
            f"{here}: this hub waits for {_hubs(away)}. Start what is not running with its JOBDIR,"
            " or end all with scrapy ctl stop"
        )


def _hubs(numbers: Sequence[int]) -> str:
    return f"{counted(len(numbers), 'hub')} ({', '.join(map(str, numbers))})"
