"""Every answer of `scrapy explain`, from frontiers in which it is true."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from scrapy.settings import Settings

from tests.contracts.frontier import FOREVER, Driver, link
from webcrawl.commands.explain import of_scope
from webcrawl.frontier.base import Policy
from webcrawl.frontier.caps import Caps
from webcrawl.frontier.disk.explanation import explain
from webcrawl.frontier.disk.frontier import FOLDER, DiskFrontier
from webcrawl.frontier.disk.inspection import Inspection
from webcrawl.frontier.lease import (
    Dropped,
    Failed,
    Fetched,
    Outcome,
    Resolved,
    RobotsFetched,
    RobotsUnreachable,
    Step,
    Unresolved,
)
from webcrawl.frontier.politeness import Politeness
from webcrawl.parse.robots import RobotsRules

UTC_S = 1_000_000_000.0  # 2001-09-09 01:46:40
AT = "2001-09-09 01:48:20 UTC"  # where a Driver begins
NOW = UTC_S + 100.0
PARENT = "http://seed/page"
IDENTITY = {"FRONTIER_ORDER": "level", "MAX_PAGES_PER_HOST": 2, "MAX_PAGES_PER_IP": 1}

Act = Callable[[Driver], Awaitable[Any]]


def explained(folder: Path, url: str, act: Act, *, now: float = NOW, **made: Any) -> list[str]:
    """What is said of `url` after `act` in a frontier of its own."""
    policy = Policy(politeness=Politeness(10.0, 1.0), **made.pop("policy", {}))
    identity = IDENTITY | made.pop("identity", {})

    async def run() -> None:
        frontier = DiskFrontier(folder, policy, identity=identity, utc_s=UTC_S, **made)
        await act(Driver(frontier))
        await frontier.close()

    asyncio.run(run())
    found = Inspection(folder / FOLDER)
    lines = explain(found, url, now)
    found.close()
    return lines


def crawl(*urls: str, **outcomes: list[Outcome]) -> Act:
    """Put `urls`, found on PARENT, and run to the end; `outcomes` by a word in the name asked."""

    async def act(driver: Driver) -> None:
        await driver.put(*urls, depth=1, via=PARENT)
        planned = {
            name: outcome
            for word, outcome in outcomes.items()
            for name in [*urls, "http://a/robots.txt", "a"]
            if name.endswith(word)
        }
        await driver.run(planned)

    return act


def put(*urls: str, **fields: Any) -> Act:
    return lambda driver: driver.put(*urls, **fields)


RULES = RobotsRules.parse(b"user-agent: *\nallow: /open\ndisallow: /priv*e\ncrawl-delay: 60", "x")
WAY = f"It is of level 2, and was found 1 hop from a seed, on {PARENT}."
NEXT = "it is the next one, or is being fetched now"
NO_LINE = "The robots.txt of http://a has no line against it."
ADDRESS = "a is at ip of a."


@pytest.mark.parametrize(
    ("identity", "expected"),
    [
        ({}, "no seed, and no page fetched so far has a link to it that may be followed."),
        ({"DEPTH_LIMIT": 3}, "followed, unless beyond DEPTH_LIMIT = 3."),
        ({"SEQUENCE_LIMIT": 9}, "may be followed."),  # the URL has no number
        ({"FOLLOW_LINKS": False}, "It was never put: it is no seed, and FOLLOW_LINKS is off."),
    ],
)  # fmt: skip
def test_never_put(tmp_path: Path, identity: dict[str, Any], expected: str) -> None:
    (said,) = explained(tmp_path, "http://b/", put("http://a/"), identity=identity)
    assert said.endswith(expected)


def test_a_numbered_url_may_be_beyond_its_sequence(tmp_path: Path) -> None:
    limits = {"DEPTH_LIMIT": 900, "SEQUENCE_LIMIT": 500}
    (said,) = explained(tmp_path, "http://a/?page=502", put("http://a/"), identity=limits)
    assert said.endswith(
        "unless beyond DEPTH_LIMIT = 900 or SEQUENCE_LIMIT = 500 numbered pages in a row."
    )


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, []),
        ({"SCOPE_DENY": "b.net,re:/x$"}, ["SCOPE_DENY has re:/x$"]),
        ({"SCOPE_DENY": "elsewhere.org,a.net"}, ["SCOPE_DENY has a.net"]),
        ({"SCOPE_ALLOW": "b.net"}, ["nothing in SCOPE_ALLOW matches it"]),
        ({"SCOPE_SUFFIXES": ".br,.pt"}, ["its host is not under SCOPE_SUFFIXES = .br, .pt"]),
        ({"URLLENGTH_LIMIT": 9}, ["it is longer than URLLENGTH_LIMIT = 9"]),
        ({"PATH_DEPTH_LIMIT": 1}, ["its path is deeper than PATH_DEPTH_LIMIT = 1"]),
        ({"PATH_REPEAT_LIMIT": 2}, ["its path repeats itself, PATH_REPEAT_LIMIT = 2"]),
        ({"SCOPE_RULES": [lambda url, host: "odd"]}, ["a rule of SCOPE_RULES says odd"]),
    ],
)
def test_out_of_scope(settings: dict[str, Any], expected: list[str]) -> None:
    said = of_scope(Settings(settings), "http://www.a.net/x/x/x")
    assert said == [f"It is out of scope: {why}." for why in expected]


def test_refused_by_a_cap_when_it_was_found(tmp_path: Path) -> None:
    urls = [f"http://a/{n}" for n in range(3)]
    said = explained(tmp_path, urls[2], crawl(*urls), caps=Caps(per_host=2))
    assert said == [
        f"It was refused by MAX_PAGES_PER_HOST = 2, at {AT}.",
        "It is of level 2, and was found 1 hop from a seed.",  # where, is not kept
        NO_LINE,
        ADDRESS,
    ]


def test_refused_by_a_cap_when_its_turn_had_come(tmp_path: Path) -> None:
    said = explained(tmp_path, "http://a/2", crawl("http://a/1", "http://a/2"), caps=Caps(per_ip=1))
    assert said[0].startswith("It was refused by MAX_PAGES_PER_IP = 1, at 2001-09-09 01:48:")
    assert said[1:] == [WAY, NO_LINE, ADDRESS]


def test_refused_by_robots(tmp_path: Path) -> None:
    rules = RobotsFetched(RULES, FOREVER, 100.0, 100.0)
    said = explained(
        tmp_path, "http://a/private", crawl("http://a/private", **{"robots.txt": [rules]})
    )
    assert said == [
        "The robots.txt refused it, at 2001-09-09 01:49:20 UTC.",
        WAY,
        'The robots.txt of http://a has the line "Disallow: /priv*e" for it.',
        ADDRESS,
    ]


def test_refused_since_robots_cannot_be_had(tmp_path: Path) -> None:
    lost: list[Outcome] = [RobotsUnreachable("5xx", 100.0, 100.0)]
    said = explained(
        tmp_path, "http://a/1", crawl("http://a/1", **{"robots.txt": lost}),
        policy={"retry_times": 0},
    )  # fmt: skip
    assert said[0] == (
        "It is kept for a later try, since robots.txt could not be had. The next try is at"
        " 2001-09-09 01:48:35 UTC if the crawl has other work then, else at the beginning of the"
        " next run."
    )
    assert said[2] == (
        "All of http://a is refused until 2001-09-09 01:48:35 UTC: robots_unreachable."
    )


def test_kept_and_due(tmp_path: Path) -> None:
    dead: list[Outcome] = [Failed("timeout", 110.0, 110.0)]
    act = crawl("http://a/1", **{"a/1": dead})
    said = explained(tmp_path, "http://a/1", act, now=NOW + 60, policy={"retry_times": 0})
    assert said[0] == (
        "It is kept for a later try, since the last failed: timeout. The next try is as soon as"
        " there is a place for it."
    )


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (Fetched(404, 110.0, 110.0), "It was fetched: the answer was 404"),
        (Failed("tls", 110.0, 110.0), "It could not be fetched: tls"),
        (Dropped("middleware", 110.0, 110.0), "A downloader middleware refused it"),
        (Dropped("replaced"), "A downloader middleware put another request in its place"),
        (Dropped("unreadable"), "It was dropped, since the request that the spider made"),
    ],
)
def test_ended(tmp_path: Path, outcome: Outcome, expected: str) -> None:
    said = explained(tmp_path, "http://a/1", crawl("http://a/1", **{"a/1": [outcome]}))
    assert said[0].startswith(expected)
    assert said[0].endswith(", at 2001-09-09 01:48:30 UTC.") or ", at the last try." in said[0]
    assert said[1:4] == [WAY, NO_LINE, ADDRESS]


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("dns", "It was dropped, since its host had no address, at "),
        ("blocked_address", "It was dropped, since its host had no address that may be asked, at "),
    ],
)
def test_a_host_without_an_address(tmp_path: Path, reason: str, expected: str) -> None:
    nowhere: list[Outcome] = [Unresolved(reason, again=False)]
    said = explained(tmp_path, "http://a/1", crawl("http://a/1", a=nowhere))
    assert said == [
        f"{expected}{AT}.",
        WAY,
        "The robots.txt of http://a is not known yet.",
        f"a is given up until 2001-09-09 02:48:20 UTC: {reason}.",
    ]


def test_a_host_that_gives_no_answer(tmp_path: Path) -> None:
    dead: list[Outcome] = [Failed("timeout", 110.0, 110.0)]
    said = explained(
        tmp_path, "http://a/2", crawl("http://a/1", "http://a/2", **{"a/1": dead}),
        policy={"failures_max": 1, "retry_times": 0},
    )  # fmt: skip
    assert said[0].startswith("It is kept for a later try, since its host gave no answer to many")
    assert said[-2] == "a is left alone until 2001-09-09 01:48:45 UTC: host_retired."


def test_a_duplicate(tmp_path: Path) -> None:
    copy = Fetched(200, 110.0, 110.0, duplicate_of="http://b/original")
    said = explained(tmp_path, "http://a/1", crawl("http://a/1", **{"a/1": [copy]}))
    assert said[1] == "It is a duplicate: http://b/original had the same content before."


def test_only_head(tmp_path: Path) -> None:
    unwanted = Fetched(200, 110.0, 110.0, wanted=False)
    act = crawl("http://a/1", **{"a/1": [unwanted]})
    said = explained(tmp_path, "http://a/1", act, policy={"head_first": True})
    assert said[0].startswith("It was asked for with HEAD only: the answer was 200, at ")


def test_a_seed_and_a_redirect(tmp_path: Path) -> None:
    async def act(driver: Driver) -> None:
        await driver.put("http://a/")
        await driver.put("http://a/1", redirects=1, via="http://a/")
        await driver.run()

    assert "It is of level 1, and a seed." in explained(tmp_path / "1", "http://a/", act)
    way = "It is of level 2, and was found 0 hops from a seed, as a redirect of http://a/."
    assert way in explained(tmp_path / "2", "http://a/1", act)


def test_waiting_on_a_host_that_nobody_asked_yet(tmp_path: Path) -> None:
    said = explained(tmp_path, "http://a/x/y", put("http://a/x/y", "http://a/1", depth=2))
    assert said == [
        "It waits, at level 3, with 1 URL of its host before it.",
        "It is of level 3, and was found 2 hops from a seed.",
        "The robots.txt of http://a is not known yet.",
        "a may be asked now.",
    ]


def test_waiting_for_the_hosts_clock(tmp_path: Path) -> None:
    async def act(driver: Driver) -> None:
        await driver.put("http://a/1", "http://a/open", depth=1, via=PARENT)
        for _ in range(2):
            for lease in await driver.leases():
                resolve = lease.step is Step.RESOLVE
                outcome: Outcome = RobotsFetched(RULES, FOREVER, 100.0, 100.0)
                await driver.give_back(lease, Resolved(("::1",), FOREVER) if resolve else outcome)

    said = explained(tmp_path, "http://a/open", act)
    assert said == [
        "It waits, at level 2, with 1 URL of its host before it.",
        WAY,
        'The robots.txt of http://a has the line "Allow: /open" for it.',
        "a is not asked before 2001-09-09 01:49:20 UTC: its robots.txt has Crawl-delay: 60.",
        "a is at ::1.",
    ]


def test_waiting_for_a_try_again(tmp_path: Path) -> None:
    async def act(driver: Driver) -> None:
        await driver.put("http://a/1")
        lease = await driver.until(Step.PAGE)
        await driver.give_back(lease, Failed("timeout", driver.now, driver.now))

    said = explained(tmp_path, "http://a/1", act)
    assert said[:3] == [
        f"It waits, at level 2, with 0 URLs of its host before it: {NEXT}.",
        "It is of level 2, and a seed.",
        "It was tried 1 time before.",
    ]
    assert said[4].endswith(": the last 1 try had no answer.")


def test_waiting_for_dns(tmp_path: Path) -> None:
    async def act(driver: Driver) -> None:
        await driver.put("http://a/1")
        lease = await driver.until(Step.RESOLVE)
        await driver.give_back(lease, Unresolved("dns", again=True))

    said = explained(tmp_path, "http://a/1", act)
    assert said[-1].startswith("a is not asked before 2001-09-09 01:48:2")
    assert said[-1].endswith(": DNS did not answer.")


def test_waiting_for_a_place(tmp_path: Path) -> None:
    urls = [f"http://h{n}/" for n in range(4)]
    said = explained(tmp_path, urls[3], put(*urls), active_max=1)
    assert said[-1] == "h3 waits for a place among the active hosts, behind 2 hosts."


def test_put_again(tmp_path: Path) -> None:
    async def act(driver: Driver) -> None:
        await driver.put("http://a/1")
        await driver.run()
        await driver.frontier.put([link("http://a/1")], driver.now, force=True)

    said = explained(tmp_path, "http://a/1", act)
    assert said[0].startswith("It waits, at level 2")
    assert any(line.startswith("It was fetched: the answer was 200") for line in said)
