"""Whole crawls by hubs and fetchers on a bus in virtual time, whatever befalls them.

Processes are killed, stopped and cut off, also from each other alone, messages are lost, the bus is
away, its records are wiped and spoiled. Frontier, server, sessions, records, gates, mail, addresses
and the end of the whole crawl are the real ones. SIM_SEEDS=400 runs as many crawls.
"""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from tests.contracts.frontier import link
from tests.sim.bus import Net
from tests.sim.machines import DELAY_S, HubMachine, RemoteMachine
from tests.sim.network import loop_random, seeds
from tests.sim.network import run as run_simulated
from tests.sim.processes import copy_frontier
from tests.sim.test_hub import Plant
from tests.sim.web import BrokenPromiseError, Judge, Web
from tests.unit.virtualtime import now
from webcrawl.cluster.addresses import HubAddresses
from webcrawl.cluster.courier import Courier
from webcrawl.cluster.fetching import HubFrontier
from webcrawl.cluster.letters import MailApplied
from webcrawl.cluster.packets import hub_subject
from webcrawl.cluster.peers import peer_subject
from webcrawl.cluster.records import CRAWL
from webcrawl.cluster.sessions import Sessions
from webcrawl.cluster.streams import Stream
from webcrawl.frontier.buckets import hub_of
from webcrawl.frontier.disk.frontier import FOLDER
from webcrawl.frontier.store import StoreError
from webcrawl.parse.urls import host_of

CRAWLS = [(hubs, seed) for hubs, few in ((1, 2), (3, 1)) for seed in seeds(few)]
LONGEST_S = 10_000
# What befalls a crawl every few seconds, and how often it does.
FATES = {
    "kill": 6, "exit": 4, "join": 12, "stop": 8, "cut": 16, "hub": 3, "stop hub": 3, "cut hub": 3,
    "part": 3, "bus": 3, "wipe": 3, "spoil": 3, "": 40,
}  # fmt: skip
LOSSES = FATES | {"checkpoint": 12, "restore": 4}


class Saved(NamedTuple):
    """A checkpoint of a hub. `done`: answers to pages that are not leased in it."""

    inbox: dict[int, int]
    done: Counter[str]


class World:
    """One crawl. A seed decides everything."""

    def __init__(self, seed: int, folder: Path, fates: dict[str, int], hubs: int) -> None:
        self.random = loop_random()
        self.web = Web(seed, hosts=24, pages=12)
        self.judge = Judge(self.web, delay_s=DELAY_S)
        self.net = Net(self.random)
        self.folder = folder
        self.fates = fates
        self.fell: Counter[str] = Counter()
        self.saved: dict[int, Saved] = {}  # by hub: its last checkpoint
        self.hubs = [self.hub(number, hubs) for number in range(hubs)]
        self._names = 0
        self.fetchers: list[RemoteMachine] = []

    def hub(self, number: int, hubs: int) -> HubMachine:
        folder = self.folder / str(number)
        hub = HubMachine(self.web, self.judge, folder, self.net, number, hubs)
        if "checkpoint" in self.fates and hub.several is not None:
            hub.several.courier.set_kept(self.saved[number].inbox if number in self.saved else {})
        return hub

    def join(self) -> None:
        self._names += 1
        name = f"f{self._names}x"
        hubs = len(self.hubs)
        self.fetchers.append(RemoteMachine(self.web, self.judge, self.net, name, hubs))

    async def run(self) -> None:
        await self.hubs[0].server.put([link(url) for url in self.web.seeds], now())
        for _ in range(2):
            self.join()
        until = now() + LONGEST_S
        while not self.has_ended and self.judge.fault is None:
            await asyncio.sleep(self.random.expovariate(1 / 4.0))
            if now() > until:
                raise BrokenPromiseError("it does not end")
            for hub in self.hubs:
                if hub.refusal:
                    raise BrokenPromiseError(hub.refusal)
            fate = self.random.choices([*self.fates], [*self.fates.values()])[0]
            self.fell[fate] += 1
            await self.befall(fate)
        await self._calm_down()
        for fetcher in self.fetchers:
            fetcher.kill()
        self.judge.ends(*(hub.own for hub in self.hubs))
        for hub in self.hubs:
            hub.kill()

    @property
    def has_ended(self) -> bool:
        """Whether all hubs know that nothing is left."""
        return all(hub.server.is_finished() for hub in self.hubs)

    async def _calm_down(self) -> None:
        """Nothing befalls them any more: soon all fetchers are served."""
        self.net.lost = 0.0
        self.join()
        await asyncio.sleep(120.0)
        alone = [each for each in self.fetchers if not each.is_served]
        if alone and self.judge.fault is None:
            raise BrokenPromiseError(f"{len(alone)} fetchers have no session")

    async def befall(self, fate: str) -> None:
        random, victim = self.random, None
        number, hubs = self.random.randrange(len(self.hubs)), len(self.hubs)
        hub = self.hubs[number]
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
                victim.bus.stop(random.expovariate(1 / 15))
            case "cut" if victim:
                victim.bus.cut(random.expovariate(1 / 15))
            case "stop hub":
                hub.bus.stop(random.expovariate(1 / 15))
            case "cut hub":
                hub.bus.cut(random.expovariate(1 / 15))
            case "hub":
                hub.kill()
                await asyncio.sleep(random.expovariate(1 / 5))
                self.hubs[number] = self.hub(number, hubs)
            case "part" if hubs > 1:
                other = (number + random.randrange(1, hubs)) % hubs
                hub.bus.part(peer_subject(other, number), random.expovariate(1 / 20))
            case "checkpoint":
                self._make_checkpoint(hub, number)
            case "restore" if number in self.saved:
                hub.kill()
                self._set_back(number, hubs)
                await asyncio.sleep(2.0 + random.expovariate(1 / 5))
                self.hubs[number] = self.hub(number, hubs)
            case "bus":
                self.net.go_down()
                await asyncio.sleep(random.random() * 30)
                self.net.is_down = False
            case "wipe":
                self.net.wipe()
            case "spoil":
                self.net.spoil(random.choice([CRAWL, hub_subject(number)]))

    def _make_checkpoint(self, hub: HubMachine, number: int) -> None:
        inbox = hub.own._state.sync()
        copy_frontier(self.folder / str(number) / FOLDER, self.folder / f"saved {number}")
        leased = {lease.url for lease in hub.own._state._leases}
        done = {url: n for url, n in self.judge.answers.items() if url not in leased}
        self.saved[number] = Saved(inbox, Counter(done))
        if hub.several is not None:
            hub.several.courier.set_kept(inbox)

    def _set_back(self, number: int, hubs: int) -> None:
        """The machine of a hub is lost, and its last checkpoint takes the place of its folder."""
        folder, judge = self.folder / str(number) / FOLDER, self.judge
        shutil.rmtree(folder)
        shutil.copytree(self.folder / f"saved {number}", folder)
        lost = {host for host in self.web.hosts if hub_of(host, hubs) == number}
        since = judge.answers - self.saved[number].done
        judge.excused += Counter({u: n for u, n in since.items() if host_of(u) in lost})
        judge._known -= lost  # what robots.txt has said


