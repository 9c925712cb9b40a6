"""At any time one hub at most asks at an address, and never before its clock allows.

Owners and askers of three hubs, without a bus: messages, sessions and processes come and go.
"""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from webcrawl.cluster.turns import AGAIN_S, Asker, Out, Owner, Turns

HUBS, IP_DELAY_S, CAP = 3, 1.0, 40
FETCH_S, LOST_S = 3.0, 8.0
STEP_S = 0.1
UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)  # a smaller seed is no simpler world


class World:
    """Address "n..." belongs to hub n."""

    def __init__(self, random: Random, cap: int) -> None:
        self.random, self.cap, self.now = random, cap, 100.0
        self.counted: dict[str, int] = {}  # on the disks of the owners
        self.pages: dict[str, int] = {}  # that were taken
        self.free_at: dict[str, float] = {}
        self.busy: dict[str, tuple[int, float]] = {}  # by address: hub, and when its fetch ends
        self.asked: dict[tuple[int, str], int] = {}
        self.ways: dict[tuple[int, int], deque[Any]] = {}  # sessions that are on
        self.away: dict[tuple[int, int], float] = {}
        self.lost: set[tuple[int, int]] = set()  # (by, hub)
        self.hubs = [Hub(self, number, is_new=True) for number in range(HUBS)]
        for first in range(HUBS):
            for second in range(first):
                self.begin(first, second)

    def begin(self, *pair: int) -> None:
        for here, there in (pair, pair[::-1]):
            self.ways[here, there] = deque()
        for here, there in (pair, pair[::-1]):
            hub = self.hubs[here]
            hub.out.pop(there, None)
            used, wished = hub.asker.begin(there)
            self.ways[here, there].append(Turns(using=used, wishes=wished))
        self.lost -= {pair, pair[::-1]}

    def end(self, *pair: int) -> None:
        if pair not in self.ways:
            return
        self.away[tuple(sorted(pair))] = self.now  # type: ignore[index]
        for here, there in (pair, pair[::-1]):
            del self.ways[here, there]
            hub = self.hubs[here]
            hub.out.pop(there, None)
            hub.owner.leaves(there)
            hub.asker.leaves(there)
            for address in [a for a in hub.unsent if owner_of(a) == there]:  # the recall
                hub.unsent.discard(address)
                hub.asker.release(address, self.now)

    def lose(self, *pair: int) -> None:
        """The session of `pair` has been away for too long."""
        for here, there in (pair, pair[::-1]):
            self.hubs[here].owner.uses(there, (), self.now)
            self.lost.add((here, there))

    def kill(self, number: int) -> None:
        for other in range(HUBS):
            self.end(number, other)
        self.busy = {a: one for a, one in self.busy.items() if one[0] != number}
        self.hubs[number] = Hub(self, number, is_new=False)
        self.lost = {each for each in self.lost if each[0] != number}

    def step(self) -> None:
        self.now += STEP_S
        random = self.random
        for (here, there), way in tuple(self.ways.items()):
            while way and random.random() < 0.7:
                self.hubs[there].hear(here, way.popleft())
        for hub in self.hubs:
            hub.step()
        for pair, since in tuple(self.away.items()):
            if pair in self.ways or any(self.hubs[n].pauses for n in pair):
                continue
            if self.now > since + LOST_S and not self.lost & {pair, pair[::-1]}:
                self.lose(*pair)
            elif random.random() < 0.02:
                self.begin(*pair)

    def befall(self) -> None:
        number, other = self.random.sample(range(HUBS), 2)
        if self.random.random() < 0.3:
            self.kill(number)
        else:
            self.end(number, other)


