"""Whole crawls through a proxy: its log and the servers' journal must have the same requests."""

from __future__ import annotations

import json
import time
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from simweb import Running, faults
from tests.crawl.crawling import Crawl, Result, assert_clean, crawl
from tests.crawl.knownsite import records
from tests.crawl.test_identity import assert_the_secrets_are_nowhere
from tests.crawl.test_processes import few
from tests.forked import running
from tests.proxyserver import ProxyServer, asking
from webcrawl.tools.warccheck.check import check

pytestmark = pytest.mark.slow

WORLD = (
    *("--seed", "17", "--hosts", "6", "--seeds", "6", "--pages-per-host", "5"),
    *("--features", "none,origin-https=6,origin-moved,robots-some,robots-none,page-gzip"),
)
LOGIN = "me:a-secret-word"
NO_DNS = "127.0.0.1:1"  # nobody answers: who looks up a name itself fails


def journal_of(path: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [each for each in lines if "target" in each]


def start(folder: Path, web: Running, proxy: ProxyServer, **more: Any) -> Crawl:
    folder.mkdir(exist_ok=True)
    (folder / "proxy").write_text(f"http://{LOGIN}@127.0.0.1:{proxy.port}\n")
    settings = {"PROXY": f"@{folder / 'proxy'}", "DNS_SERVERS": NO_DNS, "JOBDIR": folder / "job"}
    return Crawl(folder, web=web, **settings, **more)


def assert_nothing_went_around(
    proxy: ProxyServer, journal: list[dict[str, Any]], *, is_whole: bool
) -> None:
    """Each request that a server got came from the proxy; the other way too, if `is_whole`."""
    ports = {each["peer"] for each in journal}
    assert ports <= proxy.ports
    if is_whole:
        assert ports == proxy.ports


def test_all_requests_of_all_processes_go_through_the_proxy(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    arguments = (*WORLD, "--host-delay", "0.1", "--journal", str(path))
    with running(*arguments) as web, ProxyServer(asking(web.dns), LOGIN) as proxy:
        result = start(tmp_path / "crawl", web, proxy, **few(2)).wait()
        ledger = web.ledger()
        assert_clean(result)
        assert not faults(ledger), json.dumps(faults(ledger), indent=1)[:3000]
        assert_nothing_went_around(proxy, journal_of(path), is_whole=True)
        assert {each.method == "CONNECT" for each in proxy.log} == {True, False}
        assert all(each.status != 407 for each in proxy.log)
        assert_archived_without_the_secret(result)


def assert_archived_without_the_secret(result: Result) -> None:
    for warc in result.warcs:
        assert check(warc) == []
        for record in records(warc):
            assert b"Proxy-Authorization" not in record.block
            if record.type == "metadata":
                assert b"viaProxy: true" in record.block
    encoded = b64encode(LOGIN.encode())[:20]
    assert_the_secrets_are_nowhere(result.folder, b"secret-word", encoded, besides="proxy")


def test_a_proxy_that_goes_down_pauses_the_crawl_and_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    arguments = (*WORLD, "--host-delay", "0.1", "--journal", str(path))
    with running(*arguments) as web, ProxyServer(asking(web.dns), LOGIN) as proxy:
        running_crawl = start(tmp_path / "crawl", web, proxy, DOWNLOAD_DELAY=0.2)
        running_crawl.until_true(lambda: len(proxy.log) >= 15)
        proxy.stop()
        running_crawl.until("cannot be used: Connection refused")
        at = len(journal_of(path))
        time.sleep(1.5)
        assert len(journal_of(path)) == at, "nothing goes around a proxy that is down"
        proxy.start()
        result = running_crawl.wait()
        ledger = web.ledger()
        assert_clean(result)
        assert "The network is back" in result.log
        violations = {name: each["count"] for name, each in ledger["violations"].items()}
        # What was under way when the proxy was cut is asked again.
        assert violations.pop("twice") <= 8
        assert not any(violations.values()), violations
        assert not ledger["missing"]["count"], ledger["missing"]
        assert result.report["counts"]["outage_s"] >= 1
        assert_nothing_went_around(proxy, journal_of(path), is_whole=False)


def test_a_proxy_that_cannot_be_used_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    with ProxyServer(lambda host: "127.0.0.1", LOGIN) as proxy:
        value = f"http://me:other-secret@127.0.0.1:{proxy.port}"
        result = crawl(tmp_path / "crawl", "http://www.example.com/", PROXY=value)
    assert result.exit_code == 2
    says = f"127.0.0.1:{proxy.port}: it refuses the user name or password (407)"
    assert result.log.splitlines()[-1] == f"PROXY cannot be used: {says}"
    assert "other-secret" not in result.log
    assert not result.warcs
