"""Nodes of one crawl, each a `scrapy crawl broad` in a process group of its own, judged as one."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from simweb import Running
from tests.contracts.natsserver import NatsServer
from tests.crawl.crawling import Crawl, Result, assert_clean, wait_for_servers
from tests.crawl.crawllog import log_lines
from tests.crawl.knownsite import records
from tests.crawl.onecrawl import assert_no_fault_but_of_kills
from webcrawl.tools.warccheck.check import check
from webcrawl.warc.index import index_path

UNDER_WAY_MAX = 8  # pages of a node, and as many admissions
AGAIN_MAX = 2 * UNDER_WAY_MAX  # requests that a killed node may repeat
SMALL: dict[str, Any] = {
    "CONCURRENT_REQUESTS": UNDER_WAY_MAX,
    "IP_DELAY": 0,
}


class Node:
    """One machine: its folder has JOBDIR and the WARC files, and survives each of its runs."""

    def __init__(self, folder: Path, web: Running, bus: NatsServer | str, **settings: Any) -> None:
        self.folder = folder
        self.job = folder / "job"
        self.kills = 0
        self.logs: list[str] = []  # of the runs before
        self._web = web
        url = bus if isinstance(bus, str) else bus.url
        self.settings = {"JOBDIR": self.job, "CLUSTER": url} | SMALL | settings
        self._crawl: Crawl | None = None

    def start(self, *seeds: str, within: Sequence[str] = (), **more: Any) -> Crawl:
        within = ("setsid", *within)
        self._crawl = Crawl(
            self.folder, *seeds, web=self._web, within=within, **self.settings | more
        )
        return self._crawl

    @property
    def crawl(self) -> Crawl:
        assert self._crawl is not None
        return self._crawl

    @property
    def log(self) -> str:
        """Of this run."""
        return (self.folder / "err.txt").read_text()

    def send(self, number: signal.Signals) -> None:
        """Send a signal to all processes of the node."""
        os.killpg(self.crawl.process.pid, number)

    def kill(self) -> None:
        """SIGKILL of all processes. Returns when the servers have read what they had sent."""
        if self.crawl.process.poll() is None:
            self.send(signal.SIGKILL)
            self.kills += 1
        self.crawl.process.wait()
        self.end_run()

    def end_run(self) -> None:
        self.logs.append(self.log)
        wait_for_servers(self._web.port)

    def wait(self, seconds: float = 400) -> Result:
        return self.crawl.wait(seconds)


def assert_one_crawl_of_nodes(
    web: Running,
    nodes: Sequence[Node],
    results: Sequence[Result],
    may_come_again: int | None = None,
) -> dict[str, Any]:
    """Assert that all runs of all nodes look like one crawl, except for requests at a kill.

    Returns the ledger, with the number of such requests as `again`.
    """
    if may_come_again is None:
        may_come_again = AGAIN_MAX * sum(node.kills for node in nodes)
    for node, result in zip(nodes, results, strict=True):
        assert result.exit_code == 0, result.log[-3000:]
        assert_clean(result)
        assert not any("Traceback" in log for log in node.logs), node.folder
        assert not list((node.folder / "warc").glob("*.open"))
    ledger = assert_no_fault_but_of_kills(web, may_come_again)
    counts: Counter[str] = Counter()
    for result in results:
        counts.update({name: n for name, n in result.report["counts"].items() if n})
    assert counts["pending"] == 0, "nothing failed in a way that may pass"
    assert counts["crawled"] == ledger["fetched"]["pages"]
    _assert_archive(results, counts["crawled"], may_come_again)
    return ledger


def _assert_archive(results: Sequence[Result], crawled: int, may_come_again: int) -> None:
    pages: Counter[str] = Counter()
    ends: Counter[str] = Counter()
    for result in results:
        for path in result.warcs:
            assert check(path) == []
            assert index_path(path).exists()
            for each in records(path):
                if each.type in ("response", "revisit") and not each.url.endswith("/robots.txt"):
                    pages[each.url] += not each.block.startswith(b"HTTP/1.1 503")
        for folder in (result.folder / "warc").glob("shard-*"):
            lines = [line for line in log_lines(folder) if line["kind"] != "robots"]
            ends.update(line["url"] for line in lines if line["end"] == "done")
    assert len(pages) == crawled, "a finished page is not in the archive"
    assert sum(n - 1 for n in pages.values() if n) <= may_come_again
    assert len(ends) == crawled
    assert set(ends.values()) == {1}, "a URL has its turn once"
