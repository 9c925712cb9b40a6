"""Two nodes never both believe that they may ask for a shard or at an address.

Random rates and offsets of clocks, cuts and wipes of the bus, lost answers, kills and restarts.
"""

from __future__ import annotations

import asyncio
from random import Random

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.properties.cluster_world import Clock, World, WorldBus
from webcrawl.cluster.addresses import NodeAddresses
from webcrawl.cluster.agreement.node import Node
from webcrawl.cluster.agreement.nodefile import NodeStore
from webcrawl.cluster.agreement.shards import Event, Park, moves
from webcrawl.cluster.agreement.tenancy import Tenancies
from webcrawl.cluster.bus import BusError, Refused

SHARDS, NODES = 4, 3
FETCH_S, IP_DELAY_S = 5.0, 1.0
ADDRESSES = ["192.0.2.1", "192.0.2.2", "2001:db8::1"]
CAP = 400
UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)  # a smaller seed is no simpler world


class Machine:
    """A JOBDIR, with or without its process."""

    def __init__(self, world: World, folders: Folders, cap: int) -> None:
        self.world = world
        self.folders = folders
        self.cap = cap
        self.bus = WorldBus(world)
        self.content = NodeStore(None).content
        self.clock = Clock(world)
        self.node: Node | None = None
        self.tenancies: Tenancies | None = None
        self.addresses: NodeAddresses | None = None
        self.requests: set[Request] = set()  # under way
        self.tasks: list[asyncio.Task[None]] = []
        self.refused = ""

    def start(self) -> None:
        self.store = NodeStore(None)
        self.store.content = self.content
        self.bus = WorldBus(self.world)
        self.node = node = Node(
            *(self.bus, self.store, {"A": "1"}, SHARDS),
            longest_fetch_s=FETCH_S,
            clock=self.clock,
            on_event=self.on_event,
        )
        self.addresses = NodeAddresses(
            ip_delay_s=IP_DELAY_S, longest_fetch_s=FETCH_S, pages_max=self.cap
        )
        self.tenancies = Tenancies(
            *(self.bus, node.registry, node.members, self.addresses),
            shards=SHARDS,
            epochs=node.shards.held,
            restored=node.shards.restored,
            ip_delay_s=IP_DELAY_S,
            longest_fetch_s=FETCH_S,
            pages_max=self.cap,
            clock=self.clock,
            random=self.world.random,
        )
        self.tasks = [asyncio.create_task(each) for each in (self._rounds(), self._ticks())]
        self.tasks += [asyncio.create_task(self._hosts(shard)) for shard in range(SHARDS)]

    def may_use(self, shard: int) -> bool:
        """Whether its process believes that it may send requests for `shard`."""
        node = self.node
        return node is not None and shard in node.shards.held and node.may_ask(self.clock())

    def kill(self) -> None:
        for task in self.tasks:
            task.cancel()
        if self.node is not None:
            self.content = self.store.content
        self.bus.close_now()
        for request in self.requests:  # it may have reached its server just now
            request.end = self.world.now
        self.requests = set()
        self.node = self.tenancies = self.addresses = None

    def on_event(self, event: Event) -> None:
        assert self.tenancies is not None
        if isinstance(event, Park):
            self.tasks.append(asyncio.create_task(self._stop(event.shard, self.node)))

    async def _stop(self, shard: int, node: Node | None) -> None:
        tenancies = self.tenancies
        assert tenancies is not None
        if self.world.random.random() < 0.5:  # its requests end in time, or are given up
            tenancies.drop(shard)
        await self.world.sleep(FETCH_S)
        assert node is not None
        tenancies.drop(shard)
        node.shards.stopped(shard)

    async def _rounds(self) -> None:
        node, tenancies = self.node, self.tenancies
        assert node is not None
        assert tenancies is not None
        while True:
            try:
                await node.round()
                tenancies.note()
            except Refused as error:
                self.refused = str(error)
                self.world.at(self.world.now, self.kill)
                return
            except BusError:
                pass
            await self.world.sleep(1.0 if node.state == "joining" else 3.0)

    async def _ticks(self) -> None:
        node, tenancies = self.node, self.tenancies
        assert node is not None
        assert tenancies is not None
        counted: set[tuple[int, str]] = set()
        await tenancies.open()
        while True:
            await self.world.sleep(1.0)
            try:
                await tenancies.work()
                crawl = node.registry.crawl
                for shard in list(node.shards.held):
                    if not self.cap or crawl is None or not crawl.losses:
                        break
                    if (shard, crawl.era) not in counted:
                        rows = [(a, n) for (s, a), n in self.folders.used.items() if s == shard]
                        await tenancies.recount(shard, rows)
                        counted.add((shard, crawl.era))
            except (BusError, KeyError):
                pass

    async def _hosts(self, shard: int) -> None:
        """The hosts of a shard: one after the other asks at an address, for a while."""
        world, random, node = self.world, self.world.random, self.node
        assert node is not None
        assert self.addresses is not None
        view, used = self.addresses.of(shard), self.folders.used
        while True:
            address = random.choice(ADDRESSES)
            await world.sleep(random.uniform(1, 20))
            for _ in range(random.randrange(12)):
                await self._take(shard, address)
                if self.node is not node or not self.may_use(shard):
                    view.give_back(address, self.clock())
                    break
                count = used.get((shard, address), 0)
                if self.cap and not view.take_page(address, count):
                    view.give_back(address, self.clock())
                    break
                used[shard, address] = count + 1
                await self._ask(shard, address)

    async def _take(self, shard: int, address: str) -> None:
        """Wait until the shard may ask at the address, as a workbench does."""
        assert self.addresses is not None
        view = self.addresses.of(shard)
        while True:
            now = self.clock()
            at = now + 2.0
            if self.may_use(shard):
                pages = self.folders.used.get((shard, address), 0)
                at = view.take(address, now, pages)
                if at == 0.0:
                    return
            while self.clock() < max(at, now + 0.2) and address not in view.freed(self.clock()):
                wait_s = min(at, view.next_at()) - self.clock()
                await self.world.sleep(min(max(wait_s, 0.2), 1.0))

    async def _ask(self, shard: int, address: str) -> None:
        assert self.addresses is not None
        request = Request(self, address, self.world.now)
        self.requests.add(request)
        self.folders.requests.append(request)
        self.folders.taken.add((shard, address))
        latest = self.clock() + FETCH_S * 0.98
        await self.world.sleep(min(self.world.random.expovariate(2.0), FETCH_S * 0.9))
        self.requests.discard(request)
        request.end = self.world.now
        asked_at = min(self.clock(), latest)
        self.addresses.of(shard).release(address, asked_at + IP_DELAY_S)


