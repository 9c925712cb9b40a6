"""Every answer of `scrapy explain`, from frontiers in which it is true."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from scrapy.settings import Settings
from scrapy.utils.test import get_crawler

from tests.cases import each_of
from tests.contracts.frontier import FOREVER, Driver
from webcrawl.crawl.crawl import crawl_of
from webcrawl.crawl.keptcommands import Command, Steered
from webcrawl.frontier.base import Policy
from webcrawl.frontier.caps import Caps
from webcrawl.frontier.disk.frontier import FOLDER, LocalFrontier
from webcrawl.frontier.disk.inspection import Inspection
from webcrawl.frontier.lease import (
    REQUISITE,
    Dropped,
    Failed,
    Fetched,
    Link,
    Outcome,
    Resolved,
    RobotsFetched,
    RobotsUnreachable,
    Step,
    Unresolved,
)
from webcrawl.frontier.orderings import ORDERINGS, Level
from webcrawl.frontier.politeness import Politeness
from webcrawl.frontier.revisit import Recrawl
from webcrawl.live.explanation import explained_by_crawl, of_scope
from webcrawl.live.frontierexplanation import explain
from webcrawl.live.livecrawl import LiveCrawl, RefusalError
from webcrawl.parse.jointrules import joint_rules
from webcrawl.parse.robots import RobotsRules

UTC_S = 1_000_000_000.0  # 2001-09-09 01:46:40
AT = "2001-09-09 01:48:20 UTC"  # where a Driver begins
NOW = UTC_S + 100.0
PARENT = "http://seed/page"
IDENTITY = {"FRONTIER_ORDER": "level", "MAX_PAGES_PER_HOST": 2, "MAX_PAGES_PER_IP": 1}

Act = Callable[[Driver], Awaitable[Any]]


def explained(folder: Path, url: str, act: Act, *, now: float = NOW, **made: Any) -> list[str]:
    """The lines on `url` after `act` in a frontier of its own."""
    policy = Policy(politeness=Politeness(10.0, 1.0), **made.pop("policy", {}))
    identity = IDENTITY | made.pop("identity", {})

    async def run() -> None:
        frontier = LocalFrontier(folder, policy, identity=identity, utc_s=UTC_S, **made)
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
WAY = f"Level 2, found 1 hop from a seed, on {PARENT}."
NEXT = "the next of its host, or being fetched now"
NO_LINE = "The robots.txt of http://a has no rule against it."
ADDRESS = "IP address of a: ip of a."


ONE = "http://a/1"
NEVER = "Never queued: not a seed, and no fetched page has a followable link to it"
NO_RETRY = {"policy": {"retry_times": 0}}
NO_ROBOTS_YET = "The robots.txt of http://a is not known yet."
REFUSED = RobotsFetched(RULES, FOREVER, 100.0, 100.0)
LOST, DEAD = RobotsUnreachable("5xx", 100.0, 100.0), Failed("timeout", 110.0, 110.0)


def ended(outcome: Outcome, said: str) -> tuple[str, Act, dict[str, Any], list[str]]:
    """The page has `outcome`, ten seconds after the crawl's beginning."""
    first = said.format("2001-09-09 01:48:30 UTC")
    return ONE, crawl(ONE, **{"a/1": [outcome]}), {}, [first, WAY, NO_LINE, ADDRESS]


def nowhere(reason: str, said: str) -> tuple[str, Act, dict[str, Any], list[str]]:
    """The host has no address."""
    given_up = f"a is given up until 2001-09-09 02:48:20 UTC: {reason}."
    lines = [f"{said}, at {AT}.", WAY, NO_ROBOTS_YET, given_up]
    return ONE, crawl(ONE, a=[Unresolved(reason, again=False)]), {}, lines


