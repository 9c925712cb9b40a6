"""Whole crawls of a hostile web: they end in time, and each URL has one counted outcome."""

from __future__ import annotations

import re
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from warcio.archiveiterator import ArchiveIterator  # type: ignore[import-untyped]

from tests.crawl.crawling import Crawl, Result, assert_clean, assert_faultless, crawl
from tests.crawl.crawllog import log_lines
from tests.crawl.knownsite import AT_ONCE, answer, served
from tests.crawl.test_processes import Processes, is_alive
from tests.forked import running
from webcrawl.config.build import CLOSE_GRACE_S
from webcrawl.tools.warccheck.check import check

pytestmark = pytest.mark.slow

PROMISES = ("--host-delay", "0.1", "--ip-delay", "0.02", "--slowness", "0.2")
SMALL = ("--hosts", "25", "--pages-per-host", "4", "--page-bytes", "3000")
ENDS = {  # what ends each trap, and after how many steps
    "page-calendar": ("scope_sequence", 30),
    "page-months": ("scope_sequence", 30),
    "page-tunnel": ("scope_repeated_path", 4),
    "page-well": ("scope_path_depth", 20),
    "page-redirects": ("redirects", 20),
}
TRAPS = (*ENDS, "page-fan")  # a fan ends by a cap only
NO_LIMITS = {"TRAPS": 0}
# A name without an answer takes 10 s per try, so such names have a test of their own.
SILENT_NAMES = ("dns-silent", "dns-garbage", "dns-loop")
LEFT_OUT = ("dns-private", "page-huge-chunk", *SILENT_NAMES, *TRAPS)
EVERYTHING = ",".join(["all", *(f"-{name}" for name in LEFT_OUT)])
LIES = (
    "chunked over a plain body",
    "Content-Length is",
)  # false framing, as sent
NOT_TAKEN = ("scope_", "depth", "redirects")  # drops of links that never became URLs of the crawl


def assert_one_outcome_each(result: Result) -> None:
    """Assert that every URL taken from the queue was answered, dropped or kept; none is left."""
    counts = result.report["counts"]
    dropped = sum(
        count
        for name, count in counts.items()
        if name.startswith("dropped/")
        and name != "dropped/content_type"  # counts answers, not URLs
        and not name.removeprefix("dropped/").startswith(NOT_TAKEN)
    )
    kept = sum(count for name, count in counts.items() if name.startswith("kept/"))
    # A sitemap is no page of the funnel, but one that has no answer is dropped or kept as they are.
    ends = [line["end"] for line in log_lines(result.folder / "warc") if line["kind"] == "sitemap"]
    sitemaps = len(ends) - ends.count("done")
    assert counts["extracted"] == counts["crawled"] + dropped + kept - sitemaps
    assert counts["pending"] == kept


def problems(result: Result) -> list[str]:
    """The problems of its archive, except false framing of the server."""
    found = [problem for path in result.warcs for problem in check(path)]
    return [problem for problem in found if not any(lie in problem for lie in LIES)]


def peak_mb(running_crawl: Crawl) -> float:
    """Wait for the end of a crawl; return its peak memory in MB."""
    peak = 0
    while running_crawl.process.poll() is None:
        status = Path(f"/proc/{running_crawl.process.pid}/status").read_text()
        if found := re.search(r"VmHWM:\s*(\d+) kB", status):
            peak = int(found[1])
        time.sleep(0.1)
    return peak / 1024


def crawled(
    folder: Path, features: str, *world: str, **settings: Any
) -> tuple[Result, dict[str, Any]]:
    """A crawl of a small world without any fault, and the ledger of its servers."""
    with running(*SMALL, *world, *PROMISES, "--features", features) as web:
        result = crawl(folder, web=web, **settings)
        ledger = assert_faultless(web)
    assert_clean(result)
    assert_one_outcome_each(result)
    return result, ledger


def test_all_hostile_features_at_once_end_the_crawl(tmp_path: Path) -> None:
    """The seed is that of a world with many of the features, and without one large host."""
    world = ("--hosts", "50", "--pages-per-host", "3", "--seed", "20")
    result, _ = crawled(tmp_path, EVERYTHING, *world, RETRY_TIMES=1, DOWNLOAD_TIMEOUT=3)
    assert problems(result) == []


