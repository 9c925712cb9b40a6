"""Manners in whole crawls, judged by servers: adaptive delays, owners' signals, several names."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest

from tests.crawl.crawling import Crawl, assert_clean, assert_faultless
from tests.crawl.crawllog import assert_log
from tests.crawl.knownsite import answer, crawled, records, served
from tests.crawl.test_processes import few
from tests.forked import python, running
from webcrawl.tools.warccheck.check import check

pytestmark = pytest.mark.slow

SLOW = (
    *("--seed", "17", "--hosts", "5", "--seeds", "5", "--pages-per-host", "5"),
    *("--features", "none,page-plain=4,page-slow=3,page-flaky=6,host-slow=40"),
    *("--slowness", "0.1", "--host-delay", "0.1"),
)
FACTOR, LONGEST_S = 4, 0.6


def test_the_delay_adapts_to_each_host_also_in_the_next_run(tmp_path: Path) -> None:
    with running(*SLOW) as web:
        chosen = few(2) | {"DELAY_FACTOR": FACTOR, "CRAWL_DELAY_MAX": LONGEST_S}
        chosen |= {"JOBDIR": tmp_path / "job", "CONCURRENT_REQUESTS": 12}
        first = Crawl(tmp_path, web=web, **chosen)
        first.until("*** crawling", 2)
        first.interrupt()
        first.wait()
        result = Crawl(tmp_path, web=web, **chosen).wait()
        assert_clean(result)
        ledger = assert_faultless(web)
        assert ledger["statuses"]["503"] > 1
        asked_at, quickest_s = defaultdict(list), defaultdict(lambda: LONGEST_S)
        for at, _, host, _ in web.latest():
            asked_at[host].append(at)
    for line in assert_log(result):  # no mean of a host is below its quickest answer
        if first_byte_ms := line.get("first_byte_ms"):
            host = line["host"]
            quickest_s[host] = min(quickest_s[host], first_byte_ms / 1000)
    delays_s = {host: min(FACTOR * quickest_s[host], LONGEST_S) for host in asked_at}
    # Some hosts take a second, times 0.1; a timer may end a millisecond early.
    assert max(delays_s.values()) >= FACTOR * 0.09
    for host, delay_s in delays_s.items():
        assert all(b - a >= delay_s for a, b in pairwise(asked_at[host])), host


WALL = b"<h1>One moment</h1><a href=/behind>in</a>"
SERVED_BY = b"Server: cloudflare"
WALLED = {
    "/page": answer(b"<p>A page", SERVED_BY),
    "/own": answer(b"<p>Members only", SERVED_BY, status=b"403 Forbidden"),
    "/challenge": answer(WALL, b"CF-Mitigated: challenge", status=b"403 Forbidden"),
    "/as-page": answer(WALL + b"sec-if-cpt-container sec-cpt-if"),
    "/as-page-2": answer(WALL + b"sec-if-cpt-container sec-cpt-if"),
    "/redirect": answer(
        b"", b"Location: /.within.website/?redir=%2F", status=b"307 Temporary Redirect"
    ),
    "/behind": answer(b"behind the wall"),
}


def test_a_bot_wall_is_recorded_and_is_no_page(tmp_path: Path) -> None:
    with served(WALLED) as site:
        index = b"".join(b"<a href=%b>a</a>" % p.encode() for p in WALLED if p != "/behind")
        site.pages["/"] = answer(index)
        feed = tmp_path / "pages.jsonl"
        result = crawled(
            tmp_path,
            site,
            spider=("crawl", "broad", "-O", str(feed)),
            JOBDIR=tmp_path / "job",
        )
    assert_clean(result)
    assert "/behind" not in site.requests, "no link of a wall is followed"
    assert "/.within.website/?redir=%2F" not in site.requests
    assert all(len(requests) == 1 for requests in site.requests.values())
    walls = {
        "/challenge": "cloudflare",
        "/as-page": "akamai",
        "/as-page-2": "akamai",
        "/redirect": "anubis",
    }
    lines = {line["url"].removeprefix(site.url): line for line in assert_log(result)}
    assert {url: line["wall"] for url, line in lines.items() if "wall" in line} == walls
    items = {}
    for text in feed.read_text().splitlines():
        items[json.loads(text)["url"].removeprefix(site.url)] = json.loads(text)
    assert {url: item["wall"] for url, item in items.items() if item["wall"]} == walls
    found = defaultdict(dict)
    for record in records(result.warcs[0])[1:]:
        found[record.url.removeprefix(site.url)][record.type] = record
    for url in WALLED.keys() - {"/behind"}:
        assert "response" in found[url], "an archive keeps what was sent, each wall in full"
        block = found[url]["metadata"].block.decode()
        assert (f"wall: {walls.get(url)}\r\n" in block) == (url in walls)
        assert "outlink" not in block
    counts = result.report["counts"]
    assert {name: n for name, n in counts.items() if name.startswith("walls/")} == {
        "walls/akamai": 2,
        "walls/anubis": 1,
        "walls/cloudflare": 1,
    }
    assert (counts["crawled"], counts["html_pages"]) == (7, 2)
    assert "Bot walls in the place of pages: 4 (akamai 2, " in result.output
    explained = run("explain", str(tmp_path / "job"), f"{site.url}/as-page")
    assert "Not fetched: a bot wall answered in its place at" in explained
    assert "status 200" in explained
    reported = run("report", str(tmp_path / "job"))
    assert "2 HTML pages kept" in reported
    assert "akamai 2 (on 1 host), anubis 1 (on 1 host), cloudflare 1 (on 1 host)" in reported


def run(*command: str) -> str:
    """The output of a command of `scrapy`."""
    done = python("-m", "scrapy", *command)
    assert done.returncode == 0, done.stderr
    return done.stdout


COPY = b"<p>The same text on two pages.</p><a href=/behind>behind</a>"
ROBOTS = (
    b"License: https://h/license.xml\nUser-agent: *\nDisallow: /private\n"
    b"Content-Usage: train-ai=n\n\nUser-agent: GPTBot\nDisallow: /no-gpt\n"
)
SIGNED = {
    "/unkept": answer(COPY, b"X-Robots-Tag: otherbot: noindex", b"X-Robots-Tag: noarchive, noai"),
    "/kept": answer(COPY),
    "/behind": answer(
        b"<meta name=GPTBot content=noarchive>b", b"Content-Usage: train-ai=\x1b[1mn"
    ),
    "/signed": answer(
        b"<meta name=robots content='noai, noimageai'><meta name=tdm-reservation content=1>",
        b"tdm-policy: https://h/policy",
    ),
    "/no-gpt": answer(b"never asked"),
    "/moved": answer(b"", b"Location: /", b"X-Robots-Tag: noarchive", status=b"302 Found"),
    "/closed": answer(b"", b"X-Robots-Tag: noarchive", status=b"401 Unauthorized"),
    "/paid": answer(
        b"<link rel=license href=/terms.xml><a href=/never>pay</a>",
        b'Link: </terms.xml>; rel="license"; type="application/rsl+xml"',
        status=b"402 Payment Required",
    ),
    "/law": answer(b"law", status=b"451 Unavailable For Legal Reasons"),
}


def test_what_owners_say_is_recorded_and_obeyed(tmp_path: Path) -> None:
    with served(SIGNED) as site:
        site.pages["/robots.txt"] = answer(ROBOTS)
        feed = tmp_path / "pages.jsonl"
        result = crawled(
            tmp_path,
            site,
            spider=("crawl", "broad", "-O", str(feed)),
            OBEY_NOARCHIVE=1,
            ROBOTSTXT_USER_AGENT="webcrawl,GPTBot",
            JOBDIR=tmp_path / "job",
            CRAWL_PROCESSES=2,
        )
    assert_clean(result)
    assert not {"/no-gpt", "/never"} & site.requests.keys()
    assert all(len(site.requests[path]) == 1 for path in ("/behind", "/closed", "/paid", "/law"))
    signals = {
        "/robots.txt": ["License: https://h/license.xml", "Content-Usage: train-ai=n"],
        "/unkept": ["X-Robots-Tag: otherbot: noindex", "X-Robots-Tag: noarchive, noai"],
        "/behind": ["Content-Usage: train-ai=\ufffd[1mn", "meta gptbot: noarchive"],
        "/signed": [
            *("tdm-policy: https://h/policy", "meta robots: noai, noimageai"),
            "meta tdm-reservation: 1",
        ],
        "/moved": ["X-Robots-Tag: noarchive"],
        "/paid": [
            'Link: </terms.xml>; rel="license"; type="application/rsl+xml"',
            "link license: /terms.xml",
        ],
        "/closed": ["X-Robots-Tag: noarchive"],
    }
    unkept = {"/unkept", "/behind", "/moved", "/closed"}

    lines = {line["url"].removeprefix(site.url): line for line in assert_log(result)}
    assert {url: line["signals"] for url, line in lines.items() if "signals" in line} == signals
    assert {
        url for url, line in lines.items() if line.get("status") and "warc" not in line
    } == unkept
    items = {}
    for path in tmp_path.glob("pages*.jsonl"):  # one of each process
        for text in path.read_text().splitlines():
            items[json.loads(text)["url"].removeprefix(site.url)] = json.loads(text)
    assert {url: item["signals"] for url, item in items.items() if item["signals"]} == {
        url: said for url, said in signals.items() if url != "/robots.txt"
    }
    assert {url for url, item in items.items() if item["noarchive"]} == unkept

    found = defaultdict(dict)
    for path in result.warcs:
        assert check(path) == []
        for record in records(path)[2:]:  # behind warcinfo and settings
            found[record.url.removeprefix(site.url)][record.type] = record
    assert {url for url, types in found.items() if "response" not in types} == unkept
    assert not any("revisit" in types for types in found.values()), "/kept is kept whole"
    for url, said in signals.items():
        block = found[url]["metadata"].block.decode()
        assert [
            line[13:] for line in block.splitlines() if line.startswith("ownerSignal: ")
        ] == said
        assert ("notArchived: noarchive" in block) == (url in unkept)
        assert "outlink" not in block
        assert set(found[url]) >= {"request", "metadata"}

    counts = result.report["counts"]
    refused = {name: n for name, n in counts.items() if name.startswith("refused_access/")}
    assert refused == {
        "refused_access/401_unauthorized": 1,
        "refused_access/402_payment_required": 1,
        "refused_access/451_unavailable_for_legal_reasons": 1,
    }
    assert "Refused access: 401 unauthorized = 1, 402 payment required = 1, 451" in result.output
    explained = run("explain", f"{site.url}/no-gpt", "-s", f"JOBDIR={tmp_path / 'job'}")
    assert '"Disallow: /no-gpt" for this URL, read as gptbot.' in explained