# By title: a URL, what befalls it, more of the frontier, and how lines begin, the first one first.
CASES: dict[str, tuple[str, Act, dict[str, Any], list[str]]] = {
    "never queued": ("http://b/", put("http://a/"), {}, [f"{NEVER}."]),
    "beyond the depth": (
        *("http://b/", put("http://a/"), {"identity": {"DEPTH_LIMIT": 3}}),
        [f"{NEVER}, unless beyond DEPTH_LIMIT = 3."],
    ),
    "links are not followed": (
        *("http://b/", put("http://a/"), {"identity": {"FOLLOW_LINKS": False}}),
        ["Never queued: not a seed, and FOLLOW_LINKS is off."],
    ),
    "numbered": (
        *("http://a/?page=502", put("http://a/"), {"identity": {"DEPTH_LIMIT": 900}}),
        [f"{NEVER}, unless beyond DEPTH_LIMIT = 900 or 500 numbered pages in a row (TRAPS)."],
    ),
    "over a cap": (
        *("http://a/2", crawl("http://a/0", ONE, "http://a/2"), {"caps": Caps(per_host=2)}),
        [
            f"Refused by MAX_PAGES_PER_HOST = 2, at {AT}.",
            *("Level 2, found 1 hop from a seed.", NO_LINE, ADDRESS),  # the page is not recorded
        ],
    ),
    "disallowed": (
        *("http://a/private", crawl("http://a/private", **{"robots.txt": [REFUSED]}), {}),
        [
            *("Refused by robots.txt, at 2001-09-09 01:49:20 UTC.", WAY, ADDRESS),
            'The robots.txt of http://a has the rule "Disallow: /priv*e" for this URL.',
        ],
    ),
    "robots.txt is unreachable": (
        *(ONE, crawl(ONE, **{"robots.txt": [LOST]}), NO_RETRY),
        [
            "Kept for a later try: robots.txt could not be fetched. The next try is at 2001-09-09",
            "All URLs of http://a are refused until 2001-09-09 01:48:35 UTC: robots_unreachable.",
        ],
    ),
    "kept and due": (
        *(ONE, crawl(ONE, **{"a/1": [DEAD]}), NO_RETRY | {"now": NOW + 60}),
        ["Kept for a later try: the last try ended with timeout. The next try is due, as soon as"],
    ),
    "its host does not answer": (
        *("http://a/2", crawl(ONE, "http://a/2", **{"a/1": [DEAD]})),
        {"policy": {"failures_max": 1, "retry_times": 0}},
        [
            "Kept for a later try: its host gave no page in 20 tries in a row. The next",
            "a is not asked before 2001-09-09 01:48:45 UTC: host_retired.",
        ],
    ),
    "404": ended(Fetched(404, 110.0, 110.0), "Fetched at {}: status 404."),
    "a failure": ended(
        Failed("tls", 110.0, 110.0), "Not fetched: the last try, at {}, ended with tls."
    ),
    "a middleware": ended(
        Dropped("middleware", 110.0, 110.0), "Refused by a downloader middleware, at {}."
    ),
    "replaced": ended(
        Dropped("replaced"), "Replaced by another request in a downloader middleware, at {}."
    ),
    "unreadable": ended(
        Dropped("unreadable"), "Dropped: the spider's request cannot be read back, at {}."
    ),
    "no name": nowhere("dns", "Dropped: its host has no address"),
    "blocked": nowhere(
        "blocked_address",
        "Dropped: every address of its host is blocked (ALLOW_PRIVATE_ADDRESSES)",
    ),
    "a duplicate": (
        *(ONE, crawl(ONE, **{"a/1": [Fetched(200, 110.0, 110.0, duplicate_of="http://b/first")]})),
        *({}, ["Fetched at", "Duplicate: http://b/first had the same content first."]),
    ),
    "only HEAD": (
        *(ONE, crawl(ONE, **{"a/1": [Fetched(200, 110.0, 110.0, wanted=False)]})),
        *({"policy": {"head_first": True}}, ["Requested with HEAD only at 2001-09-09 01:48:"]),
    ),
    "waiting": (
        *("http://a/x/y", put("http://a/x/y", ONE, depth=2), {}),
        [
            *(
                "Waiting at level 3: behind 1 URL of its host.",
                "Level 3, found 2 hops from a seed.",
            ),
            *(NO_ROBOTS_YET, "a may be asked now."),
        ],
    ),
    "without a place": (
        *("http://h3/", put(*(f"http://h{n}/" for n in range(4))), {"active_max": 1}),
        ["Waiting at", "h3 waits for a place among the active hosts, behind 2 hosts."],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_befell_a_url(tmp_path: Path, case: str) -> None:
    url, act, made, lines = CASES[case]
    said = explained(tmp_path, url, act, **made)
    assert said[0].startswith(lines[0])
    assert [line for line in lines if not any(each.startswith(line) for each in said)] == []


class Shortest(Level):
    """A user's own ordering, by CONTRIBUTING.md: the shortest URL first."""

    first = 0

    def enter(self, link: Link, number: int, cash: float | None) -> int:
        return len(link.url)


@pytest.mark.parametrize("recrawl", [None, Recrawl("fixed", 1_000.0, 0.5)])
def test_the_place_in_an_ordering_that_was_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recrawl: Recrawl | None
) -> None:
    monkeypatch.setitem(ORDERINGS, "shortest", Shortest)
    said = explained(
        *(tmp_path, "http://a/seventeen", put("http://a/seventeen")),
        policy={"recrawl": recrawl},
        identity={"FRONTIER_ORDER": "shortest"},
        ordering=Shortest(),
    )
    assert said[0] == f"Waiting at shortest 18: {NEXT}."


NET, DEEP, REPEATED = "www.a.net/x/x/x", "a.net/a/b" + "/c" * 20, "a.net" + "/a/abc" * 5


@each_of(
    ("settings", "url", "why"),
    [
        ({}, NET, ""),
        ({"SCOPE_DENY": "b.net,re:/x$"}, NET, "SCOPE_DENY has re:/x$"),
        ({"SCOPE_DENY": "elsewhere.org,a.net"}, NET, "SCOPE_DENY has a.net"),
        ({"SCOPE_ALLOW": "b.net"}, NET, "nothing in SCOPE_ALLOW matches it"),
        ({"SCOPE_SUFFIXES": ".br,.pt"}, NET, "its host ends in none of SCOPE_SUFFIXES = .br, .pt"),
        ({"URLLENGTH_LIMIT": 9}, NET, "it is longer than URLLENGTH_LIMIT = 9"),
        ({"SCOPE_RULES": [lambda _, host: "odd"]}, NET, "a rule of SCOPE_RULES refuses it: odd"),
        ({}, "a.net:22/", "port 22 is one of another protocol, and not in ALLOW_PORTS"),
        ({}, DEEP, ""),
        ({}, REPEATED, ""),
        ({"TRAPS": 1}, DEEP, "its path has more segments than a path limit allows (TRAPS)"),
        (
            *({"TRAPS": 1}, REPEATED),
            "its path repeats a segment more often than a path limit allows (TRAPS)",
        ),
    ],
)
def test_out_of_scope(settings: dict[str, Any], url: str, why: str) -> None:
    said = of_scope(Settings(settings), f"http://{url}")
    assert said == ([f"Out of scope: {why}."] if why else [])


def test_out_of_scope_by_the_spider() -> None:
    said = of_scope(Settings(), "http://www.a.net/", domains=["b.net", "www.b.org"])
    expected = "its host is in none of the spider's allowed_domains = b.net, www.b.org"
    assert said == [f"Out of scope: {expected}."]
    allow = Command("2026-01-31T12:00:00Z", "scrapy ctl", "allow", ("a.net",))
    assert of_scope(Settings(), "http://www.a.net/", Steered([allow]), ["b.net"]) == []


def test_out_of_scope_by_a_command() -> None:
    deny = Command("2026-01-31T12:00:00Z", "scrapy ctl", "deny", ("b.net", "a.net"))
    said = of_scope(Settings(), "http://www.a.net/", Steered([deny]))
    assert said == ["Out of scope: scrapy ctl denied a.net at 2026-01-31T12:00:00Z."]


def test_refused_by_robots_for_another_name(tmp_path: Path) -> None:
    text = b"user-agent: *\ndisallow: /priv\n\nuser-agent: gptbot\ndisallow: /"
    for number, (name, url, expected) in enumerate(
        (
            ("gptbot", "http://a/1", '"Disallow: /" for this URL, read as gptbot.'),
            ("ccbot", "http://a/priv", '"Disallow: /priv" for this URL, read as each of x, ccbot.'),
        )
    ):
        rules = RobotsFetched(joint_rules(text, f"x,{name}"), FOREVER, 100.0, 100.0)
        said = explained(
            tmp_path / str(number),
            url,
            crawl(url, **{"robots.txt": [rules]}),
            policy={"agent": f"x,{name}", "also": (name,)},
        )
        assert f"The robots.txt of http://a has the rule {expected}" in said


def test_a_near_duplicate_and_a_link_that_only_it_has(tmp_path: Path) -> None:
    copy = Fetched(200, 110.0, 110.0, near_duplicate_of="http://b/original")
    said, (never,) = (
        explained(tmp_path / url[-1], url, crawl("http://a/1", **{"a/1": [copy]}))
        for url in ("http://a/1", "http://a/x")
    )
    assert said[1].startswith("Near-duplicate: http://b/original had nearly the same text first, ")
    assert never.endswith("to it, or only near-duplicates have one (FOLLOW_NEAR_DUPLICATES).")


def test_a_seed_and_a_redirect(tmp_path: Path) -> None:
    async def act(driver: Driver) -> None:
        await driver.put("http://a/")
        await driver.put("http://a/1", redirects=1, via="http://a/")
        await driver.run()

    assert "Level 1, a seed." in explained(tmp_path / "1", "http://a/", act)
    way = "Level 2, found 0 hops from a seed, as a redirect of http://a/."
    assert way in explained(tmp_path / "2", "http://a/1", act)


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
        "Waiting at level 2: behind 1 URL of its host.",
        WAY,
        'The robots.txt of http://a has the rule "Allow: /open" for this URL.',
        "a is not asked before 2001-09-09 01:49:20 UTC: its robots.txt has Crawl-delay: 60.",
        "IP address of a: ::1.",
    ]


