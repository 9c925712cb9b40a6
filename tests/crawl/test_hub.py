"""One crawl by a hub and its fetchers on a real bus, through kills: the ledger judges it."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest

from simweb import Running
from tests.contracts.natsserver import NatsServer
from tests.crawl.crawling import Crawl, assert_clean
from tests.crawl.joined import assert_joined
from tests.crawl.onecrawl import assert_no_fault_but_of_kills
from tests.forked import running

pytestmark = pytest.mark.slow
UNDER_WAY_MAX = 8
WORLD = (
    *("--seed", "6", "--pages-per-host", "8", "--ip-delay", "0"),
    # Slow pages: each process has some under way at any time, so also when it is killed.
    *("--features", "none,page-slow=90,page-404,page-chunked", "--slowness", "0.3"),
)


class Machine:
    """A folder, and the command that runs in it."""

    def __init__(self, folder: Path, web: Running, bus: NatsServer, **settings: Any) -> None:
        self.folder = folder
        self._web = web
        self._settings = {
            "CLUSTER": bus.url,
            "IP_DELAY": 0,
            "CONCURRENT_REQUESTS": UNDER_WAY_MAX,
        } | settings

    def start(self) -> Crawl:
        return Crawl(self.folder, web=self._web, **self._settings)


def rented_machine(folder: Path, web: Running, bus: NatsServer) -> Machine:
    """One whose files go to a store: many, so that some have left before each kill."""
    (store := folder / "store").mkdir(parents=True)
    return Machine(folder, web, bus, ARCHIVE_STORE=f"file://{store}", WARC_MAX_SIZE=30_000)


def pages_of(crawl: Crawl) -> int:
    """Pages that a process has archived so far, about: its files grow with them."""
    return sum(map(size_of, crawl.folder.glob("*/*.warc.gz*")))


def size_of(path: Path) -> int:
    """0 for a file that has just been renamed, or sent and deleted."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def wait_for_pages(crawl: Crawl) -> None:
    before = pages_of(crawl)
    crawl.until_true(lambda: pages_of(crawl) > before + 20_000)


def test_a_crawl_goes_on_through_late_joins_and_kills(tmp_path: Path, bus: NatsServer) -> None:
    with running(*WORLD, "--hosts", "110", "--host-delay", "0.5") as web:
        hub = Machine(tmp_path / "hub", web, bus, JOBDIR=tmp_path / "job", DOWNLOAD_DELAY=0.5)
        early, late = (rented_machine(tmp_path / name, web, bus) for name in ("early", "late"))
        first = early.start()  # before the hub
        crawl = hub.start()
        wait_for_pages(first)
        second = late.start()
        wait_for_pages(second)
        bus.send(signal.SIGSTOP)  # so pages end of which the hub does not hear
        time.sleep(1.0)
        first.kill()
        bus.send(signal.SIGCONT)
        wait_for_pages(second)
        crawl.kill()
        crawl = hub.start()
        wait_for_pages(second)
        first = early.start()  # in its folder, where it was killed
        wait_for_pages(first)
        bus.kill()
        time.sleep(1.0)
        bus.start()
        result, fetched, again = crawl.wait(), second.wait(), first.wait()
        # The hub's kill also ends the leases of the fetcher that lives.
        ledger = assert_no_fault_but_of_kills(web, 3 * 2 * UNDER_WAY_MAX)
        too_late = Machine(tmp_path / "too-late", web, bus).start().wait()
    for each in (result, fetched, again, too_late):
        assert_clean(each)
    assert "has ended (finished): nothing to fetch" in too_late.log
    assert result.report["counts"]["crawled"] == ledger["fetched"]["pages"]
    stores = [machine.folder / "store" for machine in (early, late)]
    assert not [path for machine in (early, late) for path in (machine.folder / "warc").iterdir()]
    ends = assert_joined(tmp_path / "hub" / "warc", *stores)
    assert ends["lost"] > 1, ends