class Request:
    """The server reads it at some time from its begin to its end, inf while it runs."""

    def __init__(self, machine: Machine, address: str, begin: float) -> None:
        self.machine, self.address, self.begin = machine, address, begin
        self.end = float("inf")


class Folders:
    """The shards' own rows: they are copied with a shard."""

    def __init__(self) -> None:
        self.used: dict[tuple[int, str], int] = {}
        self.taken: set[tuple[int, str]] = set()
        self.requests: list[Request] = []  # those that the referee has not judged
        self.count = 0  # of those that it has


class Referee:
    """Sees all machines at each step."""

    def __init__(self, world: World, machines: list[Machine], folders: Folders, cap: int) -> None:
        self.world, self.machines, self.folders, self.cap = world, machines, folders, cap
        self.shard_last: dict[tuple[int, int], float] = {}  # (machine, shard): last allowed
        self.last: dict[str, Request] = {}  # at each address

    def look(self) -> None:
        now = self.world.now
        shards: set[tuple[int, int]] = set()
        for number, machine in enumerate(self.machines):
            if machine.node is None:
                continue
            for shard in machine.node.shards.held:
                if machine.may_use(shard):
                    shards.add((number, shard))
        self.shard_last |= dict.fromkeys(shards, now)
        for number, shard in shards:
            for (other, same), last in self.shard_last.items():
                if same == shard and other != number:
                    assert last + FETCH_S <= now + 1e-6, (now, shard, number, other, last)
        for request in self.folders.requests:
            before = self.last.get(request.address)
            if before is not None:  # clocks of machines differ in rate
                early_s = before.end + IP_DELAY_S - request.begin
                assert early_s <= 0.02, (now, request.address, early_s)
            self.last[request.address] = request
        self.folders.count += len(self.folders.requests)
        self.folders.requests.clear()
        if self.cap:
            for address in ADDRESSES:
                used = sum(n for (_, a), n in self.folders.used.items() if a == address)
                assert used <= self.cap


