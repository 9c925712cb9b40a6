"""The project in a real scrapyd: deployed as an egg, scheduled over HTTP, its log and its files."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit
from urllib.request import ProxyHandler, build_opener

import pytest

from tests.forked import running
from tests.freeport import free_port
from webcrawl.tools.warccheck.check import check

pytest.importorskip("scrapyd")
pytest.importorskip("scrapyd_client")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
BUILD_FILES = ("LICENSE", "README.md", "pyproject.toml")
SIMWEB = (
    *("--hosts", "20", "--seeds", "20", "--pages-per-host", "2"),
    *("--features", "none,page-slow=90", "--host-delay", "0.2"),
)
LAUNCHED_S = 300
STATS_LINE = re.compile(r"\[ *\d+\] \d+ Q +\d+ E +\d+ H +\d+ D +\d+ I +\d+ R +\d+ C +\d+ L +\d+K")


@dataclass
class Scrapyd:
    """A running server; `folder` is its working directory."""

    url: str
    folder: Path

    def ask(self, page: str, **data: Any) -> dict[str, Any]:
        body = urlencode(data, doseq=True).encode() if data else None
        with build_opener(ProxyHandler({})).open(f"{self.url}/{page}.json", body, 60) as reply:
            answer: dict[str, Any] = json.load(reply)
        assert answer["status"] == "ok", answer
        return answer

    def jobs(self, state: str) -> list[str]:
        with build_opener(ProxyHandler({})).open(
            f"{self.url}/listjobs.json?project=webcrawl", None, 60
        ) as reply:
            return [job["id"] for job in json.load(reply)[state]]

    def log(self, job: str) -> str:
        path = self.folder / "logs/webcrawl/broad" / f"{job}.log"
        return path.read_text() if path.exists() else ""


def wait_until(true: Any, timeout_s: float, what: str) -> None:
    end_at = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < end_at, f"{what} took more than {timeout_s} s"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def scrapyd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scrapyd]:
    """A scrapyd on a free port with this project deployed."""
    folder = tmp_path_factory.mktemp("scrapyd")
    port = free_port()
    (folder / "scrapyd.conf").write_text(
        f"[scrapyd]\nbind_address = 127.0.0.1\nhttp_port = {port}\npoll_interval = 0.1\n"
    )
    server = Scrapyd(f"http://127.0.0.1:{port}", folder)
    with (folder / "out").open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "scrapyd"], cwd=folder, stdout=out, stderr=subprocess.STDOUT
        )
    try:
        wait_until(lambda: answers(port), 60, "the start of scrapyd")
        deploy(server, tmp_path_factory.mktemp("checkout") / "webcrawl")
        yield server
    finally:
        process.terminate()
        process.wait(30)


def answers(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def deploy(server: Scrapyd, checkout: Path) -> None:
    no_bytecode = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "webcrawl", checkout / "webcrawl", ignore=no_bytecode)
    for name in BUILD_FILES:
        shutil.copy(ROOT / name, checkout)
    cfg = (ROOT / "scrapy.cfg").read_text()
    (checkout / "scrapy.cfg").write_text(cfg.replace("http://localhost:6800", server.url))
    deployed = subprocess.run(
        [sys.executable, "-m", "scrapyd_client.deploy"],
        cwd=checkout, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert deployed.returncode == 0, deployed.stdout + deployed.stderr
    assert '"spiders": 1' in deployed.stdout


def schedule(server: Scrapyd, *settings: str, seeds: str) -> str:
    job: str = server.ask(
        "schedule", project="webcrawl", spider="broad", seeds=seeds, setting=settings
    )["jobid"]
    return job


def finish(server: Scrapyd, job: str) -> str:
    """Waits for the end of `job`; its log."""
    wait_until(lambda: job in server.jobs("finished"), LAUNCHED_S, "the job")
    return server.log(job)


def test_a_scheduled_crawl_runs_in_two_processes(scrapyd: Scrapyd) -> None:
    """A list of its seeds is in the egg, and not in the working directory; none is in scope."""
    assert not (scrapyd.folder / "seeds").exists()
    with running(*SIMWEB) as web:
        web.hold(4)
        hosts = {urlsplit(url).hostname or "" for url in web.seeds}
        job = schedule(
            scrapyd,
            "STATS_INTERVAL=0.1", f"DNS_SERVERS={web.dns}", "ALLOW_PRIVATE_ADDRESSES=1",
            "DOWNLOAD_DELAY=0.2", "IP_DELAY=0", "WARC_DIR=archive", "CONCURRENT_REQUESTS=2",
            "CRAWL_PROCESSES=2", f"SCOPE_ALLOW={','.join(hosts)}", "DOWNLOAD_TIMEOUT=180",
            seeds=",".join(["seeds/br.txt", *web.seeds]),
        )  # fmt: skip
        # On a busy machine the first process would have all pages before the second has started.
        wait_until(lambda: "[process 2] Scrapy" in scrapyd.log(job), LAUNCHED_S, "its start")
        web.release()
        log = finish(scrapyd, job)
        ledger = web.ledger()
    assert len(STATS_LINE.findall(log)) >= 2, log
    assert re.search(r"Crawled \d+ pages @ \d+/s", log)
    assert "'finish_reason': 'finished'" in log
    assert "[process 2] 1 WARC files with" in log
    assert f"'webcrawl/crawled': {ledger['fetched']['pages']}," in log
    size_bytes = (ROOT / "webcrawl/seeds/br.txt").stat().st_size
    assert f"Opened seeds/br.txt with size {size_bytes}" in log
    files = list((scrapyd.folder / "archive").glob("*.warc.gz"))
    assert files
    assert [problem for file in files for problem in check(file)] == []
