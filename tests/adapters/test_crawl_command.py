"""`scrapy crawl` and `runspider`: their messages and exit codes, before and after a crawl."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from simweb import faults
from tests.adapters.rawserver import RawServer, read_request
from tests.conftest import Scrapy
from tests.forked import running
from tests.freeport import free_port
from webcrawl.commands.preflight import EXIT_CODES
from webcrawl.config.table import MOST_USED
from webcrawl.report.lines import LEGEND

SIMWEB = ("--hosts", "6", "--pages-per-host", "2", "--features", "none", "--host-delay", "0")
PLAIN_SPIDER = """
import scrapy

class Plain(scrapy.Spider):
    name = "plain"
    custom_settings = {"DOWNLOAD_DELAY": -1, "SCHEDULER": "scrapy.core.scheduler.Scheduler"}

    async def start(self):
        print("started", self.seeds)
        return
        yield
"""


@pytest.fixture
def silent_dns() -> tuple[str, socket.socket]:
    """A DNS server that never answers, and its socket, which has any query it got."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 0))
    server.setblocking(False)
    return f"127.0.0.1:{server.getsockname()[1]}", server


@pytest.mark.parametrize(
    ("seeds", "line"),
    [
        ([], "bad seed: no seeds are given; -a seeds= takes files"),
        (["-a", "seeds=-"], "bad seed: there is no URL in standard input (1 bad line,"),
    ],
)
def test_a_bad_seed_is_reported_before_any_query(
    scrapy: Scrapy, silent_dns: tuple[str, socket.socket], seeds: list[str], line: str
) -> None:
    address, server = silent_dns
    with server:
        done = scrapy("crawl", "broad", *seeds, "-s", f"DNS_SERVERS={address}", stdin="no url\n")
        assert done.returncode == 1
        assert [text for text in done.stderr.splitlines() if line in text], done.stderr
        assert done.stdout == ""
        assert "Traceback" not in done.stderr
        assert "Spider opened" not in done.stderr
        with pytest.raises(BlockingIOError):
            server.recv(512)


def test_a_crawl_of_the_open_web_without_a_contact(scrapy: Scrapy) -> None:
    arguments = ("crawl", "broad", "-a", "seeds=ufmg.br", "-s", "SCOPE_SUFFIXES=.invalid")
    quiet = ("-s", "LOG_LEVEL=WARNING")
    said = scrapy(*arguments, *quiet, "-s", "SCOPE_DENIED=1", "-a", "colour=red").stderr
    assert "SCOPE_DENIED is no setting; the nearest is SCOPE_DENY" in said
    assert "-a colour= is given, but" in said
    assert (
        len([line for line in said.splitlines() if "[webcrawl.extensions.startcheck]" in line]) == 7
    )
    assert "names no contact" in said
    agent = "USER_AGENT=me/1.0 (+https://example.org/crawl)"
    assert "startcheck" not in scrapy(*arguments, *quiet, "-s", agent).stderr


def test_seeds_on_standard_input_are_read_to_the_end(scrapy: Scrapy) -> None:
    """The crawl must also get the seeds that the check before the crawl has read."""
    with running(*SIMWEB) as web:
        seeds = web.seeds
        done = scrapy("crawl", "broad", "-a", "seeds=-", *crawl_of(web.dns), stdin="\n".join(seeds))
        assert done.returncode == 0, done.stderr
        ledger = web.ledger()
    assert faults(ledger) == []
    assert ledger["fetched"]["pages"] > len(seeds)


def test_a_frontier_that_empties_before_the_target_is_a_bad_seed(scrapy: Scrapy) -> None:
    with running(*SIMWEB) as web:
        target = ("-s", "CLOSESPIDER_PAGECOUNT=10000")
        seeds = f"seeds={','.join(web.seeds)}"
        done = scrapy("crawl", "broad", "-a", seeds, *target, *crawl_of(web.dns))
        pages = web.ledger()["fetched"]["pages"]
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("bad seed: the frontier emptied after ")
    assert last.endswith(" of 10000 pages")
    assert pages > 0


@pytest.mark.parametrize("target", [(), ("-s", "CLOSESPIDER_PAGECOUNT=10")])
def test_no_seed_in_scope_is_a_bad_seed(scrapy: Scrapy, target: tuple[str, ...]) -> None:
    scope = ("-s", "SCOPE_SUFFIXES=.invalid")
    done = scrapy("crawl", "broad", "-a", "seeds=ufmg.br", *scope, *target)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "bad seed: no seed is in scope: dropped 1 (scope_suffix 1): look at SCOPE_SUFFIXES,"
        " SCOPE_ALLOW, SCOPE_DENY, ALLOW_PORTS, allowed_domains"
    )


