"""Hubs that share a target, orders and an end, over the simulated bus, whatever befalls them.

Sessions, server and `WholeCrawl` are the real ones; `Work` is in the frontier's place.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from random import Random
from typing import Any, cast

import pytest
from msgspec.structs import replace

from tests.sim.bus import Net, SimBus, keep_sessions, peers_of
from tests.sim.network import loop_random, run, seeds, simulated
from tests.unit.virtualtime import now
from webcrawl.cluster.bus import repeat
from webcrawl.cluster.claims import Claim
from webcrawl.cluster.packets import Letter
from webcrawl.cluster.steering import STEP_S, Obey, Reached
from webcrawl.cluster.target import PORTION_MAX, Leader, Report, Word
from webcrawl.cluster.views import Count, Views
from webcrawl.cluster.whole import LAST_S, STOPPED, End, WholeCrawl
from webcrawl.frontier.counters import Counters, CrawlTotals
from webcrawl.hub.server import FrontierServer
from webcrawl.hub.wire import Orders, SteeringError

HUBS = 3


class Work:
    """What a hub has to do: `urls`, and links to other hubs. It survives a kill of its hub."""

    def __init__(self, random: Random, urls: int = 0) -> None:
        self.random = random
        self.urls = urls
        self.counters = Counters()
        self.failed_seeds: dict[str, str] = {}
        self.log, self.commands, self.warnings = None, (), ()
        self.crawl_id, self.resumed = "crawl", False
        self.out = 0
        self.has_requisites = False
        self.outbox: dict[int, tuple[int, int]] = {}
        self.inbox: defaultdict[int, int] = defaultdict(int)
        self.unapplied = 0
        self.links_left = 0
        self.others: list[Work] = []

    @property
    def fresh(self) -> int:
        return self.urls

    supply = fresh

    def is_finished(self) -> bool:
        return not (self.urls or self.out)

    def next_at(self, lane: object) -> float:
        return 0.0

    def begin(self) -> None:
        self.urls -= 1
        self.out += 1

    def answer(self) -> None:
        self.out -= 1
        self.counters.crawled += 1
        for _ in range(self.random.randint(0, 2)):
            if self.links_left:
                self.links_left -= 1
                self._send(self.random.randrange(len(self.others)))

    def _send(self, hub: int) -> None:
        self.outbox[hub] = (1, self.outbox.get(hub, (1, 0))[1] + 1)
        self.unapplied += 1
        loop = asyncio.get_running_loop()

        def apply() -> None:
            self.others[hub].inbox[id(self)] += 1
            self.others[hub].urls += 1
            loop.call_later(self.random.random() * 5, acknowledge)

        def acknowledge() -> None:
            self.unapplied -= 1

        loop.call_later(self.random.expovariate(1 / 5), apply)


class Hub:
    """A hub, and its `Process`."""

    def __init__(self, net: Net, number: int, work: Work, goal: int = 0, hubs: int = HUBS) -> None:
        self.bus = SimBus(net)
        self.work = work
        self.server = FrontierServer(cast("Any", work), target=goal)
        self.peers = peers_of(self.bus, Claim("crawl", number, hubs))
        views = Views(number, hubs, work.counters, "since")
        self.whole = WholeCrawl(
            *(self.peers, self.server, cast("Any", work), views, self),
            unapplied=lambda: self.unapplied,
            recorded_end=lambda: self.recorded_end,
            record_stop=self._record_stop,
            clock=now,
            utc=lambda: f"at {now():.0f}",
        )
        self.state = "running"
        self.elapsed_s = 0.0
        self.rules = ""
        self.commands: list[tuple[str, tuple[str, ...], str]] = []
        self.kept = Orders()
        self.has_stopped = False
        self.recorded_end = ""
        works = (
            keep_sessions(self.bus, self.peers),
            self._fetch(),
            repeat(STEP_S, self.whole.step),
        )
        self._tasks = [asyncio.create_task(each) for each in works]

    async def _fetch(self) -> None:
        """As the frontier's server leases pages, and pages are answered."""
        random = self.work.random
        while not self.whole.share.end:
            await self.bus.goes_on()
            is_off = self.whole.share.is_held or self.state == "closing"
            room = 0 if is_off else min(self.server._room, self.work.urls, 50)
            for _ in range(room):
                self.work.begin()
                self.server.out += 1
                self._tasks.append(asyncio.create_task(self._page(random.random() * 5)))
            await asyncio.sleep(random.random())

    async def _page(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self.bus.goes_on()
        self.work.answer()
        self.server.out -= 1

    def kill(self) -> None:
        for task in self._tasks:
            task.cancel()
        self.bus.kill()
        self.work.urls += self.work.out  # what was leased
        self.work.out = 0

    @property
    def unapplied(self) -> int:
        return self.work.unapplied

    async def _record_stop(self) -> None:
        self.recorded_end = "shutdown"

    # `Process`

    @property
    def is_closing(self) -> bool:
        return self.state == "closing"

    def has_seeds(self) -> bool:
        return False

    def stop(self) -> None:
        self.has_stopped = True

    def wake(self) -> None:
        """The loop looks by itself."""

    def give_back_all(self) -> None:
        """It has no leases."""

    async def explain(self, url: str) -> list[str]:
        if url == "bad":
            raise SteeringError("it is not of this hub")
        return [url, "Fetched."]

    async def order(self, command: str, arguments: Sequence[str], by: str) -> str:
        self.commands.append((command, tuple(arguments), by))
        if command == "pause":
            self.state = "paused"
            number = self.server.orders.number + 1
            self.server.orders = replace(self.server.orders, is_paused=True, number=number)
            await self.whole.steering.spread()
        elif command != "target":
            raise SteeringError(f"there is no {command}")
        return "done"

    async def obey(self, added: Orders) -> int:
        allow, deny = self.kept.allow + added.allow, self.kept.deny + added.deny
        self.server.orders = self.kept = replace(added, allow=allow, deny=deny)
        self.state = "paused" if added.is_paused else "running"
        return 1


class World:
    """The hubs of one crawl."""

    def __init__(self, random: Random, urls: Sequence[int], goal: int = 0) -> None:
        self.random = random
        self.net = Net(random)
        self.goal = goal
        self.works = [Work(random, each) for each in urls]
        for work in self.works:
            work.others = self.works
        self.hubs = [self.start(number) for number in range(len(urls))]

    def start(self, number: int) -> Hub:
        work = self.works[number]
        return Hub(self.net, number, work, self.goal if number == 0 else 0, len(self.works))

    def restart(self, number: int) -> None:
        self.hubs[number].kill()
        self.hubs[number] = self.start(number)

    async def close(self, number: int, *, pages: int) -> CrawlTotals:
        """Hub `number` counts `pages` more, and ends. The whole crawl in its report."""
        hub = self.hubs[number]
        await asyncio.sleep(number * 2.0)
        self.works[number].counters.crawled += pages
        await hub.whole.close()
        found = hub.whole.views.whole()
        hub.peers.close()
        return found

    @property
    def crawled(self) -> int:
        return sum(work.counters.crawled for work in self.works)

    @property
    def ends(self) -> list[str]:
        return [hub.whole.share.end for hub in self.hubs]

    async def befall(self, *, kills: bool, times: int = 25) -> None:
        for _ in range(times):
            await asyncio.sleep(self.random.expovariate(1 / 4.0))
            number = self.random.randrange(len(self.hubs))
            bus = self.hubs[number].bus
            match self.random.choices(["cut", "stop", "kill", ""], [3, 2, 3 * kills, 4])[0]:
                case "cut":
                    bus.cut(self.random.expovariate(1 / 15))
                case "stop":
                    bus.stop(self.random.expovariate(1 / 10))
                case "kill" if not any(self.ends):
                    self.restart(number)
            assert not self.goal or self.crawled <= self.goal

    async def until(self, seconds: float, *, met: int) -> None:
        for _ in range(int(seconds)):
            await asyncio.sleep(1.0)
            assert not self.goal or self.crawled <= self.goal
            if sum(map(bool, self.ends)) >= met:
                return


def calm(urls: Sequence[int] = (0, 0, 0), goal: int = 0) -> World:
    world = World(loop_random(), urls, goal)
    world.net.lost = 0.0
    return world


# The target


async def meet_target(*, kills: bool) -> None:
    random = loop_random()
    goal = random.randint(1, 400)
    urls = [goal, random.randint(0, goal), random.randint(0, 30)]  # enough; some; few
    random.shuffle(urls)
    world = World(random, urls, goal)
    await world.befall(kills=kills)
    world.net.lost = 0.0
    await world.until(600, met=HUBS)
    assert world.crawled == goal
    assert set(world.ends) == {"closespider_pagecount"}


@pytest.mark.parametrize("seed", seeds(3))
@pytest.mark.parametrize("kills", [False, True])
def test_the_target_is_met_exactly_whatever_befalls(seed: int, kills: bool) -> None:
    run(meet_target(kills=kills), seed)


@pytest.mark.parametrize("seed", seeds(3))
@simulated
async def test_a_hub_that_is_away_for_ever_keeps_its_places_and_is_named(
    seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    random = loop_random()
    goal = random.randint(50, 4000)
    world = World(random, [goal, goal, goal], goal)
    await asyncio.sleep(2 + random.random() * 20)
    gone = random.randrange(HUBS)
    kept = world.hubs[gone].whole.share.places - world.works[gone].counters.crawled
    world.hubs[gone].kill()
    await world.until(900, met=HUBS)
    assert goal - kept - PORTION_MAX <= world.crawled <= goal
    if any(world.ends):
        assert world.crawled == goal
        assert sum(map(bool, world.ends)) >= HUBS - 1
    else:  # hub 0 may have gone when the last places were given
        assert world.crawled < goal or gone == 0
        assert f"waits for 1 hub ({gone})" in caplog.text


@simulated
async def test_a_hub_that_ends_gives_its_places_back() -> None:
    world = calm((0, 9000, 9000), goal=6000)
    await asyncio.sleep(3.0)
    leaves = world.hubs[1]
    leaves.state = "closing"
    await asyncio.sleep(8.0)
    assert not leaves.work.out
    leaves.kill()
    await world.until(200, met=HUBS - 1)
    assert world.crawled == world.goal


@simulated
async def test_a_goal_that_is_set_later_counts_what_all_hubs_have() -> None:
    world = calm((20_000, 20_000, 20_000))
    await asyncio.sleep(10.0)
    leader = world.hubs[0].whole
    lowest = await leader.recall(1 << 40)
    crawled = world.crawled
    assert crawled <= lowest == crawled + sum(hub.server.out for hub in world.hubs)
    leader.set_goal(world.goal)  # it is refused: all go on without one
    await asyncio.sleep(5.0)
    assert world.crawled > lowest
    await leader.recall(lowest + 9000)
    world.goal = lowest + 9000
    leader.set_goal(world.goal)
    await asyncio.sleep(2.0)
    lower = await leader.recall(world.goal - 100)
    assert lower + 100 < world.goal
    world.goal = lower + 100
    leader.set_goal(world.goal)
    await world.until(100, met=HUBS)
    assert world.crawled == world.goal


@simulated
async def test_no_goal_is_set_while_a_hub_cannot_be_asked() -> None:
    world = calm((1000, 1000, 1000))
    await asyncio.sleep(5.0)
    world.hubs[2].kill()
    await asyncio.sleep(15.0)
    with pytest.raises(SteeringError, match=r"without the answer of 1 hub \(2\)$"):
        await world.hubs[0].whole.recall(5000)


@simulated
async def test_nothing_is_leased_before_hub_0_has_spoken(caplog: pytest.LogCaptureFixture) -> None:
    world = calm((0, 1000, 1000))
    world.hubs[0].kill()
    world.restart(1)
    before = world.crawled
    await asyncio.sleep(60.0)
    assert world.works[1].counters.crawled == 0
    assert "Hub 0 has not said how the crawl is steered: this hub waits" in caplog.text
    world.hubs[0] = world.start(0)
    await world.until(100, met=HUBS)
    assert world.crawled == 2000 > before


@simulated
async def test_a_hub_in_its_pause_says_nothing_of_others(caplog: pytest.LogCaptureFixture) -> None:
    world = calm((1000, 1000, 1000))
    world.restart(1)
    world.hubs[1].peers.serves_until = 0.0
    await asyncio.sleep(20.0)
    world.hubs[1].peers.serves_until = float("inf")
    await asyncio.sleep(10.0)
    assert world.works[1].counters.crawled
    assert "this hub waits" not in caplog.text


@simulated
async def test_a_hub_with_other_rules_than_hub_0_waits(caplog: pytest.LogCaptureFixture) -> None:
    world = calm((10, 10_000, 10))
    world.hubs[1].rules = "other"
    await asyncio.sleep(60.0)
    assert world.works[1].counters.crawled == 0
    assert caplog.text.count("RULES is not that of hub 0: this hub waits") == 1
    world.hubs[0].rules = "other"  # read again
    await asyncio.sleep(10.0)
    assert world.works[1].counters.crawled > 0
    assert [hub.whole.share.is_held for hub in world.hubs] == [False, False, True]


@simulated
async def test_each_hub_knows_at_the_end_whether_any_page_was_answered() -> None:
    world = calm((0, 1, 0))
    await world.until(100, met=HUBS)
    assert [hub.server.crawled for hub in world.hubs] == [1, 1, 1]


# The end


async def find_end() -> None:
    random = loop_random()
    world = World(random, [1, 0, 0])
    for work in world.works:
        work.links_left = random.randint(0, 40)
    befalling = asyncio.create_task(world.befall(kills=False))
    for _ in range(4000):
        await asyncio.sleep(0.25)
        is_over = not any(work.urls or work.out or work.unapplied for work in world.works)
        assert is_over or not any(world.ends)
        if all(world.ends):
            break
    await befalling
    assert world.ends == ["finished"] * HUBS


@pytest.mark.parametrize("seed", seeds(3))
def test_the_end_is_declared_when_nothing_is_on_its_way(seed: int) -> None:
    run(find_end(), seed)


@simulated
async def test_the_crawl_ends_also_with_high_numbers_of_mail() -> None:
    world = calm((3, 3, 3))
    for number, work in enumerate(world.works):
        others = [other for other in range(HUBS) if other != number]
        work.outbox = dict.fromkeys(others, ((1 << 61) + 1, 1 << 61))
        work.inbox = defaultdict(int, dict.fromkeys(others, 1 << 61))
    await world.until(60, met=HUBS)
    assert world.ends == ["finished"] * HUBS


@simulated
async def test_a_crawl_does_not_end_without_one_of_its_hubs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = calm((3, 3, 3))
    world.hubs[1].kill()
    world.works[2].unapplied = 1  # to hub 1
    await asyncio.sleep(100.0)
    assert world.ends == ["", "", ""]
    line = "Nothing is left to do here: this hub waits for 1 hub (1)."
    assert caplog.text.count(line) == 2  # by each of the others
    world.hubs[1] = world.start(1)
    await asyncio.sleep(60.0)
    world.hubs[1].kill()
    await asyncio.sleep(60.0)
    assert caplog.text.count(line) == 2, "it has been said lately"
    world.hubs[1] = world.start(1)
    await asyncio.sleep(60.0)
    assert world.ends == ["", "", ""]
    world.works[2].unapplied = 0
    await world.until(100, met=HUBS)
    assert world.ends == ["finished"] * HUBS


@pytest.mark.parametrize("by", [0, 1])
@simulated
async def test_a_stop_ends_all_that_are_there_and_those_that_come_back(by: int) -> None:
    """Also without hub 0."""
    world = calm((1000, 1000, 1000))
    await asyncio.sleep(5.0)
    world.hubs[2].bus.cut(40.0)
    if by:
        world.hubs[0].kill()
    await asyncio.sleep(15.0)
    world.hubs[by].whole.end(STOPPED)
    await asyncio.sleep(1.0)
    assert not by or world.ends[1] == STOPPED
    assert by or world.hubs[1].has_stopped
    await asyncio.sleep(60.0)
    assert world.hubs[2].has_stopped


@pytest.mark.parametrize("reason", ["shutdown", "finished"])
@simulated
async def test_a_hub_that_was_away_finds_the_end_on_the_bus(reason: str) -> None:
    """All others have ended, or were stopped, and are gone."""
    world = calm((0, 0, 10**6))
    await asyncio.sleep(5.0)
    last = world.hubs[2]
    last.recorded_end = reason
    await asyncio.sleep(5.0)
    assert not last.whole.share.end, "the others are there, and say it"
    for hub in world.hubs[:2]:
        hub.kill()
    await asyncio.sleep(15.0)
    assert last.whole.share.end == reason
    assert last.has_stopped == (reason == "shutdown")


# Orders


@simulated
async def test_orders_reach_all_hubs_and_one_that_comes_back() -> None:
    world = calm()
    await asyncio.sleep(5.0)
    leader = world.hubs[0]
    leader.server.orders = Orders(deny=("a.test",), number=1)
    assert await leader.whole.steering.spread() == Reached((), 2)
    world.hubs[2].bus.cut(40.0)
    await asyncio.sleep(15.0)
    leader.server.orders = Orders(deny=("a.test", "re:login"), number=2)
    assert await leader.whole.steering.spread() == Reached((2,), 1)
    assert world.hubs[2].kept.deny == ("a.test",)
    await asyncio.sleep(60.0)
    assert [hub.kept.deny for hub in world.hubs[1:]] == [("a.test", "re:login")] * 2


@simulated
async def test_a_pause_holds_until_hub_0_starts_again() -> None:
    world = calm()
    await asyncio.sleep(5.0)
    await world.hubs[0].order("pause", (), "a user")
    assert [hub.state for hub in world.hubs] == ["paused"] * HUBS
    world.restart(2)
    await asyncio.sleep(30.0)
    assert [hub.state for hub in world.hubs] == ["paused"] * HUBS
    world.restart(0)
    await asyncio.sleep(30.0)
    leader = world.hubs[0]
    assert leader.server.orders.number > 1, "fetchers of the run before obey the highest"
    assert [hub.state for hub in world.hubs] == ["running"] * HUBS


@simulated
async def test_a_command_at_any_hub_goes_to_hub_0_and_a_question_to_the_hub_of_its_url() -> None:
    world = calm()
    await asyncio.sleep(5.0)
    asking = world.hubs[1].whole.steering
    assert await asking.ask("target", ["5"]) == "done"
    assert world.hubs[0].commands == [("target", ("5",), "scrapy ctl at hub 1")]
    for command, argument, said in (
        ("resume", "", "there is no resume"),  # as its process says
        ("deny", "re:((((", "not a regular expression"),
        ("deny", "@/etc/hostname", "and no file"),
        ("allow", " @/etc/hostname", "and no file"),
        ("seeds", "/etc/hostname", "seeds is of one hub alone"),
        ("status", "", "status is of one hub alone"),
    ):
        with pytest.raises(SteeringError, match=said):
            await asking.ask(command, [argument])
    assert await asking.explain(2, "http://a.test/") == ["http://a.test/", "Fetched."]
    with pytest.raises(SteeringError, match=r"^it is not of this hub$"):
        await asking.explain(2, "bad")
    with pytest.raises(SteeringError, match=r"^only hub 0 carries out commands$"):
        await asking.ask("pause", [], 2)
    world.hubs[0].kill()
    with pytest.raises(SteeringError, match=r"^hub 0 does not answer"):
        await asking.ask("pause", [])


@pytest.mark.parametrize(
    "letter",
    [
        Obey(Orders(True, (), ("re:((((",), 1)),
        Obey(Orders(True, (), ("@/etc/hostname",), 1)),
        Obey(Orders(True, ("a.test", "re:(?P<x"), (), 1)),
    ],
)
@simulated
async def test_orders_that_no_user_could_give_are_one_line(
    letter: Letter, caplog: pytest.LogCaptureFixture
) -> None:
    world = calm()
    await asyncio.sleep(5.0)
    caplog.clear()
    world.hubs[0].peers.send(1, letter)
    await asyncio.sleep(5.0)
    assert (world.hubs[1].kept, world.hubs[1].state) == (Orders(), "running")
    assert world.ends == [""] * HUBS or set(world.ends) == {"finished"}
    errors = [each for each in caplog.records if each.levelname == "ERROR"]
    assert len(errors) == 1
    assert "Hub 0 has sent orders that are not obeyed" in errors[0].message


@simulated
async def test_letters_that_only_hub_0_may_send_are_not_obeyed() -> None:
    world = calm((1000, 1000, 1000))
    await asyncio.sleep(5.0)
    victim = world.hubs[2]
    for letter in (
        Obey(Orders(True, (), ("a.test",), 9)),
        Word(9, 1, 0, 5, 0, 1),
        End("finished"),
        End("closespider_pagecount"),
        Report(1, 1, 1, 1, 1, 1, 1),
    ):
        world.hubs[1].peers.send(2, letter)
    await asyncio.sleep(2.0)
    assert victim.state == "running"
    assert victim.kept == Orders()
    assert not victim.whole.share.end
    assert victim.whole.share.goal == 0


# Numbers


@simulated
async def test_each_hub_knows_the_sum_and_names_a_hub_that_is_away() -> None:
    world = calm((100, 200, 300))
    world.hubs[0].commands.clear()
    await asyncio.sleep(10.0)
    for work in world.works:
        work.urls = 0
    world.hubs[2].bus.cut(60.0)
    await asyncio.sleep(20.0)
    for hub in world.hubs[:2]:
        found = hub.whole.views.whole()
        assert found.counters.crawled == world.crawled
        assert (found.hub, found.hubs, [*found.away]) == (hub.whole.number, HUBS, [2])
        assert found.away[2].startswith("at ")


@simulated
async def test_hubs_that_end_with_the_crawl_know_its_last_pages_and_name_none_as_away() -> None:
    world = calm((40, 200, 300))
    world.hubs[0].whole.end(STOPPED)
    await asyncio.sleep(2.0)  # all have heard it; then pages end that were under way
    totals = await asyncio.gather(*(world.close(n, pages=100 * n) for n in range(HUBS)))
    for found in totals:
        assert found.counters.crawled == world.crawled
        assert not found.away


@simulated
async def test_a_hub_that_ends_alone_does_not_wait_and_one_that_hangs_is_not_waited_for() -> None:
    world = calm((40, 200, 300))
    await asyncio.sleep(2.0)
    began = now()
    await world.close(2, pages=1)
    assert now() == began + 4.0  # when it began to end
    await asyncio.sleep(2.0)
    world.hubs[0].whole.end(STOPPED)
    assert [*(await world.close(0, pages=1)).away] == [2]
    assert now() == began + 6.0 + LAST_S  # hub 1 never says its last pages


@simulated
async def test_only_counts_of_this_version_are_added() -> None:
    world = calm()
    counters = world.works[1].counters
    counters.crawled = 10**12
    counters.dropped.update({f"a reason, {n}": n for n in range(500)})
    await asyncio.sleep(5.0)
    found = world.hubs[0].whole.views.whole().counters
    assert (found.crawled, found.dropped) == (10**12, +counters.dropped)
    odd = Count(
        *(1.0, 1.0, 1.0, 0),
        {"crawled": 2, "__class__": 1, "under_way": 7, "codes": 3, "links": {"a": 1}}
        | {"to_dict": {"a": 1}, "failed": {"dns": 1}},
    )
    await asyncio.sleep(0.1)
    world.hubs[2].peers.send(0, odd)
    await asyncio.sleep(0.1)
    again = world.hubs[0].whole.views.whole().counters
    assert (again.crawled, again.links, again.under_way) == (10**12 + 2, 0, 0)
    assert (again.codes, again.failed) == (Counter(), Counter({"dns": 1}))


# The tests see what they are there for


def places_before_all_have_spoken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Leader, "unheard", [])


def one_wave(patch: pytest.MonkeyPatch) -> None:
    real = Leader.is_finished

    def is_finished(self: Leader) -> bool:
        wave = self._wave
        return real(self) or self._wave != wave

    patch.setattr(Leader, "is_finished", is_finished)


def mail_under_way_is_no_matter(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Hub, "unapplied", 0)
    one_wave(patch)


@pytest.mark.parametrize(
    ("plant", "works"),
    [
        (places_before_all_have_spoken, partial(meet_target, kills=True)),
        (one_wave, find_end),
        (mail_under_way_is_no_matter, find_end),
    ],
)
def test_planted_faults(
    plant: Callable[[pytest.MonkeyPatch], None],
    works: Callable[[], Coroutine[Any, Any, None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):  # noqa: PT012  (at the first seed that shows it)
        for seed in range(12):
            run(works(), seed)
