"""Mail between hubs, through kills, cuts, losses of power and restored checkpoints.

Frontiers, couriers and sessions are the real ones, and the files of the frontiers; time and bus are
simulated.
"""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from tests.contracts.frontier import link
from tests.sim.bus import Net, SimBus, keep_sessions, peers_of
from tests.sim.network import loop_random, seeds, simulated
from tests.sim.processes import copy_frontier, kill_frontier
from tests.sim.web import UTC_S
from tests.unit.virtualtime import now
from webcrawl.cluster import courier, letters
from webcrawl.cluster.bus import repeat
from webcrawl.cluster.claims import Claim
from webcrawl.cluster.courier import BATCHES_MAX, KEPT_S, PAUSE_S, Courier
from webcrawl.cluster.letters import ROWS_MAX
from webcrawl.cluster.packets import TICK_S
from webcrawl.frontier.buckets import hub_of, other_hubs
from webcrawl.frontier.disk.frontier import FOLDER, LocalFrontier
from webcrawl.frontier.mailbox import JUMP, FoundLink, Mail

ROUND_S = 6 * PAUSE_S  # from a commit here to the answer of a hub that is there
A_BEGIN_S = 3 * TICK_S
A_START_S = 2.0  # of a process


class Hub:
    """One of the hubs of a crawl. `applied` is the mail that its frontier has, by URL."""

    def __init__(
        self, net: Net, folder: Path, number: int, hubs: int, *, has_checkpoints: bool = False
    ) -> None:
        self.net, self.folder, self.number = net, folder, number
        self.claim = Claim("crawl", number, hubs)
        self.has_checkpoints = has_checkpoints
        self.hubs = hubs
        self.applied: Counter[str] = Counter()
        self.put_urls: set[str] = set()
        self.safe: tuple[Counter[str], set[str]] = Counter(), set()  # as of the copy in `kept`
        self.refusals: list[str] = []
        self.start()

    def start(self, utc_s: float = UTC_S) -> None:
        self.bus = SimBus(self.net)
        self.peers = peers_of(self.bus, self.claim)
        partition = other_hubs(self.number, self.hubs)
        self.frontier = LocalFrontier(self.folder, now=now(), utc_s=utc_s, partition=partition)
        self._watch(self.frontier)
        self.courier = Courier(
            self.peers,
            self.frontier,
            is_ours=lambda host: partition(host) is None,
            on_applied=lambda: None,
            refuse=self.refusals.append,
            clock=now,
        )
        if self.has_checkpoints:
            self.courier.set_kept({})
        works = keep_sessions(self.bus, self.peers), repeat(PAUSE_S, self.courier.turn)
        self._tasks = [asyncio.create_task(each) for each in works]

    def _watch(self, frontier: LocalFrontier) -> None:
        """Note what is applied, in the order in which it is."""
        mailbox = frontier._state._own_mailbox()
        new_of, store = mailbox.new_of, frontier._store

        def noted(sender: int, last: int, mail: list[Mail]) -> Any:
            new = new_of(sender, last, mail)
            self.applied.update(each.link.url for each in new if isinstance(each, FoundLink))
            return new

        def synced() -> None:
            """The files of now are what a loss of power leaves."""
            self.copy(self.folder / "kept")
            self.safe = Counter(self.applied), set(self.put_urls)

        mailbox.new_of, store.sync = noted, synced  # type: ignore[method-assign, assignment]

    async def put(self, urls: list[str]) -> None:
        self.put_urls |= set(urls)
        await self.frontier.put([link(url) for url in urls], now())

    def copy(self, folder: Path) -> None:
        copy_frontier(self.folder / FOLDER, folder)

    def kill(self) -> None:
        for task in self._tasks:
            task.cancel()
        self.bus.kill()
        kill_frontier(self.frontier)

    def lose_power(self) -> None:
        """What is not synced is lost."""
        self.kill()
        if (self.folder / "kept").exists():
            self._set_back(self.folder / "kept", self.safe)

    async def make_checkpoint(self) -> None:
        inbox = self.frontier._state.sync()
        self.copy(self.folder / "checkpoint")
        self.of_checkpoint = Counter(self.applied), set(self.put_urls)
        self.courier.set_kept(inbox)

    def restore(self) -> None:
        """The machine is lost: the last checkpoint takes its place."""
        self.kill()
        self._set_back(self.folder / "checkpoint", self.of_checkpoint)

    def begin_empty(self) -> None:
        """The machine is lost, and has no checkpoint."""
        self.kill()
        shutil.rmtree(self.folder)
        self.applied, self.put_urls = Counter(), set()

    def _set_back(self, copy: Path, known: tuple[Counter[str], set[str]]) -> None:
        shutil.rmtree(self.folder / FOLDER)
        shutil.copytree(copy, self.folder / FOLDER)
        self.applied, self.put_urls = Counter(known[0]), set(known[1])

    def hosts_of(self, hub: int, number: int) -> list[str]:
        """Some hosts of `hub`."""
        hosts = (f"h{n}.example" for n in count())
        found = (host for host in hosts if hub_of(host, self.hubs) == hub)
        return [next(found) for _ in range(number)]

    def urls_for(self, hub: int, first: int, end: int) -> list[str]:
        (host,) = self.hosts_of(hub, 1)
        return [f"http://{host}/{self.number}-{n}" for n in range(first, end)]


