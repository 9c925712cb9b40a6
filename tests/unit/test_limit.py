"""Which stage limits a crawl, and what is said about it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.cases import each_of
from webcrawl.live.limit import Load, limited_by
from webcrawl.settings import __dict__ as settings

# A crawl of 1,000 hosts in which nothing is at its limit.
RUNNING = Load(
    state="running",
    outage_s=0.0,
    queued=5_000,
    kept=3,
    is_short=False,
    hosts={"ready": 5, "leased": 100, "snoozed": 30, "parked": 50, "waiting": 0, "idle": 50},
    under_way={"dns": 5, "robots": 5, "page": 90, "archive": 1},
    requests_max=512,
    active_max=20_000,
    busy={"main": 0.5},
    waited={},
    processors=4,
    delay_s=30.0,
    ip_delay_s=1.0,
)


def hosts(**counts: int) -> dict[str, Any]:
    return {"hosts": counts}


CASES: dict[str, tuple[dict[str, Any], str, str]] = {
    "nothing": (hosts(ready=5, snoozed=0), "none", "Nothing is at its limit"),
    "closing": ({"state": "closing"}, "closing", "100 requests are under way"),
    "one left": ({"state": "closing", "under_way": {"page": 1}}, "closing", "1 request is under"),
    "paused": ({"state": "paused"}, "paused", "until it is resumed"),
    "outage": ({"state": "outage", "outage_s": 12.3}, "outage", "out for 12 s"),
    "target": ({"is_short": True}, "target", "The crawl ends with the answers"),
    "no URL": (
        {"queued": 0, "kept": 0, "under_way": {"page": 1}} | hosts(leased=1, idle=50),
        "seeds",
        "No URL is queued",
    ),
    "kept URLs only": (
        {"queued": 3, "under_way": {}} | hosts(idle=50, deferred=3),
        "seeds",
        "Only 3 URLs are queued, kept for a later try after a failure. To go faster, add",
    ),
    "first pages wait after robots.txt": (
        {"queued": 0, "kept": 0, "under_way": {"robots": 1}} | hosts(snoozed=52, leased=1, idle=4),
        "politeness",
        "52 hosts wait for their delay",
    ),
    "one process": (
        {"busy": {"main": 0.97}},
        "cpu",
        "of the time. To go faster, raise CRAWL_PROCESSES (now 1).",
    ),
    "the worker": ({"busy": {"main": 0.2, "process 2": 0.9}}, "cpu", "Process 2 is busy for 90%"),
    "the owner": ({"busy": {"main": 0.9, "process 2": 0.5}}, "cpu", "The first process is busy"),
    "all processors": ({"busy": {"main": 1.0}, "processors": 1}, "cpu", "(this one has 1)."),
    "other work": (
        {"busy": {"main": 0.9}, "waited": {"main": 0.6}},
        "cpu",
        "The process waits for a processor for 60% of the time. To go faster, stop other work",
    ),
    "archive": ({"under_way": {"page": 90, "archive": 60}}, "archive", "60 of 90 pages wait"),
    "requests": (
        {"under_way": {"page": 512}},
        "page",
        "All 512 page requests that CONCURRENT_REQUESTS allows",
    ),
    "look-ups": (
        {"under_way": {"dns": 500, "robots": 12}},
        "dns",
        "look-ups in DNS. To go faster, raise it, or",
    ),
    "robots.txt": (
        {"under_way": {"robots": 512}},
        "robots",
        "that CONCURRENT_REQUESTS allows beside pages are under way, most of them for robots.txt.",
    ),
    "places": (
        hosts(snoozed=20_000, waiting=70_000),
        "places",
        "70,000 hosts wait for a place among the active hosts. To go faster, raise FRONTIER_ACT",
    ),
    "addresses": (hosts(parked=80, snoozed=9, leased=1), "address", "80 hosts wait for their IP"),
    "delays": (
        hosts(snoozed=3_456, leased=7),
        "politeness",
        "3,456 hosts wait for their delay (DOWNLOAD_DELAY = 30 s",
    ),
    "servers": (hosts(leased=40, snoozed=3), "servers", "40 hosts have their one request"),
    "one server": (hosts(leased=1), "servers", "1 host has its one request under way"),
    "servers, and few ready": (hosts(leased=712, ready=200), "servers", "712 hosts have their"),
    "ready hosts that are not leased": (
        hosts(leased=712, ready=673),
        "leases",
        "the process does not lease them fast enough. The process is busy for 50% of the time. To",
    ),
    "ready hosts and several processes": (
        {"busy": {"main": 0.6, "process 2": 0.5}} | hosts(leased=10, ready=50, snoozed=300),
        "leases",
        "the processes do not lease them fast enough. The first process is busy for 60%",
    ),
    "ready hosts without processor times": (
        {"busy": {}} | hosts(leased=10, ready=50),
        "leases",
        "lease them fast enough. To go faster, raise CRAWL_PROCESSES",
    ),
    "unknown hosts": (hosts(), "none", "Nothing"),
}


@each_of("case", CASES)
def test_the_limit_is_named(case: str) -> None:
    changes, stage, text = CASES[case]
    limit = limited_by(replace(RUNNING, **changes))
    assert limit.stage == stage
    assert text in limit.text
    assert limit.text.endswith(".")
    assert "\n" not in limit.text


def test_each_setting_that_is_named_exists() -> None:
    texts = [limited_by(replace(RUNNING, **changes)).text for changes, _, _ in CASES.values()]
    named = {word.strip(".,():") for text in texts for word in text.split() if "_" in word}
    assert {"CONCURRENT_REQUESTS", "DOWNLOAD_DELAY", "IP_DELAY", "CRAWL_PROCESSES"} <= named
    assert named <= settings.keys()


def test_a_cause_comes_before_its_effect() -> None:
    """A busy process answers late, so that its requests are all in use."""
    load = replace(RUNNING, busy={"main": 1.0}, under_way={"page": 512, "archive": 400})
    assert limited_by(load).stage == "cpu"
    assert limited_by(replace(load, busy={})).stage == "archive"
    assert limited_by(replace(load, busy={}, under_way={"page": 512})).stage == "page"
