"""Distinguishes an outage of our own network from failures of single hosts.

A transient failure is held back until its cause is decided. If another host answers, the failing
host is the cause. If no host answers for QUIET_S, probes decide: they ask name servers for names,
and connect, without a request, to servers that answered earlier or failed just now. If all is
silent while requests are under way, `is_silent` says so, and one of these counts as failed: their
time-outs would come much later. If no probe is answered, our network is the cause: the crawl
pauses, no try is counted, and a few probes per second test whether the network is back.

Owns this decision and its evidence. A core module that does I/O, through two probes that are its
arguments, and reads the monotonic clock. Knows nothing of leases.

Memory, once for name servers and once for servers: `_TARGETS_MAX` hosts that answered lately,
`_TARGETS_MAX` hosts that failed since, and the held failures, at most one per running fetch.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from webcrawl.base.openfiles import is_ours
from webcrawl.fetch.gate import Gate
from webcrawl.fetch.requesthead import split_url
from webcrawl.frontier.host import real_address
from webcrawl.parse.domains import is_address

logger = logging.getLogger(__name__)

QUIET_S: Final = 1.0  # probes decide after this time without an answer
PROBE_TIMEOUT_S: Final = 3.0
PROBES: Final = 3  # at a time, of each kind
MANY: Final = 3  # so many hosts, and addresses, must be silent before our network is suspected
SILENT_S: Final = 3.0  # without any answer
SILENCE_AGAIN_S: Final = 60.0  # of hosts that are only slow, no more probes than these
DOUBT_S: Final = 120.0  # longest pause if the hosts may also be the cause
# A time-out this soon after an outage belongs to it: DOWNLOAD_TIMEOUT's default.
AFTER_S: Final = 15.0
_TARGETS_MAX: Final = 32
OUTAGE_MAX_S: Final = 6 * 3600.0  # the longest pause: as long as a night without an engineer


class Target(NamedTuple):
    """A server that a probe can connect to."""

    address: str
    port: int


class _Kind:
    """Name servers or servers. `answered` and `failed` have the last hosts of which an answer came,
    or none since then, each with the argument of its probe: a name, or a Target.
    """

    def __init__(self, probe: Callable[[Any], Awaitable[bool]]) -> None:
        self.answered: dict[str, Any] = {}
        self.failed: dict[str, Any] = {}
        self.answered_at = -1e9
        self.is_down = False
        self.held: list[asyncio.Future[bool]] = []  # failures whose cause is not decided yet
        self._kept_at = -1e9  # when the last of `answered` was kept
        self._probe = probe

    def answer(self, now: float) -> bool:
        """Note an answer; whether to `keep` its source as a target of probes."""
        self.answered_at = now
        self.is_down = False
        if self.held or self.failed:
            self.failed.clear()
            self.judge(ours=False)
        return now > self._kept_at + QUIET_S or len(self.answered) < MANY

    def keep(self, host: str, where: object, now: float) -> None:
        _put(self.answered, host, where)
        self._kept_at = now

    def fail(self, host: str, where: object) -> asyncio.Future[bool]:
        """Hold a failure back. The result: whether it is ours."""
        _put(self.failed, host, where)
        self.held.append(asyncio.get_running_loop().create_future())
        return self.held[-1]

    def judge(self, *, ours: bool) -> None:
        """Decide all held failures: `ours`, or the fault of the hosts."""
        held, self.held = self.held, []
        for failure in held:
            if not failure.done():
                failure.set_result(ours)

    async def is_silent(self, count: int = PROBES) -> bool:
        """Whether no probe is answered, of `count` hosts that answered before.

        If there are fewer than PROBES of these, also of hosts that failed.
        """
        asked = _some(self.answered, count)
        asked += _some(self.failed, PROBES - len(asked))
        probes = [asyncio.ensure_future(self._probe(where)) for where in asked]
        try:
            for answer in asyncio.as_completed(probes):
                if await answer:
                    return False
        finally:
            for probe in probes:
                probe.cancel()
        return bool(asked)


def _put(hosts: dict[str, Any], host: str, where: object) -> None:
    hosts.pop(host, None)
    hosts[host] = where
    if len(hosts) > _TARGETS_MAX:
        del hosts[next(iter(hosts))]


def _some(hosts: dict[str, Any], count: int) -> list[Any]:
    return random.sample([*hosts.values()], min(max(count, 0), len(hosts)))


class Outage:
    """Decides about transient failures, and pauses the crawl during an outage of our own network.

    `ask` asks the name servers for a name and `connect` connects to a server: both return whether
    there was an answer, and raise nothing. `changed` is called when an outage begins and when it
    ends, `give_up` when an outage has lasted for `max_s`.

    If no server has ever answered, or all failures are at one or two addresses, the hosts may also
    be the cause: after DOUBT_S all failures count as the hosts' fault, until a server answers. If
    `max_s` is 0, failures always count as the hosts' fault.

    With a proxy, `proxy_problem` says why it could not be used at the last probe, "" if it could:
    then no other evidence is needed.
    """

    def __init__(
        self,
        ask: Callable[[str], Awaitable[bool]],
        connect: Callable[[Target], Awaitable[bool]],
        *,
        max_s: float,
        gate: Gate | None = None,
        proxy_problem: Callable[[], str] | None = None,
    ) -> None:
        self._gate = gate or Gate()
        self._proxy_problem = proxy_problem or str
        self._has_proxy = proxy_problem is not None
        self.changed: Callable[[], None] = lambda: None
        self.give_up: Callable[[], None] = lambda: None
        self._names, self._servers = self._kinds = _Kind(ask), _Kind(connect)
        self._max_s = max_s
        self._nobody_listens = False  # at the addresses of the name servers
        self._since = 0.0  # when the present outage began; 0.0 without one
        self._earlier_s = 0.0  # duration of all earlier outages
        self._silence_at = -1e9  # when `is_silent` last was true
        self._ended_at = -1e9  # when the last outage ended
        self._are_hosts = False  # failures count as the hosts' fault, until a server answers
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def is_on(self) -> bool:
        """Whether there is an outage, so that the crawl pauses."""
        return self._since > 0.0

    @property
    def seconds(self) -> float:
        """Duration of all outages of this run."""
        return self._earlier_s + (time.monotonic() - self._since if self.is_on else 0.0)

    @property
    def failures(self) -> list[tuple[str, str]]:
        """Hosts that failed since the last answer, each with the reason."""
        dns = [(host, "dns") for host in self._names.failed]
        return dns + [(host, "connect") for host in self._servers.failed]

    def name_answered(self, host: str, now: float, *, has_address: bool) -> None:
        """A name server answered for `host`: with addresses, or definitely without."""
        self._nobody_listens = False
        if self._names.answer(now) and has_address:
            self._names.keep(host, host, now)

    def server_answered(self, host: str, address: str, url: str, now: float) -> None:
        """A request for `url` on `host` was answered. 0.3 µs; a few µs once per QUIET_S."""
        servers = self._servers
        if servers.answer(now):
            servers.keep(host, _target(host, address, url), now)
            if not self._names.answered and not is_address(host):
                self._names.answered[host] = host  # its name was resolved
        self._are_hosts = False

    def is_silent(self, now: float) -> bool:
        """Whether servers that have answered before have been silent for SILENT_S.

        True at most once per SILENCE_AGAIN_S.
        """
        if now < self._servers.answered_at + SILENT_S or now < self._silence_at + SILENCE_AGAIN_S:
            return False
        self._silence_at = now
        return bool(self._servers.answered)

    async def is_ours_for_name(self, host: str, *, nobody_listens: bool = False) -> bool:
        """Whether the look-up of `host` failed because of our network. A few seconds at worst.

        `nobody_listens`: the address of the name server refused the query.
        """
        self._nobody_listens |= nobody_listens
        return await self._is_ours(self._names, host, host)

    async def is_ours_for_server(
        self, host: str, address: str, url: str, *, timed_out: bool = False
    ) -> bool:
        """Whether a request for `url` failed because of our network. A few seconds at worst."""
        if timed_out and time.monotonic() < self._ended_at + AFTER_S:
            return True
        return await self._is_ours(self._servers, host, _target(host, address, url))

    def close(self) -> None:
        """Decide no more failures: from now on no failure counts as a host's fault."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
        self._judge_all(ours=True)

    async def _is_ours(self, kind: _Kind, host: str, where: object) -> bool:
        if self._closed or self.is_on:
            return True
        verdict = kind.fail(host, where)
        if self._are_hosts or not self._max_s:
            kind.judge(ours=False)
        elif self._task is None or self._task.done():
            self._task = asyncio.create_task(self._watch())
        return await verdict

    def _judge_all(self, *, ours: bool) -> None:
        for kind in self._kinds:
            kind.judge(ours=ours)

    async def _watch(self) -> None:
        """Decide the held failures, and wait for the end of an outage."""
        try:
            while any(kind.held for kind in self._kinds):
                began_at = time.monotonic()
                await asyncio.sleep(QUIET_S)  # more answers and failures may arrive
                await self._gate.wait()  # a probe is a request: none is sent in a pause
                if not any(kind.held for kind in self._kinds):
                    return
                names, servers = await asyncio.gather(self._are_names_down(), self._is_down())
                self._names.is_down, self._servers.is_down = names, servers
                if names or servers:
                    await self._wait(began_at)
                else:
                    self._judge_all(ours=False)
        except Exception:  # a fault of ours: the held failures must not wait forever
            logger.exception("Error while looking for an outage")
            self._since = 0.0
            self._judge_all(ours=False)

    async def _are_names_down(self) -> bool:
        """Whether no name server answers, and enough names are known to be sure."""
        names = self._names
        is_sure = names.answered or self._nobody_listens or len(names.failed) >= MANY
        return bool(is_sure) and await self._is_silent(names)

    async def _is_down(self) -> bool:
        """Whether no server answers, and enough of them are known to be sure, or the proxy."""
        servers = self._servers
        if not servers.failed:
            return False
        if len(servers.failed.keys() | servers.answered.keys()) < MANY:
            if self._has_proxy:
                await servers.is_silent(1)  # one probe tests it
            if not self._proxy_problem():
                return False
        return await self._is_silent(servers)

    async def _is_silent(self, kind: _Kind) -> bool:
        asked_at = time.monotonic()
        return await kind.is_silent(_TARGETS_MAX) and kind.answered_at < asked_at

    async def _wait(self, since: float) -> None:
        """Pause the crawl, which had no answer `since` then, until the network is back, or until
        the longest pause is over.
        """
        self._since = since
        ago_s = time.monotonic() - since
        self._log_beginning(time.strftime("%H:%M:%S", time.gmtime(time.time() - ago_s)))
        self._judge_all(ours=True)
        self.changed()
        doubtful = self._is_doubtful()
        max_s = min(self._max_s, DOUBT_S) if doubtful else self._max_s
        while any(kind.is_down for kind in self._kinds):
            paused_at = time.monotonic()
            await self._gate.wait()
            since += time.monotonic() - paused_at
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
        self._nobody_listens = False
        if self._are_hosts:
            logger.warning("No answer for %.0f s: from now on failures count as the hosts'", took_s)
        else:
            self._ended_at = time.monotonic()
            logger.warning("The network is back after %.0f s: the crawl continues", took_s)
        self.changed()

    def _log_beginning(self, began: str) -> None:
        if problem := self._proxy_problem():
            logger.warning(
                "%s, since %s UTC: the crawl pauses until the proxy can be used again",
                *(problem, began),
            )
            return
        what, kind = ("server", self._servers)
        if self._names.is_down:
            what, kind = ("name server", self._names)
        asked = ", ".join([*{**kind.failed, **kind.answered}][:PROBES])
        logger.warning(
            "No answer from any %s since %s UTC (asked for %s): this is an outage of our own"
            " network, and the crawl pauses until it is over",
            *(what, began, asked),
        )

    def _is_doubtful(self) -> bool:
        """Whether hosts may be the cause: no server has ever answered, or few addresses fail."""
        if self._proxy_problem():
            return False
        if not self._servers.answered:
            return True
        targets = [*self._servers.failed.values(), *self._servers.answered.values()]
        return not self._names.is_down and len({target.address for target in targets}) < MANY

    async def _probe_again(self) -> None:
        for kind in self._kinds:
            if kind.is_down and not await kind.is_silent():
                kind.is_down = False


def _target(host: str, address: str, url: str) -> Target:
    """The server of a request for `url`: by the name of its host if a proxy looks that up."""
    return Target(real_address(address) or host, split_url(url).port)


async def connects(target: Target) -> bool:
    """Whether a connection to `target` succeeds. Sends nothing.

    Also True if this process has no socket left: that is no sign of an outage.
    """
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            _, writer = await asyncio.open_connection(*target)
    except OSError as error:  # TimeoutError is one
        return is_ours(error)
    writer.transport.abort()
    return True
