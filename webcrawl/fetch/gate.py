"""The gate before each request of a process: a paused crawl shuts it.

Pages, robots.txt, HEAD and DNS look-ups pass the gate last, directly before they are sent. So no
list of the requests under way is needed to stop them: a request that was not sent when the gate was
shut waits here, and is sent when the gate is opened again.

A process of a crawl on several machines may send requests for some seconds after it has heard of
the hub or, as a hub, of the bus (`allow_until`). That time is read at each request, so a process
that was stopped for longer sends none when it goes on. With several hubs, each allows requests to
its own hosts: the gate holds those of the others.

Invariant: while the gate holds a URL, no sender sends a request for it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from math import inf
from typing import Protocol

from webcrawl.fetch.exchange import FetchFailed

# A request that was sent just before may still be on its way to its server. An answer shows that it
# has arrived. Without an answer we wait this long: longer than any usual way.
SETTLE_S = 1.0
PAUSE = "pause"  # why the gate is shut: a user's command
DISK = "disk"  # a disk is nearly full
_POLL_S = 0.01

Matches = Callable[[str], bool]  # of a URL


class Sender(Protocol):
    """Sends requests that have passed the gate."""

    def stop_unsent(self, matches: Matches, *, is_final: bool) -> None:
        """Take the requests back that are not sent yet and whose URL `matches`: each passes the
        gate again. `is_final`: end them, with FetchFailed("cancelled").
        """

    def unanswered(self, matches: Matches) -> int:
        """How many requests with such a URL are sent, and have no byte of an answer."""


class Gate:
    """Open at first.

    senders -- the clients of the process
    hub_of -- the hub that has the host of a URL; None: the URL has no host
    """

    def __init__(self) -> None:
        self._shut_for: set[str] = set()
        self.senders: list[Sender] = []
        self.hub_of: Callable[[str], int | None] = lambda url: 0
        self._has_ended = False
        self._allowed_until: dict[int, float] = {}  # by hub
        self._first = self._last = inf  # the earliest and the latest of these times
        self._timer: asyncio.TimerHandle | None = None  # at the next of them
        self._waiting: dict[asyncio.Future[None], str] = {}

    def __repr__(self) -> str:
        return f"<Gate {'shut' if self.is_shut else 'open'}, {len(self._waiting)} waiting>"

    @property
    def is_shut(self) -> bool:
        """Whether no request may be sent."""
        return bool(self._shut_for) or (self._last < inf and self.is_cut_off)

    @property
    def holds_some(self) -> bool:
        """Whether any request must `wait`: one look for the usual case."""
        if self._shut_for:
            return True
        return self._first < inf and time.monotonic() >= self._first

    def holds(self, url: str) -> bool:
        """Whether the request for `url` must `wait`; "" is a request to no host of the crawl."""
        if not self.holds_some:
            return False
        if not url or self.is_shut:
            return self.is_shut
        hub = self.hub_of(url)
        return hub is not None and time.monotonic() >= self._allowed_until.get(hub, inf)

    @property
    def is_paused(self) -> bool:
        """Whether a user has paused the crawl, whatever else shuts the gate."""
        return PAUSE in self._shut_for

    @property
    def is_cut_off(self) -> bool:
        """Whether this process has lost all hubs of its crawl (`allow_until`)."""
        return time.monotonic() >= self._last

    async def wait(self, url: str = "") -> None:
        """Return when the request for `url` may be sent. FetchFailed("cancelled") if it may not."""
        while self.holds(url):
            if self._has_ended:
                raise _cancelled()
            opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting[opened] = url
            try:
                await opened
            finally:
                del self._waiting[opened]

    def shut(self, why: str = PAUSE) -> None:
        """Shut the gate for one more reason."""
        self._shut_for.add(why)
        self._hold_unsent()

    def open(self, why: str = PAUSE) -> None:
        """Open the gate, unless it is shut for another reason too."""
        self._shut_for.discard(why)
        self._open()

    def allow_until(self, at: float, hub: int = 0) -> None:
        """From `at` on (monotonic) requests to hosts of `hub` are held. At first: inf."""
        self._allowed_until[hub] = at
        self._first = min(self._allowed_until.values())
        self._last = max(self._allowed_until.values())
        self._watch()
        self._open()

    def _watch(self) -> None:
        """Hold what is not allowed any more, now and at the next of the times."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now = time.monotonic()
        if self._first <= now:
            self._hold_unsent()
        next_at = min((at for at in self._allowed_until.values() if at > now), default=inf)
        if next_at < inf:
            self._timer = asyncio.get_running_loop().call_later(next_at - now, self._watch)

    def _hold_unsent(self) -> None:
        for sender in self.senders:
            sender.stop_unsent(self.holds, is_final=False)

    def _open(self) -> None:
        for opened, url in self._waiting.items():
            if not opened.done() and not self.holds(url):
                opened.set_result(None)

    def end(self) -> None:
        """The crawl ends: requests that wait, or come to a shut gate from now on, are cancelled."""
        self._has_ended = True
        self._cancel(lambda url: True)

    def cut(self, matches: Matches) -> None:
        """Cancel the requests whose URL `matches`, unless they are sent already.

        DNS look-ups and probes have no URL: they wait on.
        """
        self._cancel(lambda url: url != "" and matches(url))
        for sender in self.senders:
            sender.stop_unsent(matches, is_final=True)

    async def wait_until_sent(self, matches: Matches = lambda url: True) -> int:
        """Wait until servers have the requests whose URL `matches`: SETTLE_S at most.

        Returns how many of them have no answer yet. Call it when no more such requests are sent.
        """
        deadline = time.monotonic() + SETTLE_S
        while True:
            unanswered = sum(sender.unanswered(matches) for sender in self.senders)
            if not unanswered or time.monotonic() >= deadline:
                return unanswered
            await asyncio.sleep(_POLL_S)

    def _cancel(self, matches: Matches) -> None:
        for waiting, url in self._waiting.items():
            if matches(url) and not waiting.done():
                waiting.set_exception(_cancelled())


def _cancelled() -> FetchFailed:
    return FetchFailed("cancelled", ended_at=time.monotonic())
