"""One crawl by two hubs and two fetchers on a real bus: the ledger judges it."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from simweb import running
from tests.contracts.natsserver import NatsServer
from tests.crawl.crawling import Result, assert_clean, assert_faultless
from tests.crawl.onecrawl import assert_no_fault_but_of_kills
from tests.crawl.test_hub import UNDER_WAY_MAX, WORLD, Machine, wait_for_pages

pytestmark = pytest.mark.slow


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[NatsServer]:
    with NatsServer(tmp_path / "bus") as server:
        yield server


def of_all(results: list[Result], name: str) -> int:
    return sum(result.report["counts"][name] for result in results)


def test_two_hubs_and_two_fetchers_are_one_crawl_that_ends_by_itself(
    tmp_path: Path, bus: NatsServer
) -> None:
    with running(*WORLD, "--hosts", "60", "--host-delay", "0.2") as web:
        hubs = [
            Machine(
                tmp_path / f"hub-{n}", web, bus,
                JOBDIR=tmp_path / f"job-{n}", CLUSTER_HUBS=2, DOWNLOAD_DELAY=0.2,
            )
            for n in range(2)
        ]  # fmt: skip
        fetchers = [Machine(tmp_path / f"fetcher-{n}", web, bus) for n in range(2)]
        crawls = [machine.start() for machine in (*hubs, *fetchers)]
        results = [crawl.wait(120) for crawl in crawls]
        ledger = assert_faultless(web)
    for result in results:
        assert result.exit_code == 0, result.log[-3000:]
        assert_clean(result)
    assert of_all(results[:2], "crawled") == ledger["fetched"]["pages"]


def test_a_fetcher_goes_on_through_the_kill_of_a_hub_and_its_own_stop(
    tmp_path: Path, bus: NatsServer
) -> None:
    with running(*WORLD, "--hosts", "100", "--host-delay", "0.5") as web:
        hubs = [
            Machine(
                tmp_path / f"hub-{n}", web, bus,
                JOBDIR=tmp_path / f"job-{n}", CLUSTER_HUBS=2, DOWNLOAD_DELAY=0.5,
            )
            for n in range(2)
        ]  # fmt: skip
        crawls = [machine.start() for machine in hubs]
        fetcher = Machine(tmp_path / "fetcher", web, bus).start()
        wait_for_pages(fetcher)
        crawls[1].process.kill()
        crawls[1].process.wait()
        wait_for_pages(fetcher)
        crawls[1] = hubs[1].start()
        fetcher.process.send_signal(signal.SIGSTOP)
        time.sleep(20.0)
        fetcher.process.send_signal(signal.SIGCONT)
        results = [crawl.wait(200) for crawl in (*crawls, fetcher)]
        ledger = assert_no_fault_but_of_kills(web, 2 * 2 * UNDER_WAY_MAX)
    for result in results:
        assert result.exit_code == 0, result.log[-3000:]
        assert_clean(result)
    assert of_all(results[:2], "crawled") == ledger["fetched"]["pages"]
