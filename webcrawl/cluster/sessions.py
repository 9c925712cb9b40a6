"""The hub's end of all sessions: which fetchers there are, and when their leases go back.

A fetcher that ends cleanly hands its leases back itself. One that falls silent has sent its last
request when SILENCE_S are over; when the longest fetch is over too, its leases go back, as of hosts
that were asked until now. Silence is counted in ticks in which this process served: a hub that was
stopped, or had no bus, first listens again.

Owns the streams. Knows nothing of what they carry.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any

from msgspec import DecodeError

from webcrawl.cluster.bus import Bus
from webcrawl.cluster.packets import (
    ASK,
    SILENCE_S,
    TICK_S,
    Ask,
    Brief,
    Hello,
    Over,
    Packet,
    Refusal,
    ToFetcher,
    Welcome,
    encode,
    hub_subject,
    parts_of,
    read_by_hub,
    subject_of,
)
from webcrawl.cluster.streams import Clock, Stream
from webcrawl.hub.member import Member
from webcrawl.hub.server import FrontierServer
from webcrawl.hub.wire import NewRules
from webcrawl.scope.hostrules import HostRules

logger = logging.getLogger(__name__)

OnExit = Callable[[str, dict[str, Any]], None]


@dataclass(eq=False)
class Fetcher:
    """A process on another machine.

    member -- the hub's state of it
    name -- of its stream
    missed -- ticks since it was last heard
    is_refused -- it has sent what cannot be carried out, and gets no session with this stream
    """

    hello: Hello  # the last one
    name: str
    stream: Stream
    member: Member
    missed: int = 0
    is_refused: bool = False


class Sessions:
    """Serves fetchers while the clock is before `serves_until`; at first it serves none.

    longest_fetch_s -- from a request to the end of its fetch
    new_name -- a name that no stream had before
    number -- of this hub
    """

    def __init__(
        self,
        bus: Bus,
        server: FrontierServer,
        brief: Brief,
        rules: HostRules | None,
        *,
        longest_fetch_s: float,
        clock: Clock,
        new_name: Callable[[], str],
        on_exit: OnExit,
        number: int = 0,
    ) -> None:
        self.serves_until = -inf
        self._bus = bus
        self._server = server
        self._brief = brief
        self._rules = rules
        self._clock = clock
        self._new_name = new_name
        self._on_exit = on_exit
        self._number = number
        self._silent_ticks = SILENCE_S / TICK_S
        self._lost_ticks = (SILENCE_S + longest_fetch_s) / TICK_S
        self._fetchers: dict[str, Fetcher] = {}  # by the name of the process
        self._sessions: dict[str, Fetcher] = {}  # by the name of the session
        self._forgetting: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<Sessions of {len(self._fetchers)} fetchers>"

    async def open(self) -> None:
        await self._bus.subscribe(ASK, self.receive)
        await self._bus.subscribe(hub_subject(self._number), self.receive)

    @property
    def serves(self) -> bool:
        return self._clock() < self.serves_until

    def receive(self, data: bytes) -> None:
        """Take a message from the bus."""
        if not self.serves:
            return
        try:
            message = read_by_hub(data)
        except DecodeError:
            return
        match message:
            case Packet():
                self._receive(message)
            case Hello():
                self._greet(message)
            case Ask(fetcher):
                for part in parts_of(self._brief):
                    self._send(fetcher, part)

    def tick(self) -> None:
        """Once each TICK_S."""
        if not self.serves:
            self.end_all()
            return
        for fetcher in tuple(self._fetchers.values()):
            stream = fetcher.stream
            fetcher.missed += 1
            if fetcher.member.has_exited:
                stream.confirm()  # its last message
                self._drop(fetcher)
            elif fetcher.missed > self._lost_ticks or stream.is_closing():
                self._drop(fetcher)
            elif fetcher.missed > self._silent_ticks:
                self._end(fetcher)
            else:
                stream.tick()

    def end_all(self) -> None:
        """The bus is lost, or this process is not the hub now: all sessions end."""
        for fetcher in self._fetchers.values():
            self._end(fetcher)

    async def close(self) -> bool:
        """The crawl has ended in this process, and the server is closed.

        Whether all fetchers have left: no other one fetches what it has leased.
        """
        self.tick()
        have_left = not self._fetchers
        for fetcher in tuple(self._fetchers.values()):
            fetcher.stream.abort()
        if self._forgetting:
            await asyncio.wait(self._forgetting)
        return have_left

    def _send(self, fetcher: str, message: ToFetcher) -> None:
        self._bus.publish(subject_of(fetcher), encode(message))

    def _receive(self, packet: Packet) -> None:
        fetcher = self._sessions.get(packet.session)
        if fetcher is None:
            self._send(packet.session, Over(packet.session))
            return
        fetcher.missed = 0
        try:
            fetcher.stream.receive(packet)
        except Exception as error:  # of the other end's message, or our own in carrying it out
            unread = isinstance(error, DecodeError)
            line = "Fetcher %s has sent what cannot be carried out: %r"
            logger.error(line, fetcher.hello.place, error, exc_info=None if unread else error)
            fetcher.is_refused = True
            fetcher.stream.end()
        if not fetcher.stream.session:  # a gap
            del self._sessions[packet.session]
            self._send(packet.session, Over(packet.session))

    def _greet(self, hello: Hello) -> None:
        """Begin a session, or begin it again: the answer to the first Hello may be lost."""
        if (hello.crawl, hello.settings) != (self._brief.crawl, self._brief.settings_hash):
            self._send(hello.fetcher, Refusal(hello.session))
            return
        fetcher = self._fetchers.get(hello.fetcher)
        if fetcher is None:
            if self._server.is_ending:
                return
            fetcher = self._serve(hello)
        elif _is_late(hello, fetcher):
            return
        self._end(fetcher)
        self._sessions[hello.session] = fetcher
        fetcher.hello, fetcher.missed, stream = hello, 0, fetcher.stream
        welcome = Welcome(hello.session, fetcher.name, stream.received, hello.sent_at)
        self._send(hello.fetcher, welcome)
        received = hello.received if hello.stream == fetcher.name else 0
        stream.begin(hello.session, received, 0.0, hello.sent_at)

    def _serve(self, hello: Hello) -> Fetcher:
        publish = partial(self._bus.publish, subject_of(hello.fetcher))
        stream = Stream(lambda packet: publish(encode(packet)), self._clock)
        logger.info("Fetcher %s joins", hello.place)

        def on_disconnect(leases: int) -> None:
            if not fetcher.member.has_exited:
                logger.warning("Fetcher %s is lost: its %d leases go back", hello.place, leases)

        member = self._server.serve(stream, on_exit=self._on_exit, on_disconnect=on_disconnect)
        if self._rules is not None:  # before the first lease
            member.channel.send(NewRules(list(self._rules.rules)))
        fetcher = Fetcher(hello, self._new_name(), stream, member)
        self._fetchers[hello.fetcher] = fetcher
        return fetcher

    def _end(self, fetcher: Fetcher) -> None:
        self._sessions.pop(fetcher.stream.session, None)
        fetcher.stream.end()

    def _drop(self, fetcher: Fetcher) -> None:
        """Its leases go back."""
        self._end(fetcher)
        del self._fetchers[fetcher.hello.fetcher]
        if fetcher.member.has_exited:
            logger.info("Fetcher %s has left", fetcher.hello.place)
        fetcher.stream.abort()
        task = asyncio.create_task(self._server.forget(fetcher.member))
        self._forgetting.add(task)
        task.add_done_callback(self._forgetting.discard)


def _is_late(hello: Hello, fetcher: Fetcher) -> bool:
    """Whether `hello` was on its way too long, or comes from a fetcher that is refused."""
    knows_stream = hello.stream == fetcher.name or not fetcher.stream.received
    return fetcher.is_refused or hello.sent_at < fetcher.hello.sent_at or not knows_stream