def test_head_first_on_a_hostile_web_ends_the_crawl(tmp_path: Path) -> None:
    crawled(tmp_path, EVERYTHING, RETRY_TIMES=0, DOWNLOAD_TIMEOUT=3, HEAD_FIRST=1)


def test_https_is_crawled_whatever_the_certificate_and_broken_handshakes_are_counted(
    tmp_path: Path,
) -> None:
    features = (
        "none,origin-http=10,origin-https=20,origin-moved=20,origin-expired=20,"
        "origin-other-name=20,origin-old=20,origin-not-tls=20,origin-alert=20,origin-garbage=20,"
        "origin-silent=20,origin-refused=20"
    )
    result, ledger = crawled(tmp_path, features, "--hosts", "40", RETRY_TIMES=0)
    counts = result.report["counts"]
    assert counts["crawled"] == ledger["truth"]["pages"]
    assert min(counts[f"robots/{why}"] for why in ("tls", "connect", "connect_timeout")) > 0
    assert problems(result) == []
    metadata = b""
    for path in result.warcs:
        with path.open("rb") as file:
            for record in ArchiveIterator(file):
                metadata += record.content_stream().read() if record.rec_type == "metadata" else b""
    for verdict in (b"self-signed", b"expired", b"mismatch", b"tlsVersion: TLSv1\r\n"):
        assert verdict in metadata


def test_the_default_ports_are_used(tmp_path: Path) -> None:
    for port in (80, 443):
        try:
            socket.create_server(("0.0.0.0", port)).close()
        except OSError as error:
            pytest.skip(f"port {port}: {error}")
    world = ("--hosts", "12", "--scope-suffix", ".br", "--port", "80", "--https-port", "443")
    settings = {"SCOPE_SUFFIXES": ".br", "RETRY_TIMES": 1, "DOWNLOAD_TIMEOUT": 3}
    crawled(tmp_path, "none,origin-*", *world, **settings)


def test_endless_answers_and_bombs_cost_bounded_memory(tmp_path: Path) -> None:
    features = (
        "none,page-plain=10,page-bomb=20,page-endless*=40,page-interims=20,page-large-head=20,"
        "page-huge-chunk=20,robots-bomb=20,robots-endless=20"
    )
    with running(*SMALL, *PROMISES, "--features", features) as web:
        running_crawl = Crawl(tmp_path, web=web, RETRY_TIMES=0)
        memory_mb = peak_mb(running_crawl)
        result = running_crawl.wait()
        assert_faultless(web)
    assert_clean(result)
    assert_one_outcome_each(result)
    assert memory_mb < 500  # some 80 at rest; DOWNLOAD_MAXSIZE is 10 MiB, and 25 hosts are asked


def test_slow_and_silent_answers_cost_one_timeout_each(tmp_path: Path) -> None:
    features = (
        "none,page-plain=10,page-drip=20,page-head-drip=20,page-hang=20,page-half-head=20,"
        "page-hold=20,host-hang=10,robots-silent=10"
    )
    # In this world three pages that hang are the most of one host.
    world = ("--seed", "55", "--pages-per-host", "3")
    result, _ = crawled(tmp_path, features, *world, RETRY_TIMES=0, DOWNLOAD_TIMEOUT=2)
    assert result.report["counts"]["failed/timeout"] > 0


def test_names_without_an_answer_are_counted_as_dns_failures(tmp_path: Path) -> None:
    features = ",".join(["none", *(f"{name}=40" for name in SILENT_NAMES)])
    result, _ = crawled(tmp_path, features, RETRY_TIMES=0)
    assert result.report["counts"]["kept/dns"] > 0


def test_traps_are_bounded_by_a_cap_and_by_depth(tmp_path: Path) -> None:
    traps = ",".join(f"{trap}=1000" for trap in TRAPS)
    world = ("--hosts", "5", "--pages-per-host", "8", "--features", f"none,{traps}")
    with running(*world, "--host-delay", "0.01") as web:
        settings = {
            "DOWNLOAD_DELAY": 0.01,
            "IP_DELAY": 0,
            "MAX_PAGES_PER_HOST": 15,
            "DEPTH_LIMIT": 6,
        }
        result = crawl(tmp_path, web=web, **settings, **NO_LIMITS)
        ledger = web.ledger()
    assert_clean(result)
    assert_one_outcome_each(result)
    assert ledger["totals"]["trapped"] > 30
    assert min(ledger["totals"][f"trapped/{trap}"] for trap in TRAPS) > 0
    assert ledger["fetched"]["pages"] <= 5 * 15
    assert result.report["counts"]["dropped/host_cap"] > 0
    assert result.report["counts"]["dropped/depth"] > 0
    assert not any(found["count"] for found in ledger["violations"].values())