async def pair(folder: Path, **options: Any) -> tuple[Hub, Hub]:
    net = Net(loop_random())
    net.lost = 0.0
    first, second = (Hub(net, folder / str(n), n, 2, **options) for n in range(2))
    await asyncio.sleep(A_BEGIN_S)
    return first, second


def numbers(hub: Hub) -> tuple[int, int]:
    """Of its mail to hub 1."""
    first, last = hub.frontier._state.outbox[1]
    return first % JUMP, last % JUMP


@simulated
async def test_mail_is_applied_and_then_deleted_at_its_sender(tmp_path: Path) -> None:
    first, second = await pair(tmp_path)
    urls = first.urls_for(1, 0, 3 * ROWS_MAX)
    await first.put(urls)
    assert first.courier.unapplied == len(urls)
    await asyncio.sleep(ROUND_S)
    assert second.applied == Counter(urls)
    assert (first.courier.unapplied, second.applied.total()) == (0, len(urls))
    await asyncio.sleep(2 * KEPT_S)
    assert numbers(first) == (len(urls) + 1, len(urls))


@simulated
async def test_rows_are_kept_once_they_are_synced(tmp_path: Path) -> None:
    first, second = await pair(tmp_path)
    await first.put(first.urls_for(1, 0, 9))
    await asyncio.sleep(ROUND_S)
    kept = first.frontier._state.outbox[1][0] % JUMP - 1
    assert kept <= len(second.safe[0])


@simulated
async def test_with_checkpoints_rows_stay_until_one_has_them(tmp_path: Path) -> None:
    first, second = await pair(tmp_path, has_checkpoints=True)
    await first.put(first.urls_for(1, 0, 5))
    await asyncio.sleep(5 * KEPT_S)
    assert second.applied.total() == 5
    assert numbers(first) == (1, 5)
    await second.make_checkpoint()
    await asyncio.sleep(5 * KEPT_S)
    assert numbers(first) == (6, 5)


@simulated
async def test_a_receiver_that_does_not_apply_is_sent_few_batches(tmp_path: Path) -> None:
    first, second = await pair(tmp_path)
    second._tasks[1].cancel()
    await first.put(first.urls_for(1, 0, (BATCHES_MAX + 3) * ROWS_MAX))
    await asyncio.sleep(30.0)
    assert len(second.courier._arrived) == BATCHES_MAX
    second._tasks[1] = asyncio.create_task(repeat(PAUSE_S, second.courier.turn))
    await asyncio.sleep(3 * ROUND_S)
    assert second.applied.total() == (BATCHES_MAX + 3) * ROWS_MAX


