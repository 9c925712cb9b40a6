"""Tells an outage of our own network from the trouble of single hosts.

A failure that may pass is held back until it is judged. When another host answers, the failure is
the host's. When nobody answers for a moment, probes decide: the name servers are asked for names,
and servers that answered before (or have just failed) are connected to, without a request. If none
of these answers, it is our network: the crawl pauses, no try is counted, and a few probes a second
look whether the network is back.

Owns that judgement and its evidence. Core, but here to do I/O, by the two probes that it is given;
reads the monotonic clock. Knows nothing of leases.

Memory: `_TARGETS_MAX` hosts that answered lately and as many that failed since, of each kind; and
the failures that wait to be judged, at most one for each fetch under way.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, NamedTuple, TypeVar

from webcrawl.fetch.client import split_url
from webcrawl.openfiles import is_ours

logger = logging.getLogger(__name__)

QUIET_S: Final = 1.0  # without an answer, then probes decide
PROBE_TIMEOUT_S: Final = 3.0
PROBES: Final = 3  # at a time, of each kind
MANY: Final = 3  # hosts, and addresses, that must be silent before it may be us
DOUBT_S: Final = 120.0  # how long is waited where it may as well be the hosts
AFTER_S: Final = 15.0  # a time-out so soon after an outage was begun within it, by default
_TARGETS_MAX: Final = 32


class Target(NamedTuple):
    """A server that may be connected to."""

    address: str
    port: int


Where = TypeVar("Where")  # what a probe is given


class _Hosts(OrderedDict[str, Where]):
    """The last few hosts of some kind, each with how to probe it."""

    def keep(self, host: str, where: Where) -> None:
        self[host] = where
        self.move_to_end(host)
        if len(self) > _TARGETS_MAX:
            self.popitem(last=False)

    def some(self, count: int) -> list[Where]:
        return random.sample(list(self.values()), min(count, len(self)))


class _Kind(Generic[Where]):
    """Name servers, or servers: which hosts they answered for, and which failed since."""

    def __init__(self, probe: Callable[[Where], Awaitable[bool]]) -> None:
        self.answered: _Hosts[Where] = _Hosts()
        self.failed: _Hosts[Where] = _Hosts()  # since the last answer
        self.answered_at = -1e9
        self.kept_at = -1e9  # when the last of `answered` was kept
        self.is_down = False
        self.held: list[asyncio.Future[bool]] = []  # failures to be judged
        self._probe = probe

    def wants_another(self, now: float) -> bool:
        """Whether it is worth remembering where the answer that came at `now` is from."""
        return now > self.kept_at + QUIET_S or len(self.answered) < MANY

    def keep(self, host: str, where: Where, now: float) -> None:
        self.answered.keep(host, where)
        self.kept_at = now

    def answer(self, now: float) -> None:
        self.answered_at = now
        self.is_down = False
        if self.held or self.failed:
            self.failed.clear()
            self.judge(ours=False)

    def judge(self, *, ours: bool) -> None:
        """Let all failures go that are held back."""
        held, self.held = self.held, []
        for failure in held:
            if not failure.done():
                failure.set_result(ours)

    async def is_silent(self, count: int = PROBES) -> bool:
        """Whether none of some probes is answered: `count` where somebody answered before."""
        asked = self.answered.some(count)
        asked += self.failed.some(max(PROBES - len(asked), 0))
        probes = [asyncio.ensure_future(self._probe(where)) for where in asked]
        try:
            for answer in asyncio.as_completed(probes):
                if await answer:
                    return False
        finally:
            for probe in probes:
                probe.cancel()
        return bool(asked)


class Outage:
    """See the module. `ask` asks the name servers for a name, and `connect` connects to a server:
    each says whether there was an answer, and raises nothing.

    `changed` is called when an outage begins and when it ends; `give_up` when one has lasted for
    `max_s`. Where no server has answered before, or all that fail are at one or two addresses, it
    may as well be the hosts: after DOUBT_S failures are theirs until a server answers. With a
    `max_s` of 0 they always are.
    """

    def __init__(
        self,
        ask: Callable[[str], Awaitable[bool]],
        connect: Callable[[Target], Awaitable[bool]],
        *,
        max_s: float,
    ) -> None:
        self.changed: Callable[[], None] = lambda: None
        self.give_up: Callable[[], None] = lambda: None
        self._names = _Kind(ask)
        self._servers = _Kind(connect)
        self._kinds: tuple[_Kind[Any], ...] = (self._names, self._servers)
        self._max_s = max_s
        self._nobody_listens = False  # where the name servers should be
        self._since = 0.0  # the beginning of the outage that is on
        self._earlier_s = 0.0  # of all outages before
        self._judged_at = -1e9  # when probes found last that it is not us
        self._ended_at = -1e9  # the last outage
        self._are_hosts = False  # to blame, until a server answers
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def __repr__(self) -> str:
        return f"<Outage {'on' if self.is_on else 'off'}>"

    @property
    def is_on(self) -> bool:
        """Whether the crawl is to pause."""
        return self._since > 0.0

    @property
    def seconds(self) -> float:
        """How long all outages of this run took."""
        return self._earlier_s + (time.monotonic() - self._since if self.is_on else 0.0)

    @property
    def failures(self) -> list[tuple[str, str]]:
        """Some hosts that nobody answered for lately, each with the reason."""
        dns = [(host, "dns") for host in self._names.failed]
        return dns + [(host, "connect") for host in self._servers.failed]

    def name_answered(self, host: str, now: float, *, has_address: bool) -> None:
        """A name server said of `host` where it is, or for sure that it is nowhere."""
        self._nobody_listens = False
        if has_address and self._names.wants_another(now):
            self._names.keep(host, host, now)
        self._names.answer(now)

    def server_answered(self, host: str, address: str, url: str, now: float) -> None:
        """A request for `url` on `host` was answered. 0.3 us; a few us once in QUIET_S."""
        servers = self._servers
        if servers.wants_another(now):
            servers.keep(host, Target(address, split_url(url).port), now)
            if not self._names.answered and not is_address(host):
                self._names.answered.keep(host, host)  # somebody knew it once
        servers.answer(now)
        self._are_hosts = False

    async def is_ours_for_name(self, host: str, *, nobody_listens: bool = False) -> bool:
        """Whether our network is why nobody said where `host` is. Some seconds at the worst.

        `nobody_listens`: there is no name server at the address that was asked.
        """
        self._nobody_listens |= nobody_listens
        return await self._is_ours(self._names, host, host)

    async def is_ours_for_server(
        self, host: str, address: str, url: str, *, timed_out: bool = False
    ) -> bool:
        """Whether our network is why a request for `url` failed. Some seconds at the worst."""
        if timed_out and time.monotonic() < self._ended_at + AFTER_S:
            return True
        return await self._is_ours(self._servers, host, Target(address, split_url(url).port))

    def close(self) -> None:
        """Judge no more: nothing that fails from now on is a host's fault."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
        self._judge_all(ours=True)

    async def _is_ours(self, kind: _Kind[Where], host: str, where: Where) -> bool:
        if self._closed or self.is_on:
            return True
        kind.failed.keep(host, where)
        judged = self._are_hosts or time.monotonic() < self._judged_at + QUIET_S
        if judged or not self._max_s:
            return False
        verdict: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        kind.held.append(verdict)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look())
        return await verdict

    def _judge_all(self, *, ours: bool) -> None:
        for kind in self._kinds:
            kind.judge(ours=ours)

    async def _look(self) -> None:
        """Judge what is held back, and see an outage through."""
        try:
            await self._judge_held()
        except Exception:  # ours; what is held back must not wait for ever
            logger.exception("Error while looking for an outage")
            self._since = 0.0
            self._judge_all(ours=False)

    async def _judge_held(self) -> None:
        while any(kind.held for kind in self._kinds):
            began_at = time.monotonic()
            await asyncio.sleep(QUIET_S)  # answers may be on their way, and others may fail
            if not any(kind.held for kind in self._kinds):
                return
            names, servers = await asyncio.gather(*map(self._is_down, self._kinds))
            self._names.is_down, self._servers.is_down = names, servers
            if names or servers:
                await self._wait(began_at)
            else:
                self._judged_at = time.monotonic()
                self._judge_all(ours=False)

    async def _is_down(self, kind: _Kind[Any]) -> bool:
        """Whether nobody of `kind` answers, of as many hosts as it takes to be sure."""
        if kind is self._names:
            sure = kind.answered or self._nobody_listens or len(kind.failed) >= MANY
        else:
            sure = kind.failed and len(kind.failed.keys() | kind.answered.keys()) >= MANY
        if not sure:
            return False
        asked_at = time.monotonic()
        return await kind.is_silent(_TARGETS_MAX) and kind.answered_at < asked_at

    async def _wait(self, failed_at: float) -> None:
        """Pause the crawl until the network is back, or for as long as it may take."""
        self._since = since = self._silent_since(failed_at)
        began = time.strftime("%H:%M:%S", time.gmtime(time.time() - time.monotonic() + since))
        what = "name server" if self._names.is_down else "server"
        kind: _Kind[Any] = self._names if self._names.is_down else self._servers
        asked = ", ".join([*{**kind.failed, **kind.answered}][:PROBES])
        logger.warning(
            "No answer from any %s since %s UTC (asked for %s): this is an outage of our own"
            " network, and the crawl waits for its end",
            *(what, began, asked),
        )
        self._judge_all(ours=True)
        self.changed()
        doubtful = self._is_doubtful()
        max_s = min(self._max_s, DOUBT_S) if doubtful else self._max_s
        while any(kind.is_down for kind in self._kinds):
            if time.monotonic() - since < max_s:
                await asyncio.gather(self._probe_again(), asyncio.sleep(1.0))
            elif doubtful:
                self._are_hosts = True
                break
            else:
                self.give_up()
                return
        took_s = time.monotonic() - since
        self._earlier_s, self._since = self._earlier_s + took_s, 0.0
        self._judged_at = time.monotonic()
        self._nobody_listens = False
        if self._are_hosts:
            logger.warning("No answer for %.0f s: what fails now counts as the hosts'", took_s)
        else:
            self._ended_at = time.monotonic()
            logger.warning("The network is back after %.0f s: the crawl goes on", took_s)
        self.changed()

    def _silent_since(self, failed_at: float) -> float:
        """The last answer before the first failure at `failed_at`; not longer than a minute ago."""
        if not self._servers.is_down:
            return failed_at
        last = max(kind.answered_at for kind in self._kinds)
        return min(failed_at, last) if last > failed_at - 60.0 else failed_at

    def _is_doubtful(self) -> bool:
        """Whether hosts may be at fault: no server has answered before, or few addresses fail."""
        if not self._servers.answered:
            return True
        targets = [*self._servers.failed.values(), *self._servers.answered.values()]
        return not self._names.is_down and len({target.address for target in targets}) < MANY

    async def _probe_again(self) -> None:
        for kind in self._kinds:
            if kind.is_down and not await kind.is_silent():
                kind.is_down = False


def is_address(host: str) -> bool:
    """Whether `host` is an IP address: no top-level domain is all digits (RFC 3696, 2)."""
    return ":" in host or host[-1:].isdigit()


async def connects(target: Target) -> bool:
    """Whether a connection to `target` comes about. Nothing is sent.

    Also where there is no socket left to try it with, which says nothing of the network.
    """
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            _, writer = await asyncio.open_connection(*target)
    except OSError as error:  # TimeoutError is one
        return is_ours(error)
    writer.transport.abort()
    return True
