"""IP addresses that several hubs share, over real sessions on the simulated bus.

The judge sees each request as the server at its address does.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.sim.bus import Net, SimBus, peers_of
from tests.sim.network import loop_random, run, seeds, simulated
from tests.sim.web import LONGEST_FETCH_S
from tests.unit.virtualtime import now
from webcrawl.cluster.addresses import BATCH_S, HubAddresses
from webcrawl.cluster.claims import Claim
from webcrawl.cluster.packets import SILENCE_S, TICK_S
from webcrawl.cluster.peers import peer_subject
from webcrawl.cluster.turns import GRACE_S, WISH_S, Ended, Owner, Turn, Turns
from webcrawl.frontier.host import STAND_IN

SEEDS = seeds(3)
BEFORE_S = 8.0  # from a lease to its request, at most
ADDRESSES = [f"192.0.2.{number}" for number in range(1, 5)]  # 1 and 2 are of different hubs
A_BEGIN_S = 3 * TICK_S
WELL_S = 200.0  # without trouble, at the end
RETRY_S = 1.0  # a host that nothing wakes looks again
Plant = Callable[[pytest.MonkeyPatch], None]


class Judge:
    """The servers."""

    def __init__(self, ip_delay_s: float, cap: int) -> None:
        self.faults: list[str] = []
        self.asked: list[tuple[float, int, str]] = []  # when, hub, address
        self.pages: Counter[str] = Counter()
        self._ip_delay_s, self._cap = ip_delay_s, cap
        self._free_at: dict[str, float] = {}
        self._busy: dict[str, Hub] = {}

    def asks(self, hub: Hub, address: str) -> None:
        if self._ip_delay_s and address in self._busy:
            self.faults.append(f"{now():.3f} {address}: {hub} while {self._busy[address]} asks")
        early_s = self._free_at.get(address, 0.0) - now()
        if early_s > 1e-6:
            self.faults.append(f"{now():.3f} {address}: {hub} {early_s:.3f} s early")
        self._busy[address] = hub
        self._free_at[address] = now() + self._ip_delay_s
        self.asked.append((now(), hub.number, address))

    def ends(self, hub: Hub, address: str) -> None:
        if self._busy.get(address) is hub:
            del self._busy[address]

    def counts(self, address: str, counted: int) -> None:
        """A page is asked for: one of those that were `counted` before."""
        self.pages[address] += 1
        if self.pages[address] > min(counted, self._cap):
            self.faults.append(f"{address} has more than {counted} pages")

    def turns(self, address: str, since: float) -> list[int]:
        return [hub for at, hub, where in self.asked if where == address and at >= since]


class World:
    def __init__(
        self,
        hubs: int = 3,
        *,
        ip_delay_s: float = 1.0,
        cap: int = 0,
        lost: float = 0.0,
        shared: Sequence[str] = (),
    ) -> None:
        self.random = loop_random()
        self.net = Net(self.random)
        self.net.lost = lost
        self.judge = Judge(ip_delay_s, cap)
        self.ip_delay_s, self.cap, self.before_s = ip_delay_s, cap, BEFORE_S
        self.ended_at = 0.0
        self.shared = shared
        self.counted: list[dict[str, int]] = [{} for _ in range(hubs)]  # on their disks
        self.hubs = [Hub(self, number, is_new=True) for number in range(hubs)]

    def before(self) -> float:
        """From a lease to its request."""
        return self.random.random() * (60.0 if self.random.random() < 0.05 else self.before_s)

    def fetch_s(self) -> float:
        is_slow = self.random.random() < 0.2
        return LONGEST_FETCH_S if is_slow else min(self.random.expovariate(2.0), LONGEST_FETCH_S)

    def read_s(self) -> float:
        return self.random.random() * 0.2

    def restart(self, number: int) -> None:
        self.hubs[number].kill()
        self.hubs[number] = Hub(self, number, is_new=False)


class Hub:
    """A hub whose hosts ask at addresses, without a frontier."""

    def __init__(self, world: World, number: int, *, is_new: bool) -> None:
        self.world, self.number = world, number
        self.bus = SimBus(world.net)
        hubs = len(world.counted)
        self.peers = peers_of(self.bus, Claim("crawl", number, hubs))
        self.peers.serves_until = 0.0
        self.addresses = HubAddresses(
            number,
            hubs,
            ip_delay_s=world.ip_delay_s,
            pages_max=world.cap,
            shared=world.shared,
            is_new=is_new,
            clock=now,
        )
        self.addresses.join(self.peers, self._count, on_freed=self._wake, on_recall=self._recall)
        self.epoch = 0
        self._serves_from = now() if is_new else now() + SILENCE_S + LONGEST_FETCH_S
        self._woken = asyncio.Event()
        self._in_use: set[str] = set()
        self._freed: set[str] = set()
        self._tasks = [asyncio.create_task(each) for each in (self._live(), self._run())]

    def __repr__(self) -> str:
        return f"hub {self.number}"

    def kill(self) -> None:
        for task in self._tasks:
            task.cancel()
        self.bus.kill()
        for address in self._in_use:
            self.world.judge.ends(self, address)

    def wants(self, address: str, hosts: int = 1, *, forever: bool = True) -> None:
        """Have `hosts` hosts at the address, each with pages without end, or only now and then."""
        for _ in range(hosts):
            self._tasks.append(asyncio.create_task(self._host(address, forever=forever)))

    def _recall(self) -> None:
        self.epoch += 1

    def _wake(self) -> None:
        self._woken.set()

    async def _live(self) -> None:
        await self.peers.open()
        while True:
            await self.bus.goes_on()
            if now() >= self._serves_from and not self.bus.is_cut:
                if not self.peers.serves:  # as `scheduler.controls` does
                    self.epoch += 1
                self.peers.serves_until = now() + SILENCE_S
            self.peers.tick()
            await asyncio.sleep(TICK_S)

    async def _run(self) -> None:
        while True:
            await self.bus.goes_on()
            self.addresses.tick()
            await asyncio.sleep(BATCH_S)

    async def _count(
        self, returned: Mapping[str, int], wanted: Sequence[str], cap: int, most: int
    ) -> Mapping[str, int]:
        await asyncio.sleep(self.world.random.random() * 0.05)
        counted, given = self.world.counted[self.number], {}
        for address, pages in returned.items():
            counted[address] -= pages
        for address in wanted:
            given[address] = min(cap - counted.get(address, 0), most)
            counted[address] = counted.get(address, 0) + given[address]
        await asyncio.sleep(self.world.random.random() * 0.05)
        return given

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self.bus.goes_on()

    # As a workbench does

    async def _host(self, address: str, *, forever: bool) -> None:
        random = self.world.random
        while True:
            if not forever:
                await self._sleep(random.uniform(0.0, 20.0))
            await self._take(address)
            is_page = not self.world.cap or self.addresses.take_page(address)
            if not is_page:  # the address is full: the page is dropped
                assert self.addresses.is_full(address)
                self.addresses.cancel(address, now())
                self._in_use.discard(address)
                await self._sleep(0.5)
                continue
            await self._ask(address)

    async def _take(self, address: str) -> None:
        while True:
            await self.bus.goes_on()
            at = now() + RETRY_S
            if self.peers.serves and address not in self._in_use:  # `workbench` parks the host
                at = self.addresses.acquire(address, now())
                if at == 0.0:
                    if self.world.ip_delay_s:
                        self._in_use.add(address)
                    return
            while now() < at and not self._is_freed(address):
                self._woken.clear()
                wait_s = min(at, self.addresses.next_at(), now() + RETRY_S) - now()
                if wait_s > 0:
                    try:
                        async with asyncio.timeout(
                            max(wait_s, 1e-6)
                        ):  # less is no time to the loop
                            await self._woken.wait()
                    except TimeoutError:
                        pass

    def _is_freed(self, address: str) -> bool:
        self._freed.update(self.addresses.freed(now()))
        is_freed = address in self._freed
        self._freed.discard(address)
        return is_freed

    async def _ask(self, address: str) -> None:
        judge, epoch = self.world.judge, self.epoch
        await self._sleep(self.world.before())
        while not self.peers.serves and epoch == self.epoch:
            await self._sleep(0.01)
        if epoch != self.epoch:  # it was recalled
            self._in_use.discard(address)
            self.addresses.release(address, now())
            return
        asked_at = now()
        judge.asks(self, address)
        if self.world.cap:
            judge.counts(address, sum(pages.get(address, 0) for pages in self.world.counted))
        await asyncio.sleep(self.world.fetch_s())
        judge.ends(self, address)
        ended_at = now()
        await self._sleep(self.world.read_s())
        self._in_use.discard(address)
        self.addresses.release(address, max(asked_at + self.world.ip_delay_s, ended_at))


async def befall(world: World, seconds: float) -> None:
    """Kill, cut and stop hubs for a while."""
    random = world.random
    until = now() + seconds
    while now() < until and not world.judge.faults:
        await asyncio.sleep(random.expovariate(1 / 10.0))
        number = random.randrange(len(world.hubs))
        bus = world.hubs[number].bus
        away_s = random.choice([5.0, 40.0]) * random.random()
        match random.choice(["kill", "stop", "cut", "part", "part"]):
            case "kill":
                world.restart(number)
                busy(world, number)
            case "stop":
                bus.stop(away_s)
            case "cut":
                bus.cut(away_s)
            case "part":
                subject = peer_subject((number + random.choice([1, 2])) % 3, number)
                bus.part(subject, 2.0 * away_s)


def busy(world: World, number: int) -> None:
    for address in ADDRESSES:
        world.hubs[number].wants(address, 2)
        world.hubs[number].wants(address, forever=False)


def trouble(seed: int, *, cap: int = 0, ip_delay_s: float = 1.0) -> World:
    async def test() -> World:
        world = World(lost=0.003, cap=cap, ip_delay_s=ip_delay_s)
        for number in range(3):
            busy(world, number)
        await befall(world, 300.0)
        world.net.lost = 0.0
        if not world.judge.faults:
            await asyncio.sleep(WELL_S + 120.0)
        world.ended_at = now()
        return world

    return run(test(), seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_address_is_asked_early_or_twice_whatever_befalls_the_hubs(seed: int) -> None:
    world = trouble(seed)
    assert not world.judge.faults
    for address in ADDRESSES:
        turns = Counter(world.judge.turns(address, world.ended_at - WELL_S))
        assert min(turns[number] for number in range(3)) >= 3, (address, turns)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_cap_is_exceeded_whatever_befalls_the_hubs(seed: int) -> None:
    world = trouble(seed, cap=150, ip_delay_s=float(seed % 2))
    assert not world.judge.faults


@asynccontextmanager
async def calm(hubs: int = 2, **options: Any) -> AsyncIterator[World]:
    """A world, after `options`, with hubs whose requests leave at once. It is judged at its end."""
    world = World(hubs, **options)
    world.before_s = 0.0
    world.before = lambda: 0.0  # type: ignore[method-assign]
    world.fetch_s = lambda: 0.05  # type: ignore[method-assign]
    world.read_s = lambda: 0.0  # type: ignore[method-assign]
    await asyncio.sleep(A_BEGIN_S)
    yield world
    assert not world.judge.faults


def asker_of(world: World, address: str) -> Hub:
    """A hub that does not own the address."""
    return world.hubs[1 - world.hubs[0].addresses._owner_of(address)]


@pytest.mark.parametrize("ip_delay_s", [1.0, 0.1])
@pytest.mark.parametrize("both", [False, True])
@simulated
async def test_an_address_elsewhere_gets_one_request_per_delay_and_each_hub_its_share(
    ip_delay_s: float, both: bool
) -> None:
    async with calm(ip_delay_s=ip_delay_s) as world:
        asker = asker_of(world, ADDRESSES[0])
        asker.wants(ADDRESSES[0], 9)
        if both:
            world.hubs[1 - asker.number].wants(ADDRESSES[0], 1)
        await asyncio.sleep(60.0)
    turns = Counter(world.judge.turns(ADDRESSES[0], 0.0))
    assert turns.total() >= 0.99 * 60.0 / ip_delay_s
    assert max(turns.values()) <= 1.1 * min(turns.values())
    assert len(turns) == 1 + both


@simulated
async def test_an_address_whose_owner_is_away_waits_and_others_go_on() -> None:
    async with calm() as world:
        here = asker_of(world, ADDRESSES[0])
        there = world.hubs[1 - here.number]
        assert here is not asker_of(world, ADDRESSES[1])
        for address in ADDRESSES[:2]:
            here.wants(address)
        await asyncio.sleep(10.0)
        there.kill()
        await asyncio.sleep(SILENCE_S + 2 * TICK_S)  # it keeps its turn as long as the session
        killed_at = now()
        await asyncio.sleep(120.0)
        assert not world.judge.turns(ADDRESSES[0], killed_at)
        assert len(world.judge.turns(ADDRESSES[1], killed_at)) >= 119
        world.hubs[there.number] = Hub(world, there.number, is_new=False)
        await asyncio.sleep(SILENCE_S + LONGEST_FETCH_S + A_BEGIN_S + 20.0)
        assert len(world.judge.turns(ADDRESSES[0], killed_at)) >= 19


@simulated
async def test_what_is_not_used_is_given_back_and_forgotten() -> None:
    async with calm() as world:
        here = asker_of(world, ADDRESSES[0])
        there = world.hubs[1 - here.number]
        there.wants(ADDRESSES[0])
        here.addresses.acquire(ADDRESSES[0], now())  # its host does not come again
        await asyncio.sleep(10.0 + GRACE_S)
        assert len(world.judge.asked) >= 10
        for hub in world.hubs:
            for task in hub._tasks[2:]:
                task.cancel()
        await asyncio.sleep(WISH_S)
        for hub in world.hubs:
            parts = "<Owner of 0 addresses, 0 with a turn>", "<Asker at 0 addresses, 0 in use>"
            assert repr(hub.addresses) == f"<HubAddresses: {parts[0]}, {parts[1]}>"


@pytest.mark.parametrize("ip_delay_s", [0.1, 0.0])
@simulated
async def test_a_cap_is_met_exactly(ip_delay_s: float) -> None:
    async with calm(ip_delay_s=ip_delay_s, cap=150) as world:
        for hub in world.hubs:
            hub.wants(ADDRESSES[0], 3)
        await asyncio.sleep(60.0)
    assert world.judge.pages == {ADDRESSES[0]: 150}


@simulated
async def test_the_end_of_a_session_costs_no_page_of_a_cap() -> None:
    async with calm(ip_delay_s=0.5, cap=100) as world:
        for hub in world.hubs:
            for address in ADDRESSES:
                hub.wants(address, 3)
        for _ in range(5):
            await asyncio.sleep(7.0)
            for hub in world.hubs:
                hub.peers.end_all()
        await asyncio.sleep(200.0)
    assert world.judge.pages == dict.fromkeys(ADDRESSES, 100)


@simulated
async def test_a_hub_that_ends_gives_its_turns_back() -> None:
    async with calm() as world:
        here = asker_of(world, ADDRESSES[0])
        here.addresses.acquire(ADDRESSES[0], now())
        await asyncio.sleep(2 * BATCH_S)
        assert here.addresses.acquire(ADDRESSES[0], now()) == 0.0
        here.addresses.cancel(ADDRESSES[0], now())
        await here.addresses.close()
        await asyncio.sleep(BATCH_S)
        owner = world.hubs[1 - here.number].addresses
        assert owner.acquire(ADDRESSES[0], now()) == 0.0


@simulated
async def test_shared_addresses_and_hosts_behind_a_proxy_need_no_turn() -> None:
    async with calm(shared=["198.51.100.0/24"], cap=1) as world:
        for address in ("198.51.100.1", f"{STAND_IN}1"):
            for hub in world.hubs:
                assert hub.addresses.acquire(address, now()) == 0.0
                assert hub.addresses.take_page(address)
                assert not hub.addresses.is_full(address)


@simulated
async def test_what_a_hub_says_of_addresses_of_others_is_garbage() -> None:
    async with calm() as world:
        here = asker_of(world, ADDRESSES[0])
        there = 1 - here.number
        turn = Turn(ADDRESSES[0], 0.0, 0)
        here.peers.send(there, Turns(ADDRESSES[1:2], [], ADDRESSES[:2], [turn]))
        await asyncio.sleep(BATCH_S)
        told = world.hubs[there].addresses
        assert ADDRESSES[0] not in told._asker._asked
        assert {told._owner_of(each) for each in told._owner._clocks} <= {there}
        assert here.peers.is_connected(there)
        here.peers.send(there, Turns(wishes=["no address"]))
        await asyncio.sleep(BATCH_S)
        assert not here.peers.is_connected(there)


@simulated
async def test_what_is_leased_as_a_session_ends_is_not_sent_once_others_ask() -> None:
    async with calm() as world:
        here = asker_of(world, ADDRESSES[0])
        there = world.hubs[1 - here.number]
        world.before = lambda: 45.0  # type: ignore[method-assign]
        here.wants(ADDRESSES[0])
        await asyncio.sleep(3.0)
        world.before = lambda: 0.0
        here.bus.unheard.add(peer_subject(there.number, here.number))
        there.wants(ADDRESSES[0])
        await asyncio.sleep(80.0)
        assert len(world.judge.turns(ADDRESSES[0], 0.0)) > 30


def some_leases_are_long(patch: pytest.MonkeyPatch) -> None:
    def before(self: World) -> float:
        return self.random.random() * (60.0 if self.random.random() < 0.2 else 0.2)

    patch.setattr(World, "before", before)


def freed_at_the_end_of_a_session(patch: pytest.MonkeyPatch) -> None:
    real = Owner.leaves

    def leaves(self: Owner, hub: int) -> None:
        real(self, hub)
        self.uses(hub, (), now())

    patch.setattr(Owner, "leaves", leaves)
    patch.setattr(World, "fetch_s", lambda self: LONGEST_FETCH_S)


def nothing_comes_back(patch: pytest.MonkeyPatch) -> None:
    """What is leased and not sent when a session ends is sent later."""
    patch.setattr(Hub, "_recall", lambda self: None)


def owner_knows_all(patch: pytest.MonkeyPatch) -> None:
    """An owner that was killed gives turns before the other hubs have told what they use."""
    patch.setattr(Owner, "_offer", _offer_at_once)
    some_leases_are_long(patch)


_real_offer = Owner._offer


def _offer_at_once(self: Owner, *args: Any) -> None:
    self._unknown.clear()
    _real_offer(self, *args)


def clocks_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A turn that has ended sets no clock."""
    real = Owner.end_turn

    def end(self: Owner, hub: int, ended: Ended, at: float) -> None:
        real(self, hub, ended._replace(next_at=at), at)

    patch.setattr(Owner, "end_turn", end)


def pages_used_twice(patch: pytest.MonkeyPatch) -> None:
    """A turn that has ended brings a page back that was used."""
    real = Owner.end_turn

    def end(self: Owner, hub: int, ended: Ended, at: float) -> None:
        real(self, hub, ended._replace(pages=ended.pages + 1), at)

    patch.setattr(Owner, "end_turn", end)


@pytest.mark.parametrize(
    "plant",
    [
        freed_at_the_end_of_a_session,
        owner_knows_all,
        clocks_forgotten,
    ],
)
def test_planted_faults(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert any(trouble(seed).judge.faults for seed in range(4))


def test_a_planted_fault_of_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing_comes_back(monkeypatch)
    with pytest.raises(AssertionError, match="early"):
        test_what_is_leased_as_a_session_ends_is_not_sent_once_others_ask()


def test_a_planted_fault_of_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    pages_used_twice(monkeypatch)
    with pytest.raises(AssertionError, match="has more than"):
        test_a_cap_is_met_exactly(0.1)