def in_a_sequence_of(pages: int, folder: Path) -> tuple[str, str]:
    """The command of a spider that follows so many numbered pages in a row, and no more."""
    path = folder / "short.py"
    path.write_text(
        "from webcrawl.config import build\n"
        "from webcrawl.spiders.broad import BroadSpider\n"
        f"build.SEQUENCE_MAX = {pages}\n"
        "class Short(BroadSpider):\n"
        "    name = 'short'\n"
    )
    return "runspider", str(path)


def test_traps_end_by_themselves(tmp_path: Path) -> None:
    """All other pages are fetched. The default limit, 500 steps, would take too long here."""
    traps = ",".join(f"{trap}=10" for trap in ENDS)
    world = ("--hosts", "6", "--pages-per-host", "8", "--features", f"none,{traps},page-plain=5")
    with running(*world, "--host-delay", "0.01") as web:
        spider = in_a_sequence_of(30, tmp_path)
        result = crawl(tmp_path, web=web, spider=spider, DOWNLOAD_DELAY=0.01, IP_DELAY=0)
        totals = assert_faultless(web)["totals"]
    assert_clean(result)
    assert_one_outcome_each(result)
    counts = result.report["counts"]
    dropped = {name for name in counts if name.startswith("dropped/")}
    assert dropped == {f"dropped/{reason}" for reason, _ in ENDS.values()}
    for reason, steps in ENDS.values():  # each way into a trap ends with a link that is dropped
        trapped = [totals[f"trapped/{trap}"] for trap, end in ENDS.items() if end[0] == reason]
        assert 0 < min(trapped) <= sum(trapped) <= counts[f"dropped/{reason}"] * steps


def test_a_chain_of_pages_is_followed_to_its_end(tmp_path: Path) -> None:
    """An honest chain of 150 pages: each page links to the next page only."""
    pages = {
        f"/arquivo?pagina={n}": answer(b'%d <a href="?pagina=%d">mais</a>' % (n, n + 1))
        for n in range(1, 150)
    }
    last = {"/arquivo?pagina=150": answer(b"fim")}
    with served(pages | last) as site:
        result = crawl(tmp_path, f"{site.url}/arquivo?pagina=1", **AT_ONCE)
        assert all(len(site.requests[path]) == 1 for path in pages | last)
        assert_clean(result)


def test_ctrl_c_cuts_hanging_fetches_of_two_processes_after_close_grace(tmp_path: Path) -> None:
    hanging = {f"/hangs/{n}": b"" for n in range(3)}
    with served(hanging) as site:
        running_crawl = Crawl(
            tmp_path,
            f"{site.url}/",
            **AT_ONCE,
            CRAWL_PROCESSES=2,
            DOWNLOAD_TIMEOUT=300,
        )
        running_crawl.until_true(lambda: hanging.keys() & site.requests.keys())
        processes = Processes(running_crawl)
        interrupted = time.monotonic()
        running_crawl.interrupt()
        result = running_crawl.wait()
    assert not any(map(is_alive, processes.pids))
    assert "HTTP codes:" in result.output
    assert time.monotonic() - interrupted >= CLOSE_GRACE_S
    assert_clean(result)
    assert result.report["finish_reason"] == "shutdown"
    assert result.report["counts"]["crawled"] == 1
    assert result.report["counts"]["pending"] == 3
    assert not list((tmp_path / "warc").glob("*.open"))


def test_ctrl_c_ends_a_hostile_crawl_cleanly(tmp_path: Path) -> None:
    world = ("--hosts", "300", "--seeds", "300", "--features", "all", "--partial")
    with running(*world, *PROMISES) as web:
        running_crawl = Crawl(tmp_path, web=web, DOWNLOAD_TIMEOUT=60)
        running_crawl.until("*** crawling", times=3)
        running_crawl.interrupt()
        result = running_crawl.wait()
    assert_clean(result)
    assert not list((tmp_path / "warc").glob("*.open"))
