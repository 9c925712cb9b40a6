"""disposition: what each outcome does to the clocks, addresses, rules and retirement of a host."""

from __future__ import annotations

import pytest

from tests.unit.frontier_parts import NOW, POLITE, Parts, parts
from webcrawl.frontier.base import Policy
from webcrawl.frontier.host import Host
from webcrawl.frontier.lease import (
    Failed,
    Fetched,
    Outcome,
    RobotsTask,
    RobotsUnreachable,
    Unresolved,
)

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


# Failures


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