def test_waiting_for_a_retry(tmp_path: Path) -> None:
    async def act(driver: Driver) -> None:
        await driver.put("http://a/1")
        lease = await driver.until(Step.PAGE)
        await driver.give_back(lease, Failed("timeout", driver.now, driver.now))

    said = explained(tmp_path, "http://a/1", act)
    assert said[:3] == [
        f"Waiting at level 2: {NEXT}.",
        "Level 2, a seed.",
        "Tried 1 time so far.",
    ]
    assert said[4].endswith(": the last 1 try got no answer, or a bot wall.")


def test_waiting_for_dns(tmp_path: Path) -> None:
    async def act(driver: Driver) -> None:
        await driver.put("http://a/1")
        lease = await driver.until(Step.RESOLVE)
        await driver.give_back(lease, Unresolved("dns", again=True))

    said = explained(tmp_path, "http://a/1", act)
    assert said[-1].startswith("a is not asked before 2001-09-09 01:48:2")
    assert said[-1].endswith(": DNS did not answer.")


def test_the_frontier_of_a_crawl_does_not_wait_for_scope_and_rules() -> None:
    threads = set()

    def rule(url: str, host: str) -> str:
        threads.add(threading.current_thread().name)
        return "odd"

    async def run() -> list[str]:
        frontier = LocalFrontier(None, identity=IDENTITY, in_memory=True)
        await Driver(frontier).put("http://a/")
        lines = await explained_by_crawl(Settings({"SCOPE_RULES": [rule]}), frontier, "http://a/")
        await frontier.close()
        return lines

    url, scope, *known = asyncio.run(run())
    assert url == "http://a/"
    assert scope == "Out of scope: a rule of SCOPE_RULES refuses it: odd."
    assert known[0].startswith("Waiting at level 1")
    assert threads.isdisjoint({"frontier", threading.main_thread().name})


async def test_a_page_requisite_may_be_out_of_scope() -> None:
    frontier = LocalFrontier(None, identity=IDENTITY, in_memory=True)
    await Driver(frontier).put("http://a/", via=PARENT, sitemap=REQUISITE)
    settings = Settings({"SCOPE_SUFFIXES": ".pt"})
    _, *said = await explained_by_crawl(settings, frontier, "http://a/")
    await frontier.close()
    assert said[0] == "Queued as a page requisite."


async def test_a_setting_that_cannot_be_used_is_one_line_for_the_live_page(tmp_path: Path) -> None:
    crawler = get_crawler(settings_dict={"URLLENGTH_LIMIT": "x"})
    crawl_of(crawler).frontier = frontier = LocalFrontier(tmp_path)
    with pytest.raises(RefusalError, match=r"^URLLENGTH_LIMIT = .x. cannot be used"):
        await LiveCrawl(crawler).explain("http://a.test/")
    await frontier.close()