async def faults(world: World, machines: list[Machine], until: float, *, wipes: bool) -> None:
    random = world.random
    while world.now < until:
        await world.sleep(random.expovariate(1 / 60))
        machine = random.choice(machines)
        match random.randrange(10):
            case 0 | 1 if machine.node is not None:
                machine.kill()
            case 2 | 3 | 4 if machine.node is None and not machine.refused:
                machine.start()
            case 5:
                machine.bus.is_cut = True
            case 6 | 7:
                machine.bus.is_cut = False
            case 8 if wipes:
                world.wipe()
            case 9 if machine.node is not None and machine.node.state == "running":
                await command(random, machine, machines)
            case _:
                pass


async def command(random: Random, machine: Machine, machines: list[Machine]) -> None:
    node = machine.node
    assert node is not None
    crawl = node.registry.crawl
    assert crawl is not None
    shard = random.randrange(SHARDS)
    try:
        if shard in node.shards.held and random.random() < 0.7:
            others = [m.node.members.node for m in machines if m.node not in (None, node)]
            if others:
                node.shards.held.pop(shard)  # its requests end
                tenancies = machine.tenancies
                await machine.world.sleep(FETCH_S)
                assert tenancies is not None
                tenancies.drop(shard)
                await node.shards.give(shard, random.choice(others))
        else:
            await node.shards.restore(shard, crawl)
    except BusError:
        pass


async def play(seed: int, *, wipes: bool, cap: int = 0, seconds: float = 600.0) -> list[str]:
    world = World(Random(seed))
    folders = Folders()
    machines = [Machine(world, folders, cap) for _ in range(NODES)]
    referee = Referee(world, machines, folders, cap)
    world.on_step = referee.look
    try:
        for machine in machines[: 1 + seed % NODES]:
            machine.start()
        begin = world.now
        trouble = asyncio.create_task(faults(world, machines, begin + seconds, wipes=wipes))
        await world.run(begin + seconds + 200)
        trouble.cancel()
        world.lost = 0.0
        for machine in machines:  # all is well again
            machine.bus.is_cut = False
            if machine.node is None and not machine.refused:
                machine.start()
        folders.taken.clear()
        await world.run(world.now + 500)
        held = [k for m in machines if m.node is not None for k in m.node.shards.held]
        known = {k for m in machines for k, each in m.store.content.map.items()}
        problems = [m.refused for m in machines if m.refused]
        waits = {k for m in machines if m.node is not None for k in m.node.shards.waits}
        owners = {m.content.node for m in machines if m.refused}
        for shard in sorted(known - set(held) - waits):
            names = {m.node.shards.map[shard].node for m in machines if m.node is not None}
            if names and not names & owners:
                problems.append(f"shard {shard} of {names} is not used")
        if not cap and not problems and not waits:
            for address in ADDRESSES:  # more than one shard has had its turn
                turns = {k for k, a in folders.taken if a == address}
                problems += [f"{address} was taken by {turns} of {held}"] if len(turns) < 2 else []
        for task in (task for machine in machines for task in machine.tasks):
            if task.done() and not task.cancelled() and task.exception() is not None:
                raise task.exception()
        return problems
    finally:
        for machine in machines:
            machine.kill()


@given(seed=st.integers(0, 1 << 32))
@settings(phases=UNSHRUNK, max_examples=4)
def test_with_cuts_kills_and_lost_answers(seed: int) -> None:
    assert asyncio.run(play(seed, wipes=False)) == []


@given(seed=st.integers(0, 1 << 32))
@settings(phases=UNSHRUNK, max_examples=4)
def test_with_wipes_of_the_bus(seed: int) -> None:
    problems = asyncio.run(play(seed, wipes=True))
    assert [each for each in problems if "is not used" in each or "taken by" in each] == []


@given(seed=st.integers(0, 1 << 32))
@settings(phases=UNSHRUNK, max_examples=4)
def test_the_cap_of_an_address_is_never_exceeded(seed: int) -> None:
    asyncio.run(play(seed, wipes=True, cap=CAP))


def test_moves_make_shares_alike() -> None:
    owners = dict.fromkeys(range(6), "a") | {6: "b", 7: "dead"}
    assert moves(owners, ["a", "b", "c"]) == [(5, "a", "c")]
    done = owners | {shard: taker for shard, _, taker in moves(owners, ["a", "b", "c"], at_once=9)}
    assert sorted(done.values()) == ["a", "a", "a", "b", "b", "c", "c", "dead"]
    assert moves(done, ["a", "b", "c"]) == []
    assert moves({}, []) == []
