"""Whole crawls by several hubs and their fetchers in virtual time: what a fetcher promises.

The hubs have no sessions with each other here: their mail is carried by hand.
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
from tests.sim.test_hub import SEEDS, virtual_time
from tests.sim.web import BrokenPromiseError, Judge, Web
from tests.unit.virtualtime import now
from webcrawl.frontier.mailbox import decode_all
from webcrawl.hub.buckets import Buckets

__all__ = ["virtual_time"]  # a fixture
HUBS, HOSTS = 3, 48
LONGEST_S = 10_000
FATES = {
    "kill": 6, "exit": 4, "join": 12, "stop": 8, "cut": 16, "hub": 5, "stop hub": 5, "cut hub": 5,
    "bus": 3, "": 40,
}  # fmt: skip


class DividedWeb(Web):
    """No IP address has hosts of two hubs."""

    def address(self, host: str) -> str:
        return f"10.0.{BUCKETS.hub_of(host)}.{self.hosts.index(host) % 8}"


BUCKETS = Buckets(HUBS)


class World:
    """One crawl. A seed decides everything."""

    def __init__(self, seed: int, folder: Path) -> None:
        loop: Any = asyncio.get_running_loop()
        self.random: Random = loop.random
        self.web = DividedWeb(seed, hosts=HOSTS, pages=12)
        self.judge = Judge(self.web, delay_s=DELAY_S)
        self.net = Net(self.random)
        self.folder = folder
        self.fell: Counter[str] = Counter()
        self.hubs = [self.hub(number) for number in range(HUBS)]
        self.fetchers: list[RemoteMachine] = []
        self._names = 0
        self._mail = asyncio.create_task(self._carry_mail())

    def hub(self, number: int) -> HubMachine:
        folder = self.folder / str(number)
        return HubMachine(self.web, self.judge, folder, self.net, number, HUBS)

    def join(self) -> RemoteMachine:
        self._names += 1
        name = f"f{self._names}x"
        self.fetchers.append(RemoteMachine(self.web, self.judge, self.net, name, HUBS))
        return self.fetchers[-1]

    async def put_seeds(self) -> None:
        for number, hub in enumerate(self.hubs):
            seeds = [url for url in self.web.seeds if BUCKETS.hub_of(link(url).host) == number]
            await hub.server.put([link(url) for url in seeds], now())

    async def _carry_mail(self) -> None:
        while True:
            await asyncio.sleep(0.5)
            for sender in range(HUBS):
                for receiver in range(HUBS):
                    await self._carry(sender, receiver)

    async def _carry(self, sender: int, receiver: int) -> None:
        """In one turn of the loop: nobody is killed meanwhile."""
        source, target = self.hubs[sender].own, self.hubs[receiver].own
        first, _ = source.outbox.get(receiver, (1, 0))
        packed = await source.call(lambda state: state.packed(receiver, first - 1, 100, 1 << 20))
        if packed.number:
            last, mail = packed.first + packed.number - 1, decode_all(packed.data)
            await target.call(lambda state: state.receive_each([(sender, last, mail)], now()))
            await source.call(lambda state: state.sent(receiver, last))

    @property
    def is_finished(self) -> bool:
        owns = [hub.own for hub in self.hubs]
        return all(own.is_finished() for own in owns) and not any(
            last >= first for own in owns for first, last in own.outbox.values()
        )

    async def run(self) -> None:
        await self.put_seeds()
        for _ in range(2):
            self.join()
        until = now() + LONGEST_S
        while not self.is_finished and self.judge.fault is None:
            await asyncio.sleep(self.random.expovariate(1 / 4.0))
            if now() > until:
                raise BrokenPromiseError("it does not end")
            fate = self.random.choices([*FATES], [*FATES.values()])[0]
            self.fell[fate] += 1
            await self.befall(fate)
        self._mail.cancel()
        await self._calm_down()
        for fetcher in self.fetchers:
            fetcher.kill()
        await asyncio.sleep(0)
        self.judge.ends(*(hub.own for hub in self.hubs))
        for hub in self.hubs:
            hub.kill()

    async def _calm_down(self) -> None:
        """Nothing befalls them any more: soon all fetchers are served by all hubs."""
        self.net.lost = 0.0
        self.join()
        await asyncio.sleep(120.0)
        if self.judge.fault is None and not all(each.is_served for each in self.fetchers):
            raise BrokenPromiseError("a fetcher has no session")

    async def befall(self, fate: str) -> None:
        random, victim = self.random, None
        if self.fetchers:
            victim = random.choice(self.fetchers)
        number = random.randrange(HUBS)
        hub = self.hubs[number]
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
                self._cut(victim)
            case "stop hub":
                hub.bus.stopped_until = now() + random.expovariate(1 / 15)
            case "cut hub":
                self._cut(hub)
            case "hub":
                self._mail.cancel()
                hub.kill()
                await asyncio.sleep(random.expovariate(1 / 5))
                self.hubs[number] = self.hub(number)
                self._mail = asyncio.create_task(self._carry_mail())
            case "bus":
                self.net.go_down()
                await asyncio.sleep(random.random() * 30)
                self.net.is_down = False

    def _cut(self, machine: RemoteMachine | HubMachine) -> None:
        machine.bus.is_cut = True
        seconds = self.random.expovariate(1 / 15)
        asyncio.get_running_loop().call_later(seconds, setattr, machine.bus, "is_cut", False)


def run(seed: int, folder: Path) -> World:
    async def crawl() -> World:
        world = World(seed, folder)
        await world.run()
        return world

    with asyncio.Runner(loop_factory=lambda: Loop(seed)) as runner:
        return runner.run(crawl())


@pytest.mark.parametrize("seed", SEEDS[::3])
def test_no_page_is_lost_or_early_whatever_befalls(seed: int, tmp_path: Path) -> None:
    assert run(seed, tmp_path).judge.fault is None