def test_a_proxy_that_is_down_is_counted(scrapy: Scrapy, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(*SIMWEB) as web:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
        done = scrapy(
            "crawl", "broad", "-a", f"seeds={web.seeds[0]}", "-s", "RETRY_TIMES=0",
            *crawl_of(web.dns),
        )  # fmt: skip
    assert done.returncode == 1
    assert "not one page was answered" in done.stderr.splitlines()[-1]
    assert "'webcrawl/failed/connect': 1," in done.stderr
    assert "'webcrawl/crawled': 0," in done.stderr
    assert "Traceback" not in done.stderr


def test_a_crawl_that_never_had_a_page_fails_in_each_run(scrapy: Scrapy, tmp_path: Path) -> None:
    options = ("-a", "seeds=http://nowhere.example/", "-s", f"JOBDIR={tmp_path / 'job'}")
    with running(*SIMWEB) as web:
        runs = [scrapy("crawl", "broad", *options, *crawl_of(web.dns)) for _ in range(2)]
    failed = "the first seeds that failed: http://nowhere.example/ (dns)", "dropped: 1 (dns 1)"
    for done, what in zip(runs, failed, strict=True):
        line = f"not one page was answered in this run; {what}"
        assert (done.returncode, done.stderr.splitlines()[-1]) == (1, line)


def refusing_proxy(connection: socket.socket) -> None:
    """A proxy that opens no tunnel and serves pages of 2 MB only."""
    if read_request(connection).startswith(b"CONNECT"):
        connection.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
    else:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + b"a" * 2_000_000)


@pytest.mark.parametrize("reactor", [True, False], ids=["reactor", "no reactor"])
def test_refusals_of_a_proxy_are_counted(
    scrapy: Scrapy, monkeypatch: pytest.MonkeyPatch, reactor: bool
) -> None:
    settings = crawl_of(
        "127.0.0.1:9",  # so that no name is looked up
        *(f"TWISTED_REACTOR_ENABLED={reactor}", "ROBOTSTXT_OBEY=0", "RETRY_TIMES=0"),
        *("DOWNLOAD_MAXSIZE=1000000", "WARC_ENABLED=0"),
    )
    with RawServer(refusing_proxy) as proxy:
        for scheme in ("http", "https"):
            monkeypatch.setenv(f"{scheme}_proxy", f"http://127.0.0.1:{proxy.port}")
        seeds = "seeds=http://127.0.0.1:8/,https://127.0.0.2:8/"
        done = scrapy("crawl", "broad", "-a", seeds, *settings)
    assert done.returncode == 1
    assert "'webcrawl/failed/too_large': 1," in done.stderr
    refused = "connect" if reactor else "reset"  # aiohttp reports a broken answer
    assert f"'webcrawl/failed/{refused}': 1," in done.stderr
    assert "Traceback" not in done.stderr


def test_runspider_runs_a_spider_that_is_not_broad(tmp_path: Path, scrapy: Scrapy) -> None:
    file = tmp_path / "plain.py"
    file.write_text(PLAIN_SPIDER)
    done = scrapy("runspider", str(file), "-a", "seeds=anything")
    assert "started anything" in done.stdout
    assert "cannot be used" not in done.stderr
    assert "File not found" in scrapy("runspider", str(tmp_path / "nosuch.py")).stderr


@pytest.mark.parametrize("command", ["crawl", "runspider"])
def test_help_ends_with_settings_legend_and_exit_codes(scrapy: Scrapy, command: str) -> None:
    text = scrapy(command, "--help").stdout
    assert "-a NAME=VALUE" in text  # Scrapy's own options
    parts = [text.index(f"\n  {line}\n") for line in (LEGEND[0], *EXIT_CODES)]
    assert parts == sorted(parts)
    assert all(f"\n  {name} " in text[: parts[0]] for name in MOST_USED)
    assert max(map(len, text.splitlines())) < 80


def crawl_of(dns: str, *more: str) -> list[str]:
    """Settings to crawl a simulated web."""
    settings = [f"DNS_SERVERS={dns}", "ALLOW_PRIVATE_ADDRESSES=1", "DOWNLOAD_DELAY=0", "IP_DELAY=0"]
    settings += more
    return [part for setting in settings for part in ("-s", setting)]
