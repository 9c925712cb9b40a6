"""A hub whose machine is lost: its crawl goes on from a checkpoint, and the ledger judges it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.natsserver import NatsServer
from tests.crawl.crawling import assert_clean
from tests.crawl.crawllog import assert_log
from tests.crawl.onecrawl import assert_no_fault_but_of_kills
from tests.crawl.steered import Steered
from tests.forked import python, running
from webcrawl.cluster.checkpoints import folder_of
from webcrawl.cluster.claims import read_claim
from webcrawl.cluster.restoring import find_checkpoint

pytestmark = pytest.mark.slow
UNDER_WAY_MAX = 8
WORLD = (
    *("--seed", "6", "--hosts", "40", "--pages-per-host", "8", "--host-delay", "0.3"),
    *("--ip-delay", "0", "--features", "none,page-404,page-chunked"),
)
OFTEN = """
from webcrawl.cluster import checkpoints
from webcrawl.spiders.broad import BroadSpider
checkpoints.INTERVAL_S = 0.5
class Often(BroadSpider):
    name = "often"
"""


@pytest.fixture
def settings(tmp_path: Path, bus: NatsServer) -> dict[str, Any]:
    spider = tmp_path / "often.py"
    spider.write_text(OFTEN)
    return {
        "CLUSTER": bus.url,
        "CLUSTER_CHECKPOINTS": tmp_path / "checkpoints",
        "CONCURRENT_REQUESTS": UNDER_WAY_MAX,
        "DOWNLOAD_DELAY": 0.3,
        "DOWNLOAD_TIMEOUT": 3,
        "IP_DELAY": 0,
        "spider": ("runspider", str(spider)),
    }


def hub(*arguments: object) -> subprocess.CompletedProcess[str]:
    """`scrapy hub`."""
    return python("-m", "scrapy", "hub", *map(str, arguments))


def test_a_hub_is_restored_from_its_last_checkpoint(
    tmp_path: Path, bus: NatsServer, settings: dict[str, Any]
) -> None:
    root = tmp_path / "checkpoints"
    order = ("restore", tmp_path / "job", "--from", root, "--cluster", bus.url)
    with running(*WORLD) as web:
        crawl = Steered(tmp_path, web=web, **settings)
        crawl.after(50)
        crawl.ctl("pause")  # it cannot end meanwhile
        crawl.until_again("A checkpoint was made")
        running_still = hub("restore", tmp_path / "other", *order[2:])
        assert re.search(r"; the last checkpoint is \d+ min old", crawl.ctl("status"))
        crawl.ctl("resume")
        before = crawl.after(150).web.totals()["pages"]
        crawl.kill()
        shutil.rmtree(crawl.jobdir)
        restored = hub(*order)
        result = Steered(tmp_path, web=web, **settings).wait()
        ledger = assert_no_fault_but_of_kills(web, before)
    assert running_still.returncode == 1
    assert "hub 0 of the crawl" in running_still.stderr
    assert "runs: stop it first" in running_still.stderr
    assert (restored.returncode, restored.stderr) == (0, "")
    assert re.search(r"as it was \d+ min ago", restored.stdout)
    assert_clean(result)
    assert result.report["counts"]["crawled"] == ledger["fetched"]["pages"]
    assert result.report["counts"]["pending"] == 0
    assert_log(result)
    assert ledger["again"] < before, "pages since the checkpoint, and no others"
    folder, _ = find_checkpoint(root)
    for name in ("frontier/CURRENT", "spider.state"):
        assert (folder / name).exists(), "that of the clean end"
    assert hub("restore", tmp_path / "job", "--from", folder, *order[4:]).returncode == 1


@pytest.mark.parametrize("is_restored", [True, False], ids=["restored", "begun"])
def test_one_of_two_hubs_is_lost(
    tmp_path: Path, bus: NatsServer, settings: dict[str, Any], is_restored: bool
) -> None:
    settings |= {"CLUSTER_HUBS": 2}
    with running(*WORLD) as web:
        hubs = [Steered(tmp_path / name, web=web, **settings) for name in ("one", "other")]
        hubs[0].after(100)
        claims = {hub: read_claim(hub.jobdir) for hub in hubs}
        lost, claim = next(
            (each, claim) for each, claim in claims.items() if claim and claim.number
        )
        lost.until_again("A checkpoint was made")
        before = web.totals()["pages"]
        lost.kill()
        shutil.rmtree(lost.jobdir)
        source = folder_of(tmp_path / "checkpoints", claim)
        if is_restored:
            made = hub("restore", lost.jobdir, "--from", source, "--cluster", bus.url)
        else:
            made = hub("begin", lost.jobdir, "--number", 1, "--cluster", bus.url)
        assert (made.returncode, made.stderr) == (0, "")
        hubs[hubs.index(lost)] = Steered(lost.folder, web=web, **settings)
        results = [hub.wait() for hub in hubs]
        ledger = assert_no_fault_but_of_kills(web, before, whole=is_restored)
    for result in results:
        assert_clean(result)
    assert ledger["again"] < before
