"""Links that are kept for a later try, from run to run of a frontier on disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.frontier import POLITE, Driver
from webcrawl.crawl.steering import KEPT_REASONS, kept_reasons
from webcrawl.frontier.base import Policy
from webcrawl.frontier.disk.frontier import FOLDER, LocalFrontier
from webcrawl.frontier.disk.identity import Identity
from webcrawl.frontier.disk.inspection import Inspection
from webcrawl.frontier.host import State
from webcrawl.frontier.lease import Failed, Outcome, RobotsUnreachable, Unresolved
from webcrawl.frontier.orderings import ORDERINGS
from webcrawl.hub.wire import SteeringError
from webcrawl.tools.frontier.command import Command


def opened(folder: Path, order: str = "level", **policy: Any) -> Driver:
    identity: Identity = {"FRONTIER_ORDER": order}
    made = Policy(politeness=POLITE, **policy)
    return Driver(
        LocalFrontier(folder, made, ordering=ORDERINGS[order](), identity=identity, now=1.0)
    )


async def closed(driver: Driver) -> None:
    driver.frontier.audit()  # type: ignore[attr-defined]
    await driver.frontier.close()


async def fail_all(driver: Driver) -> None:
    """Run to the end: of five hosts three fail, each in another way."""
    await driver.put("http://a/", "http://b/", "http://c/1", "http://c/2", "http://d/", "http://e/")
    plan: dict[str, list[Outcome]] = {
        "http://a/": [Failed("timeout", 0.0, 100.0)],
        "b": [Unresolved("dns", again=True)],
        "http://c/robots.txt": [RobotsUnreachable("5xx", 100.0, 100.0)],
    }
    assert sorted(await driver.run(plan)) == ["http://a/", "http://d/", "http://e/"]


KEPT = ["http://a/", "http://b/", "http://c/1", "http://c/2"]


async def test_a_deferred_host_takes_no_memory(tmp_path: Path) -> None:
    driver = opened(tmp_path, retry_times=0)
    await driver.put(*(f"http://{n}.test/" for n in range(50)))
    lost: dict[str, list[Outcome]] = {
        f"{n}.test": [Unresolved("dns", again=True)] for n in range(50)
    }
    assert await driver.run(lost) == []
    bench = driver.frontier._state._bench  # type: ignore[attr-defined]
    assert bench.active == 0
    assert not [host for host in bench.hosts.values() if host.state is State.DEFERRED]
    await closed(driver)


async def test_a_host_without_links_to_retry_takes_no_memory(tmp_path: Path) -> None:
    driver = opened(tmp_path, retry_times=0)
    await fail_all(driver)
    assert await driver.frontier.retry({"dns"}, driver.now) == 1
    assert [*driver.frontier._state._bench.hosts] == ["b"]  # type: ignore[attr-defined]
    await closed(driver)


async def between_runs(driver: Driver, jobdir: Path, reasons: str) -> None:
    await driver.frontier.close()
    await asyncio.to_thread(command, jobdir, reasons)
    driver.frontier = opened(jobdir, retry_times=0).frontier


async def while_it_runs(driver: Driver, jobdir: Path, reasons: str) -> None:
    """As the command asks the running crawl (`extensions.steering`)."""
    assert await driver.frontier.retry(kept_reasons([reasons]), driver.now) == 3


def command(jobdir: Path, reasons: str, exitcode: int = 0) -> None:
    made = Command()
    made.exitcode = 0
    options = type("Options", (), {"retry": reasons, "export": None})
    made.run([str(jobdir)], options)  # type: ignore[arg-type]
    assert made.exitcode == exitcode


@pytest.mark.parametrize("when", [between_runs, while_it_runs])
async def test_retry_puts_kept_links_in_line_at_once(
    tmp_path: Path, when: Callable[[Driver, Path, str], Coroutine[Any, Any, None]]
) -> None:
    driver = opened(tmp_path, retry_times=0)
    await fail_all(driver)
    await when(driver, tmp_path, "dns, robots_unreachable")
    look = Inspection(tmp_path / FOLDER)
    again = [url for priority, url in look.pending() if priority < 100]
    look.close()
    assert sorted(again)[:3] == KEPT[1:]
    pages = await driver.run()
    assert set(KEPT[1:]) <= set(pages)
    await closed(driver)


def test_reasons_are_those_that_links_are_kept_for() -> None:
    assert {"dns", "connect", "connect_timeout", "timeout", "reset"} < KEPT_REASONS
    assert {"robots_unreachable", "host_retired"} < KEPT_REASONS
    assert kept_reasons(["all"]) == KEPT_REASONS
    assert kept_reasons(["dns, reset", "timeout"]) == {"dns", "reset", "timeout"}
    with pytest.raises(SteeringError, match=r"retry weather: allowed are connect, .*, and all"):
        kept_reasons(["dns,weather"])


async def test_a_frontier_that_another_process_has_open_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    driver = opened(tmp_path)
    await asyncio.to_thread(command, tmp_path, "all", exitcode=1)
    await closed(driver)
    assert f"no crawl is running in {tmp_path}" in capsys.readouterr().err


ORDERS = pytest.mark.parametrize("order", ["level", "opic"])


@ORDERS
async def test_the_next_run_tries_all_kept_links(tmp_path: Path, order: str) -> None:
    driver = opened(tmp_path, order, retry_times=0)
    await fail_all(driver)
    assert dict(driver.frontier.counters.kept) == {
        "timeout": 1, "dns": 1, "robots_unreachable": 2,
    }  # fmt: skip
    await closed(driver)
    driver = opened(tmp_path, order, retry_times=0)
    assert driver.frontier.counters.kept.total() == 0
    assert sorted(await driver.run()) == KEPT
    assert driver.frontier.counters.pending == 0
    await closed(driver)


@ORDERS
async def test_a_link_that_is_kept_in_each_run_is_tried_in_each(tmp_path: Path, order: str) -> None:
    for _ in range(4):
        driver = opened(tmp_path, order, retry_times=0, obey_robots=False)
        await driver.put("http://a/")
        failed: dict[str, list[Outcome]] = {"http://a/": [Failed("reset", 0.0, 100.0)] * 9}
        assert await driver.run(failed) == ["http://a/"]
        assert driver.frontier.counters.kept == {"reset": 1}
        await closed(driver)
