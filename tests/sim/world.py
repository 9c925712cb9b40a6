"""One crawl by several processes that are killed again and again. A seed decides everything."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from random import Random

from tests.contracts.frontier import link
from tests.sim.network import loop_random
from tests.sim.processes import Hub
from tests.sim.web import BrokenPromiseError, Judge, Web
from tests.unit.virtualtime import now
from webcrawl.frontier.disk.database import Database
from webcrawl.frontier.store import StoreError

LONGEST_S = 6_000  # some 30 times as long as a crawl


async def crawl(seed: int, folder: Path, *, hub_dies: bool = True, target: int = 0) -> Judge:
    """A crawl in which processes are killed every few seconds, until it is over.

    Raises BrokenPromiseError. Without `hub_dies` only workers are killed. With a `target`, pages
    may hang.
    """
    random = loop_random()
    web = Web(seed, hosts=12, pages=12, hang=0.05 * bool(target))
    judge = Judge(web, target)
    hub = Hub(web, judge, folder, workers=3, random=random)
    await hub.server.put([link(url) for url in web.seeds], now())
    until = now() + LONGEST_S
    while not (hub.own.is_finished() or hub.server.is_met):
        await asyncio.sleep(random.expovariate(1 / 3.0))
        if judge.fault is not None:
            break
        if now() > until:
            raise BrokenPromiseError("it does not end")
        number = random.randrange(len(hub.workers))
        chances = [60, 12, 3 * hub_dies, 3 * hub_dies, 22]
        match random.choices(["kill", "exit", "hub", "torn", ""], chances)[0]:
            case "kill":
                hub.workers[number].kill()
                hub.workers[number] = hub.start_worker()
            case "exit":
                await hub.workers[number].exit()
                hub.workers[number] = hub.start_worker()
            case "hub":
                hub = await _again(hub, web, judge, folder)
            case "torn":
                await _die_in_commit(hub.database, random)
                hub = await _again(hub, web, judge, folder)
    for worker in hub.workers:
        worker.kill()
    await asyncio.sleep(1.0)
    held = [worker.member for worker in hub.workers if worker.member._leases]
    judge.ends(hub.own)
    if held:
        raise BrokenPromiseError("leases of dead processes are still out")
    hub.kill()
    return judge


async def _again(hub: Hub, web: Web, judge: Judge, folder: Path) -> Hub:
    """Kill `hub`; a while later the next one begins."""
    random = loop_random()
    hub.kill()
    await asyncio.sleep(random.random() * 30)
    return Hub(web, judge, folder, workers=3, random=random)


async def _die_in_commit(database: Database, random: Random) -> None:
    """Wait until the next commit: it is written or not, and nobody gets to know."""
    is_written, commit = random.random() < 0.5, database.commit
    died = asyncio.get_running_loop().create_future()

    def last() -> None:
        if not died.done():
            if is_written:
                commit()
            died.set_result(None)
        raise StoreError("the process has died")

    database.commit = last  # type: ignore[method-assign]
    with suppress(TimeoutError):
        async with asyncio.timeout(20):
            await died
