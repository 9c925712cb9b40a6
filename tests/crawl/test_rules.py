"""Rules by host and budgets in whole crawls: judged by the journal and ledger of the servers."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from simweb import Running, faults
from tests.adapters.rawserver import RawServer
from tests.crawl.crawling import Crawl, Result, assert_clean, crawl, wait_for_servers
from tests.crawl.knownsite import answer, crawled, served
from tests.crawl.onecrawl import assert_no_fault_but_of_kills, assert_one_crawl
from tests.crawl.smalldisk import crawl_twice, mounts
from tests.crawl.steered import Steered
from tests.crawl.test_processes import Processes, few
from tests.forked import python, running

pytestmark = pytest.mark.slow

# No host of this world is much larger than the others, and the first have 14 pages or more.
WORLD = (
    *("--seed", "199", "--hosts", "12", "--seeds", "12"),
    *("--pages-per-host", "25", "--features", "none"),
)
READ_AGAIN = "rules.toml read again: "


class Journal:
    """The requests and answers that the servers have written down."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __iter__(self) -> Any:
        return (json.loads(line) for line in self.path.read_text().splitlines(keepends=False))

    def asked(self, host: str, since: float = 0.0) -> list[dict[str, Any]]:
        """The requests to `host` from `since` on."""
        return [each for each in self if each["host"] == host and each.get("at", -1.0) >= since]

    def sent(self) -> dict[str, list[int]]:
        """The sizes of all answers, by host."""
        sizes: dict[str, list[int]] = {}
        for each in self:
            if "sent" in each:
                sizes.setdefault(each["host"], []).append(each["sent"])
        return sizes


def with_journal(tmp_path: Path, *more: str) -> tuple[Journal, tuple[str, ...]]:
    path = tmp_path / "journal"
    return Journal(path), (*WORLD, "--host-delay", "0.05", "--journal", str(path), *more)


def hosts_of(web: Running) -> list[str]:
    return [seed.split("/")[2].rpartition(":")[0] for seed in web.seeds]


def start(folder: Path, web: Running, **more: Any) -> Crawl:
    return Crawl(folder, web=web, RULES=f"@{folder / 'rules.toml'}", **more)


def write(folder: Path, *rules: str) -> None:
    """Write the file as an editor does: a new file takes the place of the old one."""
    (folder / "new.toml").write_text("".join(f"[[rule]]\n{rule}\n" for rule in rules))
    (folder / "new.toml").rename(folder / "rules.toml")


def test_delays_and_headers_are_those_of_each_hosts_rule(tmp_path: Path) -> None:
    journal, arguments = with_journal(tmp_path)
    with running(*arguments) as web:
        slow, secret, agent, capped, *_ = hosts_of(web)
        write(
            tmp_path,
            f'host = "{slow}"\ndelay = 0.4\nmax_pages = 10',
            f'domain = "{secret}"\nheaders = {{ Authorization = "Bearer 123", Accept = "" }}',
            f'host = "{agent}"\nuser_agent = "other/2.0"',
            f'host = "{capped}"\nmax_pages = 3',
        )
        result = start(tmp_path, web, **few(2)).wait()
        ledger = web.ledger()
        assert_clean(result)
        assert {name for name, found in ledger["violations"].items() if found["count"]} == set()
    requests = journal.asked(slow)
    assert len(requests) == 11, "robots.txt and the cap"
    assert all(late["at"] - early["at"] >= 0.4 for early, late in pairwise(requests))
    assert len(journal.asked(capped)) == 4
    for host in hosts_of_journal(journal):
        fields = [each["fields"] for each in journal.asked(host)]
        assert all(("Bearer 123" in each) == (host == secret) for each in fields)
        assert all(("Accept: " in each) == (host != secret) for each in fields)
        assert all(("User-Agent: other/2.0" in each) == (host == agent) for each in fields)


def hosts_of_journal(journal: Journal) -> set[str]:
    return {each["host"] for each in journal}