def run(seed: int, folder: Path, fates: dict[str, int] = FATES, hubs: int = 1) -> World:
    async def crawl() -> World:
        world = World(seed, folder, fates, hubs)
        await world.run()
        return world

    return run_simulated(crawl(), seed)


@pytest.mark.parametrize(("hubs", "seed"), CRAWLS)
def test_no_page_is_lost_or_early_whatever_befalls(hubs: int, seed: int, tmp_path: Path) -> None:
    assert run(seed, tmp_path, hubs=hubs).judge.fault is None


@pytest.mark.parametrize("seed", seeds(1))
def test_a_crawl_goes_on_from_checkpoints(seed: int, tmp_path: Path) -> None:
    assert run(seed, tmp_path, LOSSES, hubs=2).judge.fault is None


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


def mail_of_a_session_is_lost(patch: pytest.MonkeyPatch) -> None:
    """A hub goes on behind what it has sent, and not behind what was applied."""
    real = Courier._take_applied
    before: dict[tuple[Courier, int], Any] = {}

    def take(self: Courier, hub: int, letter: MailApplied) -> None:
        sent = before[self, hub].sent if (self, hub) in before else 0
        real(self, hub, replace(letter, applied=max(letter.applied, sent)))
        before[self, hub] = self._ways[hub]

    patch.setattr(Courier, "_take_applied", take)


def asked_without_turns(patch: pytest.MonkeyPatch) -> None:
    """Each hub asks at shared addresses by its own clocks."""
    patch.setattr(HubAddresses, "_find_shared", lambda self, address: True)


@pytest.mark.parametrize(
    ("plant", "hubs", "first"),
    [
        (leases_back_at_once, 1, 0),
        (requests_without_a_session, 1, 3),
        (asked_without_turns, 2, 0),
        (mail_of_a_session_is_lost, 2, 0),
    ],
)
def test_planted_faults(
    plant: Plant, hubs: int, first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`first` is the first seed that shows it today; if it does no longer, one of 12 must."""
    plant(monkeypatch)
    monkeypatch.setattr("tests.sim.test_machines.LONGEST_S", 2_000)
    assert any(is_seen(seed, tmp_path / str(seed), hubs) for seed in range(first, first + 12))


def is_seen(seed: int, folder: Path, hubs: int) -> bool:
    try:
        return run(seed, folder, hubs=hubs).judge.fault is not None
    except (AssertionError, StoreError):
        return True
