"""Crawls by two hubs and two fetchers on a real bus: the ledger judges them.

Hosts of both hubs share IP addresses, so the hubs ask each other for turns.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simweb import Running
from tests.contracts.natsserver import NatsServer
from tests.crawl.crawling import Result, assert_clean, assert_faultless
from tests.crawl.onecrawl import assert_no_fault_but_of_kills
from tests.crawl.test_hub import UNDER_WAY_MAX, Machine, wait_for_pages
from tests.forked import running

pytestmark = pytest.mark.slow
WORLD = (
    *("--seed", "6", "--pages-per-host", "8", "--host-delay", "0.3"),
    *("--ips", "12", "--ip-delay", "0.05"),  # each address has hosts of both hubs
    *("--features", "none,page-404,page-chunked"),
)


def hub_of(folder: Path, number: int, web: Running, bus: NatsServer) -> Machine:
    settings: dict[str, Any] = {"IP_DELAY": 0.05, "DOWNLOAD_DELAY": 0.3, "CLUSTER_HUBS": 2}
    job = folder / f"job-{number}"
    return Machine(folder / f"hub-{number}", web, bus, JOBDIR=job, **settings)


def machines_of(folder: Path, web: Running, bus: NatsServer) -> tuple[list[Machine], list[Machine]]:
    """Two hubs and two fetchers."""
    hubs = [hub_of(folder, number, web, bus) for number in range(2)]
    return hubs, [Machine(folder / f"fetcher-{number}", web, bus) for number in range(2)]


def assert_ended(results: list[Result]) -> int:
    """The pages that the hubs have counted."""
    for result in results:
        assert_clean(result)
    return sum(result.report["counts"]["crawled"] for result in results[:2])


def test_two_hubs_and_two_fetchers_are_one_crawl_that_ends_by_itself(
    tmp_path: Path, bus: NatsServer
) -> None:
    with running(*WORLD, "--hosts", "40") as web:
        hubs, fetchers = machines_of(tmp_path, web, bus)
        crawls = [machine.start() for machine in (*hubs, *fetchers)]
        wait_for_pages(crawls[2])
        refused = hub_of(tmp_path, 2, web, bus).start().wait()
        results = [crawl.wait() for crawl in crawls]
        ledger = assert_faultless(web)
    assert refused.exit_code == 2, refused.log
    assert "all 2 hubs have owners: without JOBDIR this machine fetches for them" in refused.log
    assert assert_ended(results) == ledger["fetched"]["pages"]
    assert all("\n    === all 2 hubs, C " in hub.output for hub in results[:2])
    claims = [json.loads((tmp_path / f"job-{n}" / "hub.json").read_text()) for n in range(2)]
    assert sorted(claim["number"] for claim in claims) == [0, 1]
    assert claims[0]["crawl"] == claims[1]["crawl"] == results[0].report["crawl"]


def test_hubs_and_fetchers_that_are_killed_go_on(tmp_path: Path, bus: NatsServer) -> None:
    with running(*WORLD, "--hosts", "110") as web:
        hubs, fetchers = machines_of(tmp_path, web, bus)
        crawls = [machine.start() for machine in hubs]
        first = fetchers[0].start()
        wait_for_pages(first)
        second = fetchers[1].start()
        wait_for_pages(second)
        first.kill()
        for number in range(2):
            wait_for_pages(second)
            crawls[number].kill()
            crawls[number] = hubs[number].start()
        results = [crawl.wait() for crawl in (*crawls, second)]
        ledger = assert_no_fault_but_of_kills(web, 3 * 3 * UNDER_WAY_MAX)
    assert assert_ended(results) == ledger["fetched"]["pages"]