def test_urls_in_line_obey_a_file_that_changes_and_a_mistake_changes_nothing(
    tmp_path: Path,
) -> None:
    """A worker that starts later has the rules in force, and `scrapy explain` names them."""
    journal, arguments = with_journal(tmp_path, "--partial", "--pages-per-host", "80")
    suffixes = 'suffix = ["com", "br", "pt", "net", "info"]'
    job = tmp_path / "job"
    with running(*arguments) as web:
        denied, marked, partly, *_ = hosts_of(web)
        write(tmp_path, f'host = "{denied}"\nheaders = {{ X-First = "1" }}')
        running_crawl = start(tmp_path, web, DOWNLOAD_DELAY=0.4, JOBDIR=job, **few(2))
        workers = Processes(running_crawl)
        workers.wait_for_work()  # one that is killed before it had any is not started again
        write(tmp_path, f'host = "{denied}"\ndeny = true', "delay = 3")
        running_crawl.until("a rule needs a host, a domain or a suffix; the rules before stay")
        mistaken_at = time.monotonic()
        running_crawl.until_true(lambda: len(journal.asked(denied, mistaken_at)) >= 2)
        write(
            tmp_path,
            f'host = "{denied}"\ndeny = true',
            f'host = "{marked}"\nheaders = {{ X-Second = "2", Authorization = "secret" }}',
            f'host = "{partly}"\ndeny = ["[02468][^0-9]*$"]',
            f'{suffixes}\nheaders = {{ X-Rule = "all" }}',
        )
        running_crawl.until(READ_AGAIN + "4 rules (3 new, 1 changed)")
        changed_at = time.monotonic()
        wait_for_servers(web.port)
        obeyed_at = time.monotonic()
        workers.wait_for_work()  # one that is killed before counts as unable to start
        os.kill(workers.pids[0], signal.SIGKILL)
        workers.wait_for_another()
        running_crawl.until_true(lambda: len(journal.asked(marked, obeyed_at)) >= 4)
        running_crawl.interrupt()
        result = running_crawl.wait()
        assert result.exit_code == 0
        assert_no_fault_but_of_kills(web, may_come_again=2)
        explained = explain(f"http://{marked}/", job)
        write(tmp_path, "delay = 1")
        broken = explain(web.seeds[0], job)
    assert "Traceback" not in result.log
    mistakes = [line for line in result.log.splitlines() if " ERROR: " in line]
    assert len([line for line in mistakes if "Process 2 ended" not in line]) == 1
    assert all("X-First: 1" in each["fields"] for each in journal.asked(denied))
    assert len(journal.asked(denied, changed_at)) <= 1, "one request may have been under way"
    later = journal.asked(marked, obeyed_at)
    assert all("X-Second: 2" in each["fields"] for each in later)
    paths = [each["target"].rstrip("html./") for each in journal.asked(partly, obeyed_at)]
    assert not [path for path in paths if path[-1:] in "02468" and path[-1:]]
    for host in hosts_of_journal(journal) - {denied}:
        fields = [each["fields"] for each in journal.asked(host, obeyed_at)]
        assert all("X-Rule: all" in each for each in fields)
    assert result.report["counts"]["dropped/deny"] > 5
    assert f"A rule sets the header x-second for host {marked} (rules.toml, line" in explained
    assert "secret" not in explained
    assert "The rules of its host are not known. RULES: rules.toml, line 1: a rule needs" in broken


def test_a_request_that_a_pause_holds_obeys_rules_of_the_pause(tmp_path: Path) -> None:
    """The server begins no TLS handshake, so the request to it is connecting for long."""
    connected: list[float] = []

    def script(connection: socket.socket) -> None:
        connected.append(time.monotonic())
        server.over.wait()

    write(tmp_path, 'host = "x.org"\ndelay = 1')
    rules = {"RULES": f"@{tmp_path / 'rules.toml'}", "CRAWL_PROCESSES": 2}
    with running("--hosts", "2") as web, RawServer(script) as server:
        url = f"https://127.0.0.1:{server.port}/"
        paused = Steered(tmp_path, url, web=web, DOWNLOAD_TIMEOUT=60, **rules)
        paused.until_true(lambda: bool(connected))
        paused.ctl("pause")
        write(tmp_path, 'host = "127.0.0.1"\ndeny = true')
        paused.until(READ_AGAIN)
        before = len(connected)
        paused.ctl("resume")
        result = paused.wait()
    assert len(connected) == before
    assert result.report["counts"]["dropped/deny"] == 1


