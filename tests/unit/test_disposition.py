"""disposition: what each outcome does to the clocks, addresses, rules and retirement of a host."""

from __future__ import annotations

import pytest

from tests.unit.frontier_parts import FOREVER, NOW, POLITE, Parts, parts
from webcrawl.frontier.base import Policy
from webcrawl.frontier.caps import Caps
from webcrawl.frontier.host import Host, State
from webcrawl.frontier.lease import (
    Failed,
    Fetched,
    Outcome,
    RobotsFetched,
    RobotsMoved,
    RobotsTask,
    RobotsUnreachable,
    Unresolved,
)
from webcrawl.parse.robots import ALLOW_ALL, RobotsRules

TASK = RobotsTask("http://a", "a", "http://a/robots.txt")
NO_ANSWER = RobotsUnreachable("timeout", NOW, NOW)


def leased(made: Parts) -> Host:
    """Host a, with a lease."""
    host = made.resolve("a")
    made.distributor.bench.lease(host, with_ip=True)
    return host


@pytest.mark.parametrize(
    ("outcome", "next_at"),
    [
        (Fetched(200, NOW + 3, NOW + 5), NOW + 13),
        (Fetched(200, NOW + 3, NOW + 50), NOW + 50),
        (Failed("connect", 0.0, NOW + 5), NOW + 5),
    ],
    ids=["from the first byte", "never before the end", "no request reached the server"],
)
def test_both_clocks_are_set_from_the_answer(outcome: Outcome, next_at: float) -> None:
    made = parts()
    host = leased(made)
    made.disposition.set_clocks(host, outcome)
    assert host.next_at == next_at
    assert host.ip is not None
    assert not host.ip.leased
    assert host.ip.next_at == min(next_at, max(outcome.ended_at, NOW + 4))


def test_a_crawl_delay_holds_from_the_robots_txt_request_on() -> None:
    made = parts()
    host = leased(made)
    rules = RobotsRules.parse(b"User-agent: *\nCrawl-delay: 40", "webcrawl")
    fetched = RobotsFetched(rules, FOREVER, NOW, NOW)
    made.disposition.set_clocks(host, fetched)
    made.disposition.robots_fetched(TASK, fetched, NOW)
    assert host.next_at == NOW + 40


def test_an_answer_ends_the_failures_of_a_host() -> None:
    made = parts()
    host = leased(made)
    host.failures, host.dead_addresses = 3, 1
    made.disposition.set_clocks(host, Fetched(404, NOW, NOW))
    assert (host.failures, host.dead_addresses) == (0, 0)


def test_bot_walls_in_a_row_wait_longer_and_then_defer_the_host() -> None:
    made = parts(Policy(politeness=POLITE, failures_max=3))
    waits = []
    for _ in range(3):
        host = leased(made)
        wall = Fetched(200, NOW, NOW, wall="cloudflare")
        made.disposition.set_clocks(host, wall)
        made.disposition.walled(host, NOW, 0.0, NOW)
        waits.append(host.next_at - NOW)
    assert waits == [10, 20, 40]
    assert (host.retired_reason, host.deferrals) == ("host_retired", 1)
    host = leased(made)
    made.disposition.set_clocks(host, Fetched(200, NOW, NOW))
    assert (host.failures, host.deferrals) == (0, 0)


# DNS


def test_a_host_is_counted_as_resolved_once_and_bound_to_its_first_address() -> None:
    made = parts()
    made.resolve("a", "10.0.0.1", "10.0.0.2")
    host = made.resolve("a", "10.0.0.3")
    assert made.counters.resolved == 1
    assert host.ip is not None
    assert host.ip.address == "10.0.0.3"


def test_a_look_up_that_may_work_later_is_retried_then_the_host_is_deferred() -> None:
    made = parts(Policy(politeness=POLITE, retry_times=2))
    host = made.host("a")
    waits = []
    for _ in range(2):
        made.disposition.unresolved(host, Unresolved("dns", again=True), NOW)
        waits.append(host.resolve_at - NOW)
    assert waits == [1.0, 2.0]
    assert host.retired_until == 0.0
    for until in (15, 60, 240):  # one look-up each
        made.disposition.unresolved(host, Unresolved("dns", again=True), NOW)
        assert (host.retired_reason, host.retired_until) == ("dns", NOW + until)
    assert host.deferrals == 3
    assert made.counters.retried == {"dns": 2}


def test_a_definite_answer_retires_the_host_at_once() -> None:
    made = parts()
    host = made.host("a")
    made.disposition.unresolved(host, Unresolved("blocked_address", again=False), NOW)
    assert (host.retired_reason, host.deferrals) == ("blocked_address", 0)
    assert host.retired_until == NOW + Policy().retired_s


