"""A web in which name servers and servers fall silent for a while. No URL is lost.

The process of the web is stopped and continued. Its kernel still accepts connections, so only the
silent name servers show that the network is out. Requests in progress then are sent again.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from simweb import Running
from tests.crawl.crawling import Crawl, assert_clean, crawl
from tests.forked import running

pytestmark = pytest.mark.slow

# No host of this world is much larger than the others, so that none makes each crawl long.
WEB = (
    *("--seed", "6", "--hosts", "40", "--pages-per-host", "6"),
    *("--features", "none,page-plain=1"),
)
LONGER_S = 2.0


@contextmanager
def silent(web: Running) -> Iterator[None]:
    os.kill(web.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(web.pid, signal.SIGCONT)


@pytest.mark.parametrize("pages_before", [0, 30])
def test_an_outage_loses_no_page(tmp_path: Path, pages_before: int) -> None:
    with running(*WEB) as web:
        seeds = web.seeds
        (tmp_path / "seeds.txt").write_text("\n".join(seeds))
        settings = {"DNS_SERVERS": web.dns, "ALLOW_PRIVATE_ADDRESSES": 1, "DOWNLOAD_DELAY": 0.3}
        if pages_before:
            under_way = Crawl(tmp_path, str(tmp_path / "seeds.txt"), LOG_LEVEL="DEBUG", **settings)
            under_way.until("DEBUG: 200 ", times=pages_before)
            with silent(web):
                under_way.until("this is an outage of our own network")
                time.sleep(LONGER_S)
        else:
            with silent(web):
                under_way = Crawl(tmp_path, str(tmp_path / "seeds.txt"), **settings)
                under_way.until("this is an outage of our own network")
                time.sleep(LONGER_S)
        result = under_way.wait()
        ledger = web.ledger()
    assert_clean(result)
    assert "The network is back after " in result.log
    counts = result.report["counts"]
    assert counts["outage_s"] > LONGER_S
    assert not [name for name in counts if name.startswith("dropped/")]
    assert counts["pending"] == 0
    assert ledger["missing"]["count"] == 0


def test_a_crawl_without_any_answer_is_an_error(tmp_path: Path) -> None:
    """One name, and no name server at its port: the crawl waits, and is stopped."""
    nobody = Crawl(
        tmp_path, "a.test,b.test", DNS_SERVERS="127.0.0.1:9", USER_AGENT="x (+http://y.test/)"
    )
    nobody.until("this is an outage of our own network")
    nobody.interrupt()
    result = nobody.wait()
    assert result.exit_code == 1
    last = result.log.splitlines()[-1]
    assert "not one page was answered in this run; the first seeds that failed: " in last
    assert "a.test (dns)" in last


def test_the_next_run_tries_kept_urls(tmp_path: Path) -> None:
    """First no server listens at the port, then the web does."""
    job = {"JOBDIR": tmp_path / "job", "ALLOW_PRIVATE_ADDRESSES": 1, "RETRY_TIMES": 0}
    with running("--hosts", "3", "--pages-per-host", "3", "--features", "none,page-plain=1") as web:
        seed = f"http://127.0.0.1:{web.port}/"
        stopped = crawl(tmp_path, "http://127.0.0.1:8/", seed, **job)
        again = crawl(tmp_path, seed, **job)
    assert stopped.exit_code == 0
    assert stopped.report["counts"]["kept/robots_unreachable"] == 1
    left = "URLs that are left: 1, of which kept for a later try: 1 (robots_unreachable 1)"
    assert f"{left}; the same command resumes with them" in stopped.log
    assert again.report["counts"]["kept/robots_unreachable"] == 1