@simulated
async def test_rows_that_cannot_be_read_are_never_applied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = await pair(tmp_path)
    real = letters.write_rows
    with monkeypatch.context() as patch:
        patch.setattr(courier, "write_rows", lambda packed: replace(real(packed), data=b"garbage"))
        await first.put(first.urls_for(1, 0, 20))
        await asyncio.sleep(ROUND_S)
    await first.put(first.urls_for(1, 20, 30))
    await asyncio.sleep(ROUND_S)
    assert second.applied == Counter(first.urls_for(1, 20, 30))
    assert first.courier.unapplied == 0


@simulated
async def test_an_old_copy_of_jobdir_goes_on_as_one_that_was_restored(tmp_path: Path) -> None:
    first, second = await pair(tmp_path)
    first.copy(tmp_path / "old")
    await first.put(first.urls_for(1, 0, 5))
    await asyncio.sleep(ROUND_S)
    first.kill()
    await second.put(second.urls_for(0, 0, 7))
    first._set_back(tmp_path / "old", (Counter(), set()))
    first.start()
    await first.put(first.urls_for(1, 3, 9))
    await asyncio.sleep(A_BEGIN_S + ROUND_S)
    assert second.applied == Counter(first.urls_for(1, 0, 5) + first.urls_for(1, 3, 9))
    assert first.applied.total() == 7
    assert (first.courier.unapplied, second.courier.unapplied) == (0, 0)


@pytest.mark.parametrize("wrong_s", [-3600.0, 0.0], ids=["is behind", "was ahead"])
@simulated
async def test_a_hub_that_was_set_back_with_a_wrong_clock_ends_with_one_line(
    wrong_s: float, tmp_path: Path
) -> None:
    first, second = await pair(tmp_path)
    if not wrong_s:
        first.kill()
        first.start(UTC_S + 3600.0)
        await first.put(first.urls_for(1, 7, 8))
        await asyncio.sleep(A_BEGIN_S + ROUND_S)
    first.copy(tmp_path / "old")
    first.kill()
    first.start()
    await first.put(first.urls_for(1, 0, 1))
    await asyncio.sleep(A_BEGIN_S + ROUND_S)
    first.kill()
    first._set_back(tmp_path / "old", (Counter(), set()))
    first.start(UTC_S + wrong_s)
    await asyncio.sleep(A_BEGIN_S + ROUND_S)
    assert first.refusals == [], "nothing is lost so far"
    await first.put(first.urls_for(1, 5, 9))
    await asyncio.sleep(10 * ROUND_S)
    (line,) = first.refusals
    assert line.startswith("hub 1 has later mail of this hub than JOBDIR")
    first.kill()
    first._set_back(tmp_path / "old", (Counter(), set()))
    first.start(UTC_S + 7200.0)
    await first.put(first.urls_for(1, 5, 9))
    await asyncio.sleep(A_BEGIN_S + ROUND_S)
    assert len(first.refusals) == 1
    assert second.applied.keys() >= set(first.urls_for(1, 5, 9))


@simulated
async def test_mail_of_a_hub_with_a_wrong_clock_is_not_deleted_as_earlier_mail(
    tmp_path: Path,
) -> None:
    first, _ = await pair(tmp_path)
    first.copy(tmp_path / "old")
    await first.put(first.urls_for(1, 0, 9))
    await asyncio.sleep(ROUND_S + 2 * KEPT_S)
    first.kill()
    first._set_back(tmp_path / "old", (Counter(), set()))
    first.start(UTC_S - 3600.0)
    await first.put(first.urls_for(1, 20, 24))  # before a session begins
    await asyncio.sleep(A_BEGIN_S + ROUND_S)
    assert len(first.refusals) == 1
    begin, last = first.frontier.outbox[1]
    assert last - begin + 1 == 4


