"""Running crawls that are steered, as their servers see it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from simweb import faults
from tests.crawl.crawling import assert_clean, assert_faultless
from tests.crawl.onecrawl import assert_no_fault_but_of_kills
from tests.crawl.steered import Steered
from tests.crawl.userscode import HEAD
from tests.forked import python, running

pytestmark = pytest.mark.slow

# No host of this world is much larger than the others, so that none makes each crawl long.
WORLD = ("--seed", "6", "--hosts", "20", "--seeds", "20", "--pages-per-host", "12", "--menu", "3")
FEATURES = ("--features", "none,page-slow=10,page-302,page-404,page-503,page-gzip,robots-none")
WEB = (*WORLD, *FEATURES, "--host-delay", "0.1", "--slowness", "0.3")
PAUSE_S = 1.0

LEASES_RETURNED = re.compile(r"its (\d+) leases are returned")

# A spider that releases no page until there is a file `go`.
HOLDING = """
    import asyncio
    class Users(BroadSpider):
        name = "users"
        async def parse(self, response, **kwargs):
            async for page in super().parse(response):
                yield page
            while not Path(__file__).with_name("go").exists():
                await asyncio.sleep(0.05)
"""


def few(processes: int) -> dict[str, Any]:
    """Settings under which each process has work."""
    return {"CRAWL_PROCESSES": processes, "CONCURRENT_REQUESTS": 8}


def queries(crawl: Steered) -> int:
    return int(crawl.web.ledger()["dns"]["queries"])


def failing(folder: Path, method: str, *, in_worker: bool) -> dict[str, Any]:
    """Settings of a crawl in which the first call of this method of the gate fails."""
    code = f"""
        import sys
        from webcrawl.fetch.gate import Gate
        class Users(BroadSpider):
            name = "users"
        real, mark = Gate.{method}, Path(__file__).with_name("failed")
        def failing(self, *args):
            if not mark.exists():
                mark.touch()
                raise RuntimeError("of a user's code")
            return real(self, *args)
        if (sys.argv[0] == "-c") == {in_worker}:
            Gate.{method} = failing
    """
    module = folder / "users.py"
    module.write_text(HEAD + dedent(code))
    return {"spider": ("runspider", str(module))}


@pytest.mark.parametrize(
    "settings",
    [
        {"HEAD_FIRST": 1, "FRONTIER_ORDER": "opic"},
        {"CRAWL_PROCESSES": 2, "CONCURRENT_REQUESTS": 2, "FRONTIER_ACTIVE_HOSTS": 10},
    ],
    ids=["one process", "two processes"],
)
def test_no_request_reaches_a_server_in_a_pause_and_none_is_missed(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    with running(*WEB) as web:
        crawl = Steered(tmp_path, web=web, **settings)
        crawl.ctl("pause")  # at the very beginning
        assert_silent(crawl, PAUSE_S)
        assert crawl.ctl("pause") == "paused already"
        assert_mistakes_are_refused(crawl)
        assert crawl.ctl("resume") == "resumed"
        assert crawl.ctl("resume") == "not paused"
        for pages in (5, *range(10, 70, 10)):  # among the look-ups and robots.txt, and later
            crawl.after(pages)
            assert crawl.ctl("pause").startswith("paused")
            assert crawl.ctl("target", str(100_000 + pages))
            assert crawl.ctl("status").startswith("paused: ")
            assert_silent(crawl, PAUSE_S if pages in (5, 60) else 0.1)
            crawl.ctl("resume")
            crawl.ctl("deny", f"/nothing-{pages}/")
        assert crawl.after(70).ctl("target", "0").startswith("there is no target any more")
        assert_clean(crawl.wait())
        ledger = web.ledger()
        assert not faults(ledger), json.dumps(faults(ledger), indent=1)


def assert_silent(crawl: Steered, seconds: float) -> None:
    """Assert that no server of pages or names is asked for so long."""
    paused_at, before = crawl.servers_time(), queries(crawl)
    time.sleep(seconds)
    assert crawl.requests_since(paused_at) == []
    assert queries(crawl) == before


def assert_mistakes_are_refused(crawl: Steered) -> None:
    assert "not a regular expression" in crawl.refusal("deny", "ok.test", "re:(")
    assert "deny needs arguments" in crawl.refusal("deny")
    assert "neither SCOPE_SUFFIXES nor SCOPE_ALLOW" in crawl.refusal("allow", "x.test")
    assert "allowed is one number" in crawl.refusal("target", "-1")
    assert "undo" in crawl.refusal("undo")
    assert "retry weather: allowed are connect," in crawl.refusal("retry", "weather")
    refusal = crawl.refusal("seeds", "http://ok.test/", "nothing.txt")
    assert "there is no file 'nothing.txt'; seeds takes files, URLs and hosts" in refusal
    assert "standard input" not in refusal


def command(*arguments: str, name: str = "ctl") -> subprocess.CompletedProcess[str]:
    """Run a command of a user."""
    return python("-m", "scrapy", name, *arguments)


@pytest.mark.parametrize(
    ("processes", "by_signal"), [(1, True), (2, False)], ids=["Ctrl-C", "stop, two processes"]
)
def test_a_paused_crawl_can_be_stopped_and_resumed(
    tmp_path: Path, processes: int, by_signal: bool
) -> None:
    with running(*WEB) as web:
        crawl = Steered(tmp_path, web=web, **few(processes))
        jobdir = str(crawl.jobdir)
        crawl.after(20).ctl("pause")  # a busy machine takes seconds to start a command
        paused_at = crawl.servers_time()
        if by_signal:
            crawl.interrupt()
        else:
            assert_commands(jobdir)
            assert command(jobdir, "stop").returncode == 0
        result = crawl.wait()
        assert_clean(result)
        assert result.report["finish_reason"] == "shutdown"
        assert crawl.requests_since(paused_at) == []
        if not by_signal:
            gone = command(jobdir, "pause")
            assert gone.returncode == 1
            assert gone.stderr == f"no crawl is running in {jobdir}\n"
        assert_clean(Steered(tmp_path, web=web).wait())
        assert_faultless(web)


def assert_commands(jobdir: str) -> None:
    """Assert what commands of a user say of a paused crawl."""
    done = command(jobdir, "pause")
    assert (done.returncode, done.stdout, done.stderr) == (0, "paused already\n", "")
    refused = command(jobdir, "deny", "re:(")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("deny = 're:(' cannot be used")
    assert command(jobdir).returncode == 2
    command(jobdir, "--retry", "all", name="frontier")  # some may have failed before the pause
    again = command(jobdir, "--retry", "all", name="frontier")
    assert (again.stdout, again.stderr) == ("0 URLs are queued again\n", "")


def test_a_worker_that_is_killed_in_a_pause_is_replaced(tmp_path: Path) -> None:
    """Its answered pages are not released yet: the next run fetches them again."""
    module = tmp_path / "users.py"
    module.write_text(HEAD + dedent(HOLDING))
    settings = few(2) | {"spider": ("runspider", str(module))}
    started = re.compile(r"processes: this one and (\d+)|Process 2 is started again, as (\d+)")

    def kill_second(crawl: Steered, times: int) -> None:
        last = started.findall((tmp_path / "err.txt").read_text())[-1]
        os.kill(int(last[0] or last[1]), signal.SIGKILL)
        crawl.until("Process 2 is started again", times)

    with running(*WEB) as web:
        crawl = Steered(tmp_path, web=web, **settings)
        crawl.after(6).ctl("pause")
        paused_at = crawl.servers_time()
        kill_second(crawl, 1)
        kill_second(crawl, 2)  # without a lease
        time.sleep(PAUSE_S)
        kill_second(crawl, 3)
        (tmp_path / "go").touch()
        crawl.ctl("stop")
        result = crawl.wait()
        assert_clean(result)
        assert crawl.requests_since(paused_at) == []
        returned = sum(map(int, LEASES_RETURNED.findall(result.log)))
        again = Steered(tmp_path, web=web, **settings | few(1))
        assert_clean(again.wait())
        assert_no_fault_but_of_kills(web, may_come_again=returned)


def test_a_worker_that_fails_to_carry_out_a_command_is_replaced(tmp_path: Path) -> None:
    with running(*WEB) as web:
        settings = few(2) | failing(tmp_path, "wait_until_sent", in_worker=True)
        crawl = Steered(tmp_path, web=web, **settings).after(20)
        assert crawl.ctl("pause").startswith("paused")
        crawl.until("Process 2 is started again")
        paused_at = crawl.servers_time()
        time.sleep(PAUSE_S)
        assert crawl.requests_since(paused_at) == []
        assert crawl.ctl("resume") == "resumed"
        result = crawl.wait()
        assert result.exit_code == 0
        assert result.log.count("The orders of the first process failed") == 1
        assert result.log.count("Traceback") == 1
        assert result.report["counts"]["pending"] == 0


def test_a_command_that_fails_is_answered_and_another_one_repairs_it(tmp_path: Path) -> None:
    with running(*WEB) as web:
        settings = few(1) | failing(tmp_path, "shut", in_worker=False)
        crawl = Steered(tmp_path, web=web, **settings).after(20)
        assert "of a user's code" in crawl.refusal("pause")
        assert crawl.ctl("pause").startswith("paused: ")
        paused_at = crawl.servers_time()
        (tmp_path / "failed").unlink()
        time.sleep(PAUSE_S)
        assert crawl.requests_since(paused_at) == []
        assert crawl.ctl("resume") == "resumed"
        assert "The next pause, resume" in crawl.refusal("pause")
        assert crawl.ctl("resume") == "resumed"
        assert crawl.ctl("resume") == "not paused"
        result = crawl.wait()
        assert result.exit_code == 0
        assert result.log.count("Traceback") == 2
        assert_faultless(web)


def test_a_deny_that_fails_holds_for_urls_in_line(tmp_path: Path) -> None:
    with running(*WEB) as web:
        hosts = sorted({url.split("/")[2].partition(":")[0] for url in web.seeds})
        settings = few(1) | failing(tmp_path, "wait_until_sent", in_worker=False)
        crawl = Steered(tmp_path, web=web, **settings).after(20)
        answer = crawl.refusal("deny", *hosts[::2])
        assert "allow and deny hold for URLs in line, and are kept for later runs" in answer
        assert crawl.ctl("resume") == "resumed"  # carries it out whole
        denied_at = crawl.servers_time()
        result = crawl.wait()
        assert result.exit_code == 0
        asked = crawl.requests_since(denied_at)
        assert asked
        assert [url for url in asked if url.startswith(tuple(hosts[::2]))] == []


def test_denied_urls_are_not_requested_although_they_wait(tmp_path: Path) -> None:
    with running(*WEB) as web:
        hosts = sorted({url.split("/")[2].partition(":")[0] for url in web.seeds})
        denied = hosts[::2]
        crawl = Steered(tmp_path, web=web, **few(2))
        crawl.after(40)
        patterns = ("[02468]$", "re:^https?://[a-c]")
        assert f"{len(denied) + 2} entries added" in crawl.ctl("deny", *denied, *patterns)
        denied_at = crawl.servers_time()
        crawl.until_true(lambda: len(crawl.requests_since(denied_at)) > 10)
        crawl.kill()
        result = Steered(tmp_path, web=web).wait()
        assert_clean(result)
        assert result.log.count("steering: deny ") == 1
        asked = crawl.requests_since(denied_at)
        assert [url for url in asked if url.startswith((*denied, "a", "b", "c"))] == []
        assert [url for url in asked if url[-1] in "02468"] == []
        counts = result.report["counts"]
        assert counts["pending"] == 0
        assert counts["dropped/scope_deny"] > 0


def test_seeds_that_are_added_late_are_fetched(tmp_path: Path) -> None:
    """Even if the crawl has nothing left: it does not end in a pause."""
    with running(*WEB) as web:
        (tmp_path / "late.txt").write_text("\n".join([*web.seeds, "http://", "no.other/"]))
        first = web.seeds[0]
        crawl = Steered(tmp_path, first, web=web, FOLLOW_LINKS=0, SCOPE_DENY="other")
        crawl.ctl("pause")
        crawl.ctl("deny", first.split("/")[2].partition(":")[0])
        denied_at = crawl.servers_time()  # its robots.txt may have been asked for before
        time.sleep(PAUSE_S)
        answer = crawl.ctl("seeds", str(tmp_path / "late.txt"), web.seeds[1])
        assert answer == "19 seeds added, 1 known, 2 out of scope, 1 not a URL"
        crawl.ctl("resume")
        assert_clean(crawl.wait())
        assert len({url.partition("/")[0] for url in crawl.requests_since(denied_at)}) == 19


def test_a_larger_scope_and_a_target_outlive_a_kill(tmp_path: Path) -> None:
    with running(*WEB) as web:
        hosts = sorted({url.split("/")[2].partition(":")[0] for url in web.seeds})
        settings = {"SCOPE_ALLOW": ",".join(hosts[:5])}
        crawl = Steered(tmp_path, web=web, **settings).after(1)  # the seeds of the start are read
        crawl.ctl("pause")
        assert "1 entry added" in crawl.ctl("allow", hosts[5])
        assert crawl.ctl("seeds", *web.seeds).startswith("1 seed added")
        assert crawl.ctl("status").endswith("; added: 1 of allow, 0 of deny")
        crawl.ctl("target", "40")
        crawl.ctl("resume")
        crawl.after(20)
        crawl.kill()
        result = Steered(tmp_path, web=web, **settings).wait()
        assert_clean(result)
        assert result.report["counts"]["crawled"] == 40
        asked = {url.partition("/")[0] for url in crawl.requests_since(0)}
        assert hosts[5] in asked
        assert not [host for host in asked if not host.endswith(tuple(hosts[:6]))]


def test_a_target_is_met_exactly(tmp_path: Path) -> None:
    with running(*WEB) as web:
        crawl = Steered(tmp_path, web=web, **few(2), CLOSESPIDER_PAGECOUNT=40)
        crawl.after(20)
        assert "the target is 77 pages" in crawl.ctl("target", "77")
        assert "the lowest target is" in crawl.refusal("target", "3")
        result = crawl.wait()
        assert_clean(result)
        assert result.report["counts"]["crawled"] == 77
        result = Steered(tmp_path, web=web, CLOSESPIDER_PAGECOUNT=90).wait()
        assert_clean(result)
        assert "target 77" in result.log
        assert "is not used" in result.log
        assert result.report["counts"]["crawled"] == 90
