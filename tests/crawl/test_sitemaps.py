"""Sitemaps in whole crawls, judged by the ledger of a simulated web with orphan pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from simweb.model import World
from simweb.reach import reach
from simweb.sitemaps import SITEMAPS
from simweb.spec import WorldSpec
from tests.crawl.crawling import Crawl, assert_clean, assert_faultless, crawl
from tests.crawl.crawllog import log_lines
from tests.forked import running

pytestmark = pytest.mark.slow

KINDS = ",".join(kind.name for kind in SITEMAPS[1:])
# The files of 50 MB take the servers seconds: one of each.
EVERY = f"none,robots-some=1,map-none=0.1,{KINDS},map-bomb=1,map-endless=1"
SMALL = f"none,robots-some=1,{KINDS},-map-bomb,-map-endless"
PROMISES = ("--host-delay", "0.1", "--ip-delay", "0.02", "--slowness", "0.2")


def world_of(features: str, hosts: int) -> tuple[str, ...]:
    """A world in whose first 40 hosts each kind occurs."""
    size = ("--hosts", str(hosts), "--seeds", str(hosts), "--pages-per-host", "2")
    return ("--seed", "1202", *size, "--page-bytes", "500", f"--features={features}", *PROMISES)


def orphans(features: str, hosts: int) -> int:
    """The pages that only sitemaps give, of the same world."""
    size = {"pages_per_host": 2, "page_bytes": 500, "seeds": hosts, "hosts": hosts}
    world = World(WorldSpec(1202, features=features, host_delay_s=0.1, **size))
    found = reach(world).documents
    return sum(place.page >= world.host(place.host).site.size for place in found)


def test_the_orphans_of_every_kind_of_sitemap_are_fetched(tmp_path: Path) -> None:
    with running(*world_of(EVERY, 40)) as web:
        result = crawl(tmp_path, web=web)
        ledger = assert_faultless(web)
    assert_clean(result)
    counts = result.report["counts"]
    assert counts["sitemaps/only"] == orphans(EVERY, 40) > 50
    for problem in ("too_large", "entities", "not_a_sitemap", "too_deep", "cut", "foreign"):
        assert counts[f"sitemaps/{problem}"] > 0, problem
    lines = [line for line in log_lines(tmp_path / "warc") if line["kind"] == "sitemap"]
    lines = [line for line in lines if line["end"] == "done"]
    assert len(lines) == ledger["totals"]["sitemaps"]
    assert all(line["warc"] for line in lines)


def test_a_killed_crawl_reads_its_sitemaps_in_its_next_run(tmp_path: Path) -> None:
    settings = {"JOBDIR": tmp_path / "job", "CRAWL_PROCESSES": 2, "FRONTIER_ORDER": "opic"}
    with running(*world_of(SMALL, 16)) as web:
        first = Crawl(tmp_path / "killed", web=web, **settings)
        first.until("[  1]")
        first.kill()
        result = crawl(tmp_path / "resumed", web=web, **settings)
        ledger = web.ledger()
    assert_clean(result)
    assert ledger["missing"]["count"] == 0
    violations = {name: v["count"] for name, v in ledger["violations"].items() if v["count"]}
    assert violations.keys() <= {"twice"}  # what the killed run had not committed