@simulated
async def test_a_hub_that_begins_empty_gets_what_others_hold_for_it_and_is_heard(
    tmp_path: Path,
) -> None:
    first, second = await pair(tmp_path, has_checkpoints=True)
    for number in range(2):  # it is lost twice
        await first.put(first.urls_for(1, 10 * number, 10 * number + 5))
        await second.put(second.urls_for(0, 10 * number, 10 * number + 5))
        await asyncio.sleep(ROUND_S)
        second.begin_empty()
        await asyncio.sleep(A_START_S)
        second.start()
        await second.put(second.urls_for(0, 10 * number + 5, 10 * number + 7))
        await asyncio.sleep(A_BEGIN_S + ROUND_S)
        assert second.applied == Counter(first.put_urls)
        known = {n for last in range(number + 1) for n in range(10 * last, 10 * last + 7)}
        assert first.applied == Counter(f"{second.urls_for(0, n, n + 1)[0]}" for n in known)
    assert first.courier.lost + second.courier.lost == 0


@simulated
async def test_what_was_deleted_before_a_receiver_was_set_back_is_counted_as_lost(
    tmp_path: Path,
) -> None:
    first, second = await pair(tmp_path)
    await first.put(first.urls_for(1, 0, 5))
    await asyncio.sleep(ROUND_S)
    second.copy(tmp_path / "old")
    await first.put(first.urls_for(1, 5, 9))
    await asyncio.sleep(ROUND_S + 2 * KEPT_S)
    second.kill()
    second._set_back(tmp_path / "old", (Counter(), set()))
    second.start()
    await first.put(first.urls_for(1, 9, 10))
    await asyncio.sleep(A_BEGIN_S + ROUND_S)
    assert second.courier.lost == 4
    assert second.applied == Counter(first.urls_for(1, 9, 10))


@pytest.mark.parametrize("seed", seeds(3))
@pytest.mark.parametrize("has_checkpoints", [False, True])
@simulated
async def test_each_mail_is_applied_once_whatever_befalls(
    seed: int, has_checkpoints: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    random = loop_random()
    net = Net(random)
    hubs = [Hub(net, tmp_path / str(n), n, 3, has_checkpoints=has_checkpoints) for n in range(3)]
    if has_checkpoints:
        for hub in hubs:
            await hub.make_checkpoint()
    numbers = count()
    for _ in range(40):
        await asyncio.sleep(random.expovariate(1 / 1.5))
        await befall(random, random.choice(hubs), numbers)
    net.lost = 0.0
    for hub in hubs:
        hub.bus.is_cut = False
    await asyncio.sleep(120.0)
    judge(hubs)
    assert "cannot be" not in caplog.text
    for hub in hubs:
        hub.kill()


async def befall(random: Random, hub: Hub, numbers: Any) -> None:
    fates = {"put": 20, "kill": 3, "cut": 3, "stop": 2}
    fates |= {"restore": 2, "checkpoint": 4} if hub.has_checkpoints else {"power": 3}
    match random.choices([*fates], [*fates.values()])[0]:
        case "put":
            other = random.choice([n for n in range(3) if n != hub.number])
            first = next(numbers) * 10_000
            await hub.put(hub.urls_for(other, first, first + random.choice([1, 7, 700, 2_500])))
        case "kill":
            hub.kill()
            hub.start()
        case "power":
            hub.lose_power()
            await asyncio.sleep(A_START_S)
            hub.start()
        case "checkpoint":
            await hub.make_checkpoint()
        case "restore":
            hub.restore()
            await asyncio.sleep(A_START_S)
            hub.start()
        case "cut":
            hub.bus.cut(random.expovariate(1 / 10))
        case "stop":
            hub.bus.stop(random.expovariate(1 / 10))


def judge(hubs: list[Hub]) -> None:
    """Each URL that a hub still knows to have put was applied, and none twice."""
    for hub in hubs:
        assert not hub.courier.lost
        known = {url for other in hubs for url in other.put_urls}
        mine = {url for url in known if hub_of(url.split("/")[2], hub.hubs) == hub.number}
        assert mine - hub.applied.keys() == set()
        assert max(hub.applied.values(), default=1) == 1
        assert hub.courier.unapplied == 0
