"""A crawl on two nodes as its user sees it: lines, page, metrics, explanations and the report.

Every figure of the report is held against the model of the web, as for a crawl on one machine.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest

from simweb import running
from tests.contracts.natsserver import NatsServer
from tests.crawl.crawling import ROOT, Crawl, Result, assert_clean, assert_faultless
from tests.crawl.crawllog import log_lines
from tests.crawl.test_report import (  # noqa: F401  (tests, run here with the `crawled` of two nodes)
    SPEC,
    Figures,
    assert_seeds,
    linked_domain,
    test_hosts_and_domains,
    test_links_into_a_domain,
    test_sizes_links_and_tokens,
    test_the_crawl_is_whole,
    test_the_funnel_codes_and_losses,
    test_the_questions_of_scale,
    test_types_and_character_sets,
    test_urls_by_level,
)
from tests.crawl.webtruth import FEATURES, Truth
from tests.unit.snapshots import of_cluster
from webcrawl.live.client import ask

pytestmark = pytest.mark.slow

WORLD = (
    *("--hosts", "60", "--pages-per-host", "8", "--features", FEATURES),
    *("--seeds", "9", "--host-delay", "0.1", "--ip-delay", "0"),
)


class Seen(NamedTuple):
    """What was seen of a crawl while it ran and after its end."""

    folders: list[Path]
    truth: Truth
    results: list[Result]
    snapshots: list[dict[str, Any]]  # of each node
    metrics: str  # of the first node
    explained: dict[str, list[list[str]]]  # by URL: what each node says
    figures: Figures  # of both nodes


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    folder = tmp_path_factory.mktemp("cluster")
    folders = [folder / "node0", folder / "node1"]
    jobs = [each / "job" for each in folders]
    with NatsServer(folder / "bus") as bus, running(*WORLD) as web:
        crawls = [
            Crawl(each, web=web, JOBDIR=job, CLUSTER=bus.url, IP_DELAY=0)
            for each, job in zip(folders, jobs, strict=True)
        ]
        snapshots = [asked(crawl, job) for crawl, job in zip(crawls, jobs, strict=True)]
        metrics = str(ask(jobs[0], "GET", "/metrics"))
        explained = {
            url: [ask(job, "GET", f"/explain?url={quote(url, safe='')}")["lines"] for job in jobs]  # type: ignore[call-overload,index]
            for url in web.seeds
        }
        results = [each.wait(200) for each in crawls]
        assert_faultless(web)
        truth = Truth(web, SPEC)
    options = ("--tokens", "--in-degree", linked_domain(truth))
    figures = Figures(jobs[0], str(jobs[1]), *options)
    return Seen(folders, truth, results, snapshots, metrics, explained, figures)


def asked(crawl: Crawl, job: Path) -> dict[str, Any]:
    """A snapshot of the crawl with pages, once all shards have a node."""
    crawl.until("=== 2 of 2 nodes")
    while True:
        found = ask(job, "GET", "/snapshot")
        assert isinstance(found, dict)
        cluster = found["cluster"]
        if cluster["counts"]["crawled"] and not cluster["shards_without_node"]:
            return found
        assert crawl.process.poll() is None
        time.sleep(0.05)


@pytest.fixture(scope="module")
def crawled(seen: Seen) -> tuple[Truth, Figures]:
    return seen.truth, seen.figures


def scrapy(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "scrapy", *command],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_seeds_and_what_came_of_each(seen: Seen) -> None:
    """A link from a page of another shard may reach the shard before the seed does."""
    logs = [line for each in seen.folders for line in log_lines(each / "warc")]
    linked = {line["url"] for line in logs if line["kind"] != "robots" and line.get("via")}
    assert_seeds(seen.truth, seen.figures, set(seen.truth.world.seeds()) - linked)


def test_each_node_says_its_part_and_the_whole_crawl(seen: Seen) -> None:
    pages = len(seen.truth.pages)
    counts = []
    for result in seen.results:
        assert_clean(result)
        own, whole = result.output.split("\nAbove: this node, ")
        assert whole.splitlines()[0].endswith("one of 2. The whole crawl:")
        assert f"\nCrawled {pages} pages @" in whole
        assert f"\nExtracted {len(seen.truth.urls)} URLs @" in whole
        lines = re.findall(r"=== 2 of 2 nodes, C (\d+), Q \d+, [\d.]+ pps @", own)
        assert [int(line) for line in lines] == sorted(int(line) for line in lines)
        report = result.report
        counts.append(report["counts"]["crawled"])
        assert report["cluster"]["counts"]["crawled"] == pages
        assert len(report["cluster"]["nodes"]) == report["cluster"]["nodes_ever"] == 2
        assert report["crawl"] == seen.figures.summary["crawl"]
    assert sum(counts) == pages
    assert all(counts)


def test_each_node_shows_the_whole_crawl_while_it_runs(seen: Seen) -> None:
    for number, snapshot in enumerate(seen.snapshots):
        cluster = snapshot["cluster"]
        nodes = cluster["nodes"]
        assert cluster.keys() == of_cluster()["cluster"].keys()
        assert nodes[0].keys() == of_cluster()["cluster"]["nodes"][0].keys()
        assert [each["condition"] for each in nodes] == ["alive"] * 2
        assert sum(each["shards"] for each in nodes) == cluster["shards"] == 8
        assert sum(each["pages"] for each in nodes) == cluster["counts"]["crawled"]
        assert [each["node"] for each in nodes if each["is_own"]] == [cluster["node"]], number
    first, second = (snapshot["cluster"]["node"] for snapshot in seen.snapshots)
    assert first != second
    assert f'webcrawl_cluster_nodes{{node="{first}",condition="alive"}} 2' in seen.metrics
    assert f'webcrawl_node_shards{{node="{first}"}} 4' in seen.metrics


def test_any_node_explains_any_url(seen: Seen) -> None:
    of_nodes = set()
    for url, answers in seen.explained.items():
        for lines in answers:
            assert lines[0] == url
            assert lines[-1] == answers[0][-1]
            shard, node = re.fullmatch(r"Of shard (\d), on node (\w+)\.", lines[-1]).groups()  # type: ignore[union-attr]
            assert int(shard) < 8
        of_nodes.add(node)
    assert of_nodes == {snapshot["cluster"]["node"] for snapshot in seen.snapshots}


def test_a_node_that_has_ended_explains_its_urls_and_names_the_node_of_others(seen: Seen) -> None:
    job, own = seen.folders[0] / "job", seen.snapshots[0]["cluster"]["node"]
    nodes = {url: lines[0][-1].split()[-1].rstrip(".") for url, lines in seen.explained.items()}
    ours = next(url for url, node in nodes.items() if node == own)
    others = next(url for url, node in nodes.items() if node != own)
    done = scrapy("explain", ours, "-s", f"JOBDIR={job}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == ours
    assert done.stdout.splitlines()[-1] == seen.explained[ours][0][-1]
    done = scrapy("explain", others, "-s", f"JOBDIR={job}")
    assert done.returncode == 1
    assert f"was on node {nodes[others]} " in done.stderr


def test_the_report_of_one_node_says_that_it_is_one_of_two(seen: Seen) -> None:
    assert seen.figures.summary["nodes"] == [2, 2]
    done = scrapy("report", str(seen.folders[0] / "job"))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1].startswith("One node of 2: the figures are its part of the crawl.")
    assert "One node of 2" in Path(lines[0]).read_text()
    assert int(lines[2].split()[0]) == seen.results[0].report["counts"]["crawled"]