def test_an_old_address_holds_while_a_new_one_cannot_be_had() -> None:
    made = parts(Policy(politeness=POLITE, retry_times=0))
    host = made.resolve("a", "10.0.0.1")
    made.disposition.unresolved(host, Unresolved("dns", again=True), NOW)
    assert host.addresses == ("10.0.0.1",)
    assert host.resolved_until == NOW + Policy().stale_s
    assert host.retired_until == 0.0


# robots.txt


def test_a_robots_txt_is_retried_then_all_is_refused_for_longer_each_time() -> None:
    made = parts(Policy(politeness=POLITE, retry_times=1))
    host = made.resolve("a")
    made.disposition.robots_unreachable(host, TASK, NO_ANSWER, NOW)
    assert host.robots_tasks is not None
    again = host.next_robots_task()
    assert again == TASK._replace(tries=1)
    assert host.next_at > NOW
    for until in (15, 60):
        made.disposition.robots_unreachable(host, again, NO_ANSWER, NOW)
        rules = host.rules["http://a"]
        assert (rules.reason, rules.expires_at) == ("robots_unreachable", NOW + until)
    assert made.counters.robots == {"timeout": 2}


def test_old_rules_hold_while_new_ones_cannot_be_had() -> None:
    made = parts(Policy(politeness=POLITE, retry_times=0))
    host = leased(made)
    made.disposition.robots_fetched(TASK, RobotsFetched(ALLOW_ALL, NOW, NOW, NOW), NOW)
    made.disposition.robots_unreachable(host, TASK, NO_ANSWER, NOW)
    rules = host.rules["http://a"]
    assert (rules.reason, rules.allows_all) == ("", True)
    assert rules.expires_at == NOW + Policy().stale_s


def test_a_redirect_gives_the_task_to_the_host_it_leads_to() -> None:
    made = parts()
    made.disposition.robots_moved(TASK, RobotsMoved("http://b/r", "b", NOW, NOW), NOW)
    home, target = made.host("a"), made.host("b")
    assert home.robots_elsewhere == {"http://a"}
    assert target.next_robots_task() == TASK._replace(url="http://b/r", redirects=1)
    made.disposition.robots_moved(TASK, RobotsMoved("http://a/r", "a", NOW, NOW), NOW)
    assert not home.robots_elsewhere
    assert home.next_robots_task().url == "http://a/r"


def test_the_tasks_of_a_host_that_is_retired_fail_for_their_homes() -> None:
    made = parts()
    made.put("http://a/")
    home, target = made.resolve("a"), made.resolve("b")
    made.disposition.robots_moved(TASK, RobotsMoved("http://b/r", "b", NOW, NOW), NOW)
    made.disposition.defer(target, "host_retired", NOW)
    assert target.robots_tasks is None
    assert not home.robots_elsewhere
    assert home.rules["http://a"].reason == "robots_unreachable"
    assert home.state is State.READY, "its links need not wait for the robots.txt any more"


# Failures


def test_a_host_is_deferred_after_too_many_failures_in_a_row() -> None:
    made = parts(Policy(politeness=POLITE, failures_max=3))
    host = made.host("a")
    for _ in range(2):
        made.disposition.failed(host, NOW)
    assert host.retired_until == 0.0
    made.disposition.failed(host, NOW)
    assert (host.retired_reason, host.deferrals) == ("host_retired", 1)
    made.disposition.failed(host, NOW)
    assert host.deferrals == 2, "then each failure counts"


def test_each_other_address_is_tried_once_without_a_retry() -> None:
    made = parts(caps=Caps(per_ip=1))
    host = made.resolve("a", "10.0.0.1", "10.0.0.2", "10.0.0.3")
    made.disposition._state.caps.take_ip("10.0.0.2")
    assert made.disposition.try_next_address(host, "connect")
    assert host.addresses[0] == "10.0.0.3", "the IP cap refuses the second address"
    assert not made.disposition.try_next_address(host, "connect")


@pytest.mark.parametrize(
    ("tries", "retry_after_s", "wait_s"),
    [(1, 0, 10), (2, 0, 20), (9, 0, 300), (1, 60, 60), (1, 999, 120)],
)
def test_a_back_off_doubles_and_a_retry_after_counts_up_to_its_limit(
    tries: int, retry_after_s: float, wait_s: float
) -> None:
    made = parts()
    host = made.host("a")
    made.disposition.back_off(host, tries, NOW, retry_after_s)
    assert host.next_at == NOW + wait_s
