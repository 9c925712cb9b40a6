"""The frontier of one hub, as a fetcher has it: sessions with the hub, one after another.

The calls, and what they wait for, go on in the next session. If the hub begins a new stream, it has
none of this fetcher's leases any more: the hub is another process, or has taken them back. Then
they are forgotten here. Requests that are not sent are not sent any more, and pages that end are
not released: others fetch them again, as after a kill.

Between two sessions this process sends no request to hosts of the hub: `on_allowed` says until when
it may. `allhubs` combines the frontiers of several hubs.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf
from typing import Any, Final

from msgspec import DecodeError

from webcrawl.cluster.bus import Bus, BusError
from webcrawl.cluster.packets import (
    SAY_TICKS,
    TICK_S,
    Brief,
    Hello,
    Over,
    Packet,
    Refusal,
    ToHub,
    Welcome,
    encode,
    hub_subject,
    read_by_fetcher,
    subject_of,
)
from webcrawl.cluster.records import CRAWL, CrawlRecord, read
from webcrawl.cluster.streams import Clock, Stream
from webcrawl.frontier.counters import MOMENTARY, Counters, Tracked
from webcrawl.frontier.endings import lines_of_outcomes
from webcrawl.frontier.lease import Lane, Lease, Outcome
from webcrawl.hub.client import FailedElsewhereError, RemoteFrontier
from webcrawl.hub.wire import (
    Accepted,
    Acquire,
    Allowed,
    Call,
    Changes,
    Channel,
    ContentSeen,
    End,
    FirstSeen,
    GiveBack,
    Heartbeat,
    Leased,
    Lost,
    Message,
    Put,
)
from webcrawl.scope.hostrules import HostRules

logger = logging.getLogger(__name__)

CHANGED: Final = "settings_changed"  # the end of this process: it begins again
HUB_ENDS: Final = "shutdown"  # the end of a hub that may come back
LEAVE_S: Final = 5.0  # for the last messages to arrive
END_TICKS: Final = 5  # between two looks at the crawl's record, without a session


class StreamOverError(Exception):
    """No answer to a call will come."""


class HubFrontier(RemoteFrontier):
    """The frontier of hub `number`.

    is_closing -- whether this process's crawl ends, and the calls must too
    is_ending -- the hub ends, and with several hubs the crawl does not: it gets its leases back,
        and perhaps it comes again; `on_hub_end` is called
    has_exited -- the last message is sent
    unheard -- at the end of this process: WARC files with answers of which the hub may not know
    on_recall -- the hub wants the leases back whose requests are not sent
    """

    def __init__(
        self,
        bus: Bus,
        brief: Brief,
        fetcher: str,
        place: str,
        *,
        clock: Clock,
        new_name: Callable[[], str],
        rules: HostRules | None = None,
        number: int = 0,
    ) -> None:
        """`fetcher` is the name of this process on the bus, `place` the one for users.

        With several hubs it has another name for each.
        """
        self.bus = bus
        bus.on_lost = self.end_session
        self.number = number
        self._subject = hub_subject(number)
        self._hub = "the hub" if brief.hubs == 1 else f"hub {number}"
        self._clock = clock
        self._fetcher = fetcher
        self._stream = self._new_stream()
        super().__init__(self._stream, rules)
        self._stream.connect(self._channel)
        self.is_closing: Callable[[], bool] = lambda: False
        self.is_ending = self.has_exited = False
        self.unheard: set[str] = set()
        self.on_hub_end: Callable[[], None] = lambda: None
        self.on_recall: Callable[[], None] = lambda: self.give_back(lambda host: True)
        self._brief = brief
        self._place = place
        self._new_name = new_name
        self._name = ""  # of the stream, as the hub gave it
        self._asked = ""  # the session that was asked for last
        self._gives_up = self._is_leaving = False
        self._ticks = 0  # since the last session
        self._taken: dict[Lease, float] = {}  # when, until their answers have a line at the hub

    def __repr__(self) -> str:
        return f"<HubFrontier {len(self._keys)} leased, {self._stream!r}>"

    @property
    def is_connected(self) -> bool:
        """Whether there is a session."""
        return bool(self._stream.session)

    @property
    def serves(self) -> bool:
        """Whether the hub may give leases, and takes counts."""
        return self.is_connected and not self.is_ending

    def _new_stream(self) -> Stream:
        return Stream(self._send, self._clock)

    def _send(self, message: ToHub) -> None:
        self.bus.publish(self._subject, encode(message))

    # Calls

    async def _call(self, call: Call) -> Any:
        while not self._gives_up:
            stream = self._stream
            try:
                with suppress(StreamOverError):
                    answer = await super()._call(call)
                    if stream is self._stream:
                        return answer
            except FailedElsewhereError:
                if self._brief.hubs == 1 or not isinstance(call, Put | Lost):
                    raise
                await asyncio.sleep(TICK_S)  # the hub ends, and comes back mended
            if not isinstance(call, Put | Lost):
                break
        match call:
            case Acquire():
                return Leased([])
            case ContentSeen():
                return FirstSeen(None)
            case Put():
                return Accepted(0)
        return None

    async def acquire(self, now: float, limit: int, lane: Lane = Lane.PAGES) -> list[Lease]:
        leases = await super().acquire(now, limit, lane)
        self._taken |= dict.fromkeys(leases, now)
        return leases

    async def logged_until(self, now: float) -> float:
        return next(iter(self._taken.values()), now)

    async def release(self, done: Sequence[tuple[Lease, Outcome]], now: float) -> None:
        keys = {} if self.has_exited else self._keys  # the hub has them back
        known = [(lease, outcome) for lease, outcome in done if lease in keys]
        given_up = [each for each in done if each[0] not in keys]
        if known:
            await super().release(known, now)
        if given_up:
            self.on_renewed()  # the links of a lease that was given up go nowhere
            self._start(self._log_if_lost(given_up))

    async def _released(
        self, answer: asyncio.Future[None], done: Sequence[tuple[Lease, Outcome]]
    ) -> None:
        try:
            await answer
        except (StreamOverError, FailedElsewhereError):  # the hub may have got them, or not
            await self._log_if_lost(done)
        else:
            self._forget_taken(done)
        self._leave_hub()

    async def _log_if_lost(self, given_up: Sequence[tuple[Lease, Outcome]]) -> None:
        for warc, lines in lines_of_outcomes(given_up, time.time()).items():
            await self.log_if_lost(warc, lines)
            if self._gives_up:
                self.unheard.add(warc)
        self._forget_taken(given_up)

    def _forget_taken(self, done: Sequence[tuple[Lease, Outcome]]) -> None:
        for lease, _ in done:
            self._taken.pop(lease, None)

    def count_also(self, counters: Counters, others: Tracked, hubs: int) -> None:
        """While the hub serves, say also what `others` finds in `counters`: each change to one hub.

        Requests under way are no sum of changes for a reader: each hub is told an equal part.
        """
        own = self._tracked.changes

        def changes() -> Changes:
            if self.serves:
                found = others.changes()
                self.counters.add({n: found[n] for n in found.keys() - MOMENTARY})
                self.counters.take_part(counters, self.number, hubs)
            return own()

        self._changes = changes

    # The life of this process

    async def wait_for_end(self) -> str:
        """Hold sessions with the hub until the crawl ends. Returns the reason of its end."""
        await self.bus.subscribe(subject_of(self._fetcher), self.receive)
        self.on_allowed(self._clock(), self.number)
        while not self._end.is_set():
            self.tick()
            if self._ticks % END_TICKS == END_TICKS - 1:
                await self._look_for_end()
            with suppress(TimeoutError):
                async with asyncio.timeout(TICK_S):
                    await self._end.wait()
        return self._end_reason

    def end_crawl(self) -> None:
        """This process ends: all hubs do."""
        self._end_crawl(HUB_ENDS)

    def exit(self, reason: object, stats: dict[str, Any]) -> None:
        """Send the last message. Not after calls were given up: their hosts may have been asked."""
        if not self._gives_up and not self.has_exited:
            self.has_exited = True
            super().exit(reason, stats)

    async def leave(self) -> None:
        """Wait until the hub has the last message, LEAVE_S at most."""
        self._is_leaving = True
        for _ in range(int(LEAVE_S / TICK_S)):
            if self._stream.is_confirmed or not self._stream.session:
                break
            self._stream.tick()
            await asyncio.sleep(TICK_S)
        self._gives_up = True
        self._forget_leases()
        while self._releasing:
            await asyncio.wait(self._releasing)

    def tick(self) -> None:
        """Once each TICK_S."""
        if self.is_connected and self._clock() >= self._stream.valid_until:
            self.end_session()
        if self.is_connected:
            self._channel.send(Heartbeat(self._changes()))
            self._allow()
            return
        self._ticks += 1
        if self._ticks % SAY_TICKS == 0:
            waited_s = self._ticks * TICK_S
            logger.warning("No session with %s for %d s: no request is sent", self._hub, waited_s)
        if self.is_closing():
            self._gives_up = True
            self._forget_leases()
        else:
            self._greet()

    def end_session(self) -> None:
        """No request is sent until the next session begins."""
        if self.is_connected:
            line = "The session with %s has ended: no request is sent until the next"
            logger.info(line, self._hub)
        self._stream.end()
        self._asked = ""
        self.on_allowed(self._clock(), self.number)

    def _greet(self) -> None:
        self._asked = self._asked or f"{self._fetcher}.{self._new_name()}"
        brief = self._brief
        who = self._fetcher, self._place, brief.crawl, brief.settings_hash
        where = self._name, self._stream.received, self._asked
        self._send(Hello(*who, *where, self._clock()))

    def _allow(self) -> None:
        self.on_allowed(self._stream.valid_until, self.number)

    async def _look_for_end(self) -> None:
        """The hub may have ended while this process did not hear it."""
        with suppress(BusError):
            crawl, _ = await read(self.bus, CRAWL, CrawlRecord)
            if crawl is not None and crawl.id != self._brief.crawl:
                self._end_crawl(CHANGED)
            elif crawl is not None and crawl.end:
                self._end_crawl(crawl.end)

    # Messages

    def receive(self, data: bytes) -> None:
        """Take a message from the bus."""
        try:
            message = read_by_fetcher(data)
        except DecodeError:
            return
        match message:
            case Packet():
                self._receive(message)
            case Welcome() if message.session == self._asked and not self.is_connected:
                self._begin(message)
            case Refusal(session) if session == self._asked:
                self._end_crawl(CHANGED)
            case Over(session) if session == self._stream.session:
                self._begin_again()

    def _receive(self, packet: Packet) -> None:
        had_session = self._stream.session
        try:
            self._stream.receive(packet)
        except Exception as error:  # of the message, or our own in carrying it out
            line = "%s has sent what cannot be carried out, and this process begins again: %r"
            own = None if isinstance(error, DecodeError) else error
            logger.error(line, self._hub.capitalize(), error, exc_info=own)
            self.end_session()
            self._end_crawl(CHANGED)
            return
        if had_session and not self._stream.session:  # a gap
            self._begin_again()

    def _begin_again(self) -> None:
        self.end_session()
        if not self._is_leaving:
            self._greet()

    def _begin(self, welcome: Welcome) -> None:
        if welcome.stream != self._name:
            if self._name:
                self._renew()
            self._name = welcome.stream
        self._ticks = 0
        logger.info("A session with %s of the crawl %s begins", self._hub, self._brief.crawl)
        self._stream.begin(welcome.session, welcome.received, welcome.echo, 0.0)
        self._allow()

    def _on_message(self, message: Message) -> None:
        match message:
            case Allowed():  # of the hub's own machine
                return
            case GiveBack():
                self.on_recall()
            case End(reason) if reason == HUB_ENDS and self._brief.hubs > 1:
                self._end_hub()
            case _:
                super()._on_message(message)

    def _end_hub(self) -> None:
        self.is_ending = True
        self.on_hub_end()
        self._leave_hub()

    def _leave_hub(self) -> None:
        """Exit for a hub that ends, once it has all leases back, unless the crawl ends too."""
        if self.is_ending and not self._keys and not self._end.is_set():
            self.exit(HUB_ENDS, {})

    def _renew(self) -> None:
        """The hub has a new stream for this fetcher, and none of its leases."""
        line = "A new stream of %s begins: %d leases are given up"
        logger.warning(line, self._hub, len(self._keys))
        self._forget_leases()
        self._stream = self._sock = self._new_stream()
        self._channel = Channel(self._on_message, self._on_lost)
        self._stream.connect(self._channel)
        self._tracked.say_again(MOMENTARY)
        self._next_at, self.has_requisites = (0.0, 0.0, inf), False
        self._is_finished = self.is_ending = self.has_exited = False
        self.on_renewed()  # it may have been restored from a checkpoint

    def _forget_leases(self) -> None:
        """No answer comes any more in the stream so far."""
        self._keys.clear()
        futures = sum(self._unanswered.values(), self._futures)
        self._unanswered, self._calls, self._futures = {}, [], []
        for future in futures:
            if not future.done():
                future.set_exception(StreamOverError("the hub has not answered"))

    def _open(self) -> None:
        """The stream is connected already, whether a session is on or not."""

    def _on_lost(self) -> None:
        """The stream goes on in the next session."""
