"""A hub whose machine is lost: its crawl goes on from a checkpoint, and the ledger judges it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from simweb import running
from tests.contracts.natsserver import NatsServer
from tests.crawl.crawling import ROOT, assert_clean
from tests.crawl.onecrawl import assert_no_fault_but_of_kills
from tests.crawl.steered import Steered
from webcrawl.hub.restoring import find_checkpoint

pytestmark = pytest.mark.slow
UNDER_WAY_MAX = 8
WORLD = (
    *("--seed", "6", "--hosts", "80", "--pages-per-host", "8", "--host-delay", "0.3"),
    *("--ip-delay", "0", "--features", "none,page-404,page-chunked"),
)
OFTEN = """
from webcrawl.hub import checkpoints
from webcrawl.spiders.broad import BroadSpider
checkpoints.INTERVAL_S = 0.5
class Often(BroadSpider):
    name = "often"
"""


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[NatsServer]:
    with NatsServer(tmp_path / "bus") as server:
        yield server


def hub(*arguments: object) -> subprocess.CompletedProcess[str]:
    """`scrapy hub`."""
    command = [sys.executable, "-m", "scrapy", "hub", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_hub_is_restored_from_its_last_checkpoint(tmp_path: Path, bus: NatsServer) -> None:
    root, spider = tmp_path / "checkpoints", tmp_path / "often.py"
    spider.write_text(OFTEN)
    settings: dict[str, Any] = {
        "CLUSTER": bus.url,
        "CLUSTER_CHECKPOINTS": root,
        "CONCURRENT_REQUESTS": UNDER_WAY_MAX,
        "DOWNLOAD_DELAY": 0.3,
        "DOWNLOAD_TIMEOUT": 3,
        "IP_DELAY": 0,
        "spider": ("runspider", str(spider)),
    }
    order = ("restore", tmp_path / "job", "--from", root, "--cluster", bus.url)
    with running(*WORLD) as web:
        crawl = Steered(tmp_path, web=web, **settings)
        crawl.after(100)
        crawl.ctl("pause")  # it cannot end meanwhile
        running_still = hub("restore", tmp_path / "other", *order[2:])
        assert "; the last checkpoint is 0 min old" in crawl.ctl("status")
        crawl.ctl("resume")
        before = crawl.after(300).web.totals()["pages"]
        crawl.kill()
        shutil.rmtree(crawl.jobdir)
        restored = hub(*order)
        result = Steered(tmp_path, web=web, **settings).wait(200)
        ledger = assert_no_fault_but_of_kills(web, before)
    assert running_still.returncode == 1
    assert "hub 0 of the crawl" in running_still.stderr
    assert "runs: stop it first" in running_still.stderr
    assert (restored.returncode, restored.stderr) == (0, "")
    assert "as it was 0 min ago" in restored.stdout
    assert result.exit_code == 0, result.log[-3000:]
    assert_clean(result)
    assert result.report["counts"]["crawled"] == ledger["fetched"]["pages"]
    assert result.report["counts"]["pending"] == 0
    assert 0 < ledger["again"] < before, "pages since the checkpoint, and no others"
    folder, last = find_checkpoint(root)
    assert last.files.keys() >= {"frontier/CURRENT", "spider.state"}, "that of the clean end"
    assert hub("restore", tmp_path / "job", "--from", folder, "--without-bus").returncode == 1
