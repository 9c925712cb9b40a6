"""Manners in whole crawls, judged by servers: adaptive delays, owners' signals, several names."""

from __future__ import annotations

from pathlib import Path

import pytest

from simweb import running
from tests.crawl.crawling import Crawl, assert_clean, assert_faultless
from tests.crawl.test_processes import few

pytestmark = pytest.mark.slow

SLOW = (
    *("--seed", "17", "--hosts", "6", "--seeds", "6", "--pages-per-host", "5"),
    *("--features", "none,page-plain=4,page-slow=3,page-flaky=2,host-slow=40"),
    *("--slowness", "0.1", "--host-delay", "0.1"),
    *("--delay-factor", "4", "--adaptive-delay-max", "0.8"),
)


def test_the_delay_adapts_to_each_host_also_in_the_next_run(tmp_path: Path) -> None:
    with running(*SLOW) as web:
        chosen = few(2) | {"DELAY_FACTOR": 4, "ADAPTIVE_DELAY_MAX": 0.8}
        chosen |= {"JOBDIR": tmp_path / "job", "CONCURRENT_REQUESTS": 12}
        first = Crawl(tmp_path, web=web, **chosen)
        first.until("*** crawling", 2)
        first.interrupt()
        first.wait(60)
        result = Crawl(tmp_path, web=web, **chosen).wait()
        assert result.exit_code == 0
        assert_clean(result)
        ledger = assert_faultless(web)
        assert ledger["statuses"]["503"] > 1
