"""Whole crawls by a hub and fetchers on a bus in virtual time, whatever befalls them.

Processes are killed, stopped and cut off, messages are lost, the bus is away, its records are wiped
and spoiled. Frontier, server, sessions, records and gates are the real ones. SIM_SEEDS=400 runs as
many crawls.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.contracts.frontier import link
from tests.sim.bus import Net
from tests.sim.machines import DELAY_S, HubMachine, RemoteMachine
from tests.sim.network import Loop
from tests.sim.test_hub import SEEDS, Plant, virtual_time
from tests.sim.web import BrokenPromiseError, Judge, Web
from tests.unit.virtualtime import now
from webcrawl.frontier.store import StoreError
from webcrawl.hub.fetching import HubFrontier
from webcrawl.hub.packets import hub_subject
from webcrawl.hub.records import CRAWL
from webcrawl.hub.sessions import Sessions
from webcrawl.hub.streams import Stream

__all__ = ["virtual_time"]  # a fixture
LONGEST_S = 10_000
# What befalls a crawl every few seconds, and how often it does.
FATES = {
    "kill": 6, "exit": 4, "join": 12, "stop": 8, "cut": 16, "hub": 3, "stop hub": 3, "cut hub": 3,
    "bus": 3, "wipe": 3, "spoil": 3, "": 40,
}  # fmt: skip


class World:
    """One crawl. A seed decides everything."""

    def __init__(self, seed: int, folder: Path, fates: dict[str, int]) -> None:
        loop: Any = asyncio.get_running_loop()
        self.random: Random = loop.random
        self.web = Web(seed, hosts=48, pages=12)
        self.judge = Judge(self.web, delay_s=DELAY_S)
        self.net = Net(self.random)
        self.folder = folder
        self.fates = fates
        self.fell: Counter[str] = Counter()
        self.hub = HubMachine(self.web, self.judge, folder, self.net)
        self._names = 0
        self.fetchers: list[RemoteMachine] = []

    def join(self) -> None:
        self._names += 1
        name = f"f{self._names}"
        self.fetchers.append(RemoteMachine(self.web, self.judge, self.net, name))

    async def run(self) -> None:
        await self.hub.server.put([link(url) for url in self.web.seeds], now())
        for _ in range(2):
            self.join()
        until = now() + LONGEST_S
        while not self.hub.own.is_finished() and self.judge.fault is None:
            await asyncio.sleep(self.random.expovariate(1 / 4.0))
            if now() > until:
                raise BrokenPromiseError("it does not end")
            if self.hub.refusal:
                raise BrokenPromiseError(self.hub.refusal)
            fate = self.random.choices([*self.fates], [*self.fates.values()])[0]
            self.fell[fate] += 1
            await self.befall(fate)
        await self._calm_down()
        for fetcher in self.fetchers:
            fetcher.kill()
        self.judge.ends(self.hub.own)
        self.hub.kill()

    async def _calm_down(self) -> None:
        """Nothing befalls them any more: soon all fetchers are served."""
        self.net.lost = 0.0
        self.join()
        await asyncio.sleep(120.0)
        alone = [each for each in self.fetchers if not each.remote._stream.session]
        if alone and self.judge.fault is None:
            raise BrokenPromiseError(f"{len(alone)} fetchers have no session")

    async def befall(self, fate: str) -> None:
        random, victim = self.random, None
        if self.fetchers:
            victim = random.choice(self.fetchers)
        match fate:
            case "kill" if victim:
                self.fetchers.remove(victim)
                victim.kill()
            case "exit" if victim:
                self.fetchers.remove(victim)
                victim.bus.stopped_until = 0.0
                await victim.exit()
            case "join" if len(self.fetchers) < 5:
                self.join()
            case "stop" if victim:
                victim.bus.stopped_until = now() + random.expovariate(1 / 15)
            case "cut" if victim:
                self._cut(victim, random.expovariate(1 / 15))
            case "stop hub":
                self.hub.bus.stopped_until = now() + random.expovariate(1 / 15)
            case "cut hub":
                self._cut(self.hub, random.expovariate(1 / 15))
            case "hub":
                self.hub.kill()
                await asyncio.sleep(random.expovariate(1 / 5))
                self.hub = HubMachine(self.web, self.judge, self.folder, self.net)
            case "bus":
                self.net.go_down()
                await asyncio.sleep(random.random() * 30)
                self.net.is_down = False
            case "wipe":
                self.net.wipe()
            case "spoil":
                self.net.spoil(random.choice([CRAWL, hub_subject(0)]))

    def _cut(self, machine: RemoteMachine | HubMachine, seconds: float) -> None:
        bus = machine.bus
        bus.is_cut = True

        def mend() -> None:
            bus.is_cut = False

        asyncio.get_running_loop().call_later(seconds, mend)


def run(seed: int, folder: Path, fates: dict[str, int] = FATES) -> World:
    async def crawl() -> World:
        world = World(seed, folder, fates)
        await world.run()
        return world

    with asyncio.Runner(loop_factory=lambda: Loop(seed)) as runner:
        return runner.run(crawl())


@pytest.mark.parametrize("seed", SEEDS)
def test_no_page_is_lost_or_early_whatever_befalls(seed: int, tmp_path: Path) -> None:
    assert run(seed, tmp_path).judge.fault is None


def leases_back_at_once(patch: pytest.MonkeyPatch) -> None:
    """A hub takes back the leases of a silent fetcher, which may still send a request."""
    real = Sessions.__init__

    def make(self: Sessions, *args: Any, **options: Any) -> None:
        real(self, *args, **options)
        self._lost_ticks = 3

    patch.setattr(Sessions, "__init__", make)


def requests_without_a_session(patch: pytest.MonkeyPatch) -> None:
    """A fetcher that does not hear the hub goes on."""
    patch.setattr(HubFrontier, "end_session", lambda self: self._stream.end())
    patch.setattr(Stream, "valid_until", property(lambda self: now() + 3_600))


@pytest.mark.parametrize(
    "plant",
    [
        leases_back_at_once,
        requests_without_a_session,
    ],
)
def test_planted_faults(plant: Plant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    monkeypatch.setattr("tests.sim.test_machines.LONGEST_S", 2_000)
    assert any(is_seen(seed, tmp_path / str(seed)) for seed in range(12))


def is_seen(seed: int, folder: Path) -> bool:
    try:
        return run(seed, folder).judge.fault is not None
    except (AssertionError, StoreError):
        return True