class Hub:
    def __init__(self, world: World, number: int, *, is_new: bool) -> None:
        self.world, self.number = world, number
        self.unsent: set[str] = set()
        self.again_at: dict[str, float] = {}
        self.serves_from = world.now + (0.0 if is_new else FETCH_S)
        self.out = Out(Turns)
        self.owner = Owner(
            ip_delay_s=IP_DELAY_S,
            has_cap=world.cap > 0,
            unknown=() if is_new else range(HUBS),
            out=self.out,
        )
        self.asker = Asker(
            ip_delay_s=IP_DELAY_S, has_cap=world.cap > 0, owner_of=owner_of, out=self.out
        )

    @property
    def pauses(self) -> bool:
        return self.world.now < self.serves_from

    def say(self) -> None:
        while self.out:
            hub, told = self.out.popitem()
            if hub == self.number:
                self.hear(hub, told)
            elif (self.number, hub) in self.world.ways:
                self.world.ways[self.number, hub].append(told)

    def hear(self, sender: int, told: Turns) -> None:
        now = self.world.now
        if told.using is not None:
            self.owner.uses(sender, told.using, now)
        for ended in told.ended:
            self.owner.end_turn(sender, ended, now)
        for address in told.wishes:
            self.owner.wish(sender, address, now)
        for turn in told.turns:
            self.asker.turn(sender, turn._replace(from_at=max(turn.from_at, now)))
        self.say()

    def step(self) -> None:
        world, random, now = self.world, self.world.random, self.world.now
        if not self.pauses and self.serves_from:
            self.serves_from = 0.0
            self.owner.uses(self.number, (), now)
        self.asker.check(now)
        self.owner.forget(now)
        self._count()
        self.say()
        for address in self.asker.freed(now):
            self.again_at[address] = now
        for address in (f"{n}{letter}" for n in range(HUBS) for letter in "ab"):
            if world.busy.get(address, (None, 0.0))[0] == self.number:
                if now >= world.busy[address][1]:
                    del world.busy[address]
                    self.asker.release(address, world.free_at[address])
                    self.say()
            elif address in self.unsent:
                if random.random() < 0.2:
                    self._ask(address)
            elif not self.pauses and now >= self.again_at.get(address, 0.0):
                self._take(address)

    def _take(self, address: str) -> None:
        now = self.world.now
        at = self.asker.acquire(address, now)
        if at and self.number in self.out:  # a turn of our own comes at once
            self.say()
            at = self.asker.acquire(address, now)
        self.again_at[address] = at
        assert at == 0.0 or now < at <= now + AGAIN_S
        if at == 0.0 and self.world.cap and not self.asker.take_page(address):
            assert self.asker.is_full(address), "a URL would be dropped"
            self.asker.cancel(address, now)
            self.again_at[address] = now + 1.0
        elif at == 0.0:
            self.unsent.add(address)
            self.world.pages[address] = self.world.pages.get(address, 0) + 1

    def _ask(self, address: str) -> None:
        world = self.world
        assert address not in world.busy, "two requests at a time"
        assert world.now >= world.free_at.get(address, 0.0) - 1e-6, "too early"
        self.unsent.discard(address)
        world.busy[address] = self.number, world.now + world.random.random() * FETCH_S
        world.free_at[address] = world.now + IP_DELAY_S
        place = self.number, address
        world.asked[place] = world.asked.get(place, 0) + 1

    def _count(self) -> None:
        returned, self.owner.returned = self.owner.returned, {}
        counted = self.world.counted
        for address, pages in returned.items():
            counted[address] -= pages
        for address in tuple(self.owner.uncounted):
            pages = min(self.world.cap - counted.get(address, 0), 4)
            counted[address] = counted.get(address, 0) + pages
            self.owner.count(address, pages, self.world.now)


def owner_of(address: str) -> int:
    return int(address[0])


def play(random: Random, cap: int, *, is_calm: bool = False) -> World:
    world = World(random, cap)
    for _ in range(400):
        world.step()
        if not is_calm and random.random() < 0.03:
            world.befall()
    while len(world.ways) < HUBS * (HUBS - 1) or any(hub.pauses for hub in world.hubs):
        world.step()
    world.asked.clear()
    for _ in range(600):
        world.step()
    assert all(pages <= world.cap for pages in world.pages.values() if cap)
    return world


@given(seed=st.integers(0, 1 << 32))
@settings(phases=UNSHRUNK, max_examples=20)
def test_turns_are_exclusive_polite_and_shared_alike(seed: int) -> None:
    world = play(Random(seed), 0)
    for address in (f"{n}{letter}" for n in range(HUBS) for letter in "ab"):
        turns = [world.asked.get((number, address), 0) for number in range(HUBS)]
        assert min(turns) >= 3
        assert max(turns) <= 2 * min(turns) + 2


@given(seed=st.integers(0, 1 << 32))
@settings(phases=UNSHRUNK, max_examples=20)
def test_a_cap_is_never_exceeded(seed: int) -> None:
    play(Random(seed), CAP)


@given(seed=st.integers(0, 1 << 32))
@settings(phases=UNSHRUNK, max_examples=20)
def test_a_cap_is_met_exactly_without_faults(seed: int) -> None:
    world = play(Random(seed), CAP // 2, is_calm=True)
    assert set(world.pages.values()) == {CAP // 2}
    assert set(world.counted.values()) == {CAP // 2}