def test_a_rule_has_its_time_out_and_size(tmp_path: Path) -> None:
    """Without the rule's time-out, the crawl would take ten minutes."""
    pages = {"/silent": b"", "/large": answer(b"<html>" + b"x" * 50_000)}
    write(tmp_path, 'host = "127.0.0.1"\ntimeout = 0.5\nmax_size = "10K"')
    rules = f"@{tmp_path / 'rules.toml'}"
    with served(pages) as site:
        result = crawled(tmp_path, site, RULES=rules, DOWNLOAD_TIMEOUT=600, RETRY_TIMES=0)
        counts = result.report["counts"]
        assert counts["failed/timeout"] == counts["kept/timeout"] == 1
        assert counts["page_bytes"] < 15_000


def explain(url: str, job: Path) -> str:
    done = python("-m", "scrapy", "explain", url, "-s", f"JOBDIR={job}")
    assert done.returncode == 0, done.stderr
    return done.stdout


# Budgets


def test_bytes_per_host_are_exceeded_by_one_page_at_most(tmp_path: Path) -> None:
    journal, arguments = with_journal(tmp_path, "--page-bytes", "10000", "--partial")
    with running(*arguments) as web:
        free = hosts_of(web)[:4]
        write(tmp_path, f"host = {json.dumps(free)}\nmax_bytes = 0")
        budget = {"MAX_BYTES_PER_HOST": "60K", "JOBDIR": tmp_path / "job"}
        stopped = start(tmp_path, web, **budget, **few(2))
        stopped.until("*** crawling")
        stopped.interrupt()
        stopped.wait()
        result = start(tmp_path, web, **budget, **few(2)).wait()
        assert result.exit_code == 0
        assert not faults(web.ledger())
    assert result.report["counts"]["dropped/host_bytes"] > 20
    sent = journal.sent()
    for host, sizes in sent.items():
        if host not in free:
            assert sum(sizes[:-1]) <= 60_000, (host, sizes)
    assert max(sum(sent[host]) for host in free) > 100_000


def test_the_crawl_ends_when_its_warc_files_are_large_enough(tmp_path: Path) -> None:
    """The next run has a higher budget. The one between ends before its first request."""
    promises = ("--host-delay", "0.1", "--ip-delay", "0.02")
    limits = {"JOBDIR": tmp_path / "job", "WARC_MAX_SIZE": 100_000}
    # The last run is so long that each process has a part of it on a busy machine.
    with running(*WORLD, "--seed", "1", *promises) as web:
        first = crawl(tmp_path, web=web, WARC_MAX_TOTAL="300K", **limits)
        assert_clean(first)
        assert first.report["finish_reason"] == "warc_max_total"
        counted = first.report["counts"]["warc_bytes"]
        assert counted == sum(path.stat().st_size for path in first.warcs)
        assert counted >= 300_000
        wait_for_servers(web.port)
        before = web.ledger()["totals"]["requests"]
        again = crawl(tmp_path, web=web, WARC_MAX_TOTAL="300K", **limits)
        assert (again.exit_code, again.report["finish_reason"]) == (0, "warc_max_total")
        assert_clean(again)
        assert web.ledger()["totals"]["requests"] == before
        last = crawl(tmp_path, web=web, WARC_MAX_TOTAL="3G", **limits, **few(2))
        assert last.report["finish_reason"] == "finished"
        assert_one_crawl(web, last, 0)
        assert last.report["counts"]["warc_bytes"] == sum(p.stat().st_size for p in last.warcs)


@mounts
def test_a_nearly_full_disk_ends_the_crawl_and_the_next_run_resumes_it(tmp_path: Path) -> None:
    pages = ("--page-bytes", "40000", "--host-delay", "0.1", "--ip-delay", "0.02")
    with running(*WORLD, *pages) as web:
        first, result = crawl_twice(tmp_path, web, "WARC_DIR", "16m", DISK_FREE_MIN="15M")
        last = first.strip().splitlines()[-1]
        small = tmp_path / "small"
        assert last.startswith(f"DISK_FREE_MIN = 15000000: the disk of '{small}' has only ")
        assert first.count(" ERROR: ") == 1
        assert "Closing spider (disk_free_min)" in first
        assert_one_crawl(web, result, 0)


def test_a_disk_that_is_too_full_at_the_start_gets_no_request(tmp_path: Path) -> None:
    with running(*WORLD) as web:
        result: Result = crawl(tmp_path, web=web, DISK_FREE_MIN="100000T")
        assert not web.ledger()["totals"].get("requests")
    assert result.exit_code == 1
    assert result.report["finish_reason"] == "disk_free_min"
    assert result.log.strip().splitlines()[-1].startswith("DISK_FREE_MIN = 100000")
