"""distributor: the state of each host, its next step, and the bounded number of active hosts."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.unit.frontier_parts import FOREVER, NOW, POLITE, Parts, parts
from webcrawl.frontier.base import Policy
from webcrawl.frontier.caps import Caps
from webcrawl.frontier.disk.store import Store
from webcrawl.frontier.host import Host, Rules, State
from webcrawl.frontier.lease import Lane, RobotsTask, Step

OPEN = Policy(politeness=POLITE, obey_robots=False)
FOR_ANOTHER = RobotsTask("http://home", "home", "http://a/robots.txt", redirects=1)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store in which hosts can wait."""
    store = Store(tmp_path / "frontier")
    yield store
    store.close()


def popped(made: Parts, lane: Lane = Lane.PAGES) -> Host | None:
    return made.distributor.bench.pop(lane, NOW)


def test_the_steps_of_a_page_come_in_their_order() -> None:
    made = parts(Policy(politeness=POLITE, head_first=True))
    host = made.host("a")
    next_step = made.distributor.next_step
    assert next_step(host, NOW) is None, "without a link there is nothing to do"
    made.put("http://a/")
    assert next_step(host, NOW) is Step.RESOLVE
    made.resolve("a")
    assert next_step(host, NOW) is Step.ROBOTS
    assert host.next_robots_task().url == "http://a/robots.txt"
    host.rules["http://a"] = Rules(FOREVER, allows_all=True)
    assert next_step(host, NOW) is Step.HEAD
    _, link = host.queue.pop()
    host.queue.put_back(replace(link, head_done=True))
    assert next_step(host, NOW) is Step.PAGE
    assert next_step(host, FOREVER) is Step.RESOLVE, "the address has expired"


def test_each_origin_of_a_host_has_its_own_robots_txt() -> None:
    made = parts()
    made.put("http://a/", "https://a/")
    made.commit()
    host = made.resolve("a")
    host.rules["http://a"] = Rules(FOREVER, allows_all=True)
    assert made.distributor.next_step(host, NOW) is Step.PAGE
    host.queue.pop()
    assert made.distributor.next_step(host, NOW) is Step.ROBOTS
    assert made.counters.robots_attempted == 1


def test_a_host_whose_robots_txt_is_elsewhere_is_idle() -> None:
    made = parts()
    made.put("http://a/")
    host = made.resolve("a")
    host.mark_elsewhere("http://a")
    made.distributor.place_host(host, NOW)
    assert host.state is State.IDLE


def test_robots_txt_is_not_asked_for_where_the_ip_cap_is_full() -> None:
    made = parts(caps=Caps(per_ip=1))
    made.put("http://a/")
    host = made.resolve("a", "10.0.0.1")
    made.distributor._state.caps.take_ip("10.0.0.1")
    assert made.distributor.next_step(host, NOW) is Step.PAGE, "to be dropped"
    assert made.counters.robots_attempted == 0


def test_a_host_is_ready_in_one_lane_or_snoozed_on_its_clock() -> None:
    made = parts(OPEN)
    made.put("http://a/")
    host = made.host("a")
    assert host.state is State.READY
    assert (popped(made), popped(made, Lane.ADMISSIONS)) == (None, host)
    made.resolve("a")
    host.next_at = NOW + 5
    made.distributor.place_host(host, NOW)
    assert (host.state, made.distributor.next_at()[Lane.PAGES]) == (State.SNOOZED, NOW + 5)
    made.distributor.wake(NOW + 4.9)
    assert host.state is State.SNOOZED
    made.distributor.wake(NOW + 5)
    assert host.state is State.READY
    assert popped(made) is host


def test_a_leased_host_stays_leased() -> None:
    made = parts(OPEN)
    made.put("http://a/")
    host = made.resolve("a")
    made.distributor.bench.lease(host, with_ip=True)
    made.put("http://a/1")
    made.distributor.place_host(host, NOW)
    assert host.state is State.LEASED


def test_a_host_with_a_task_for_another_host_goes_first() -> None:
    made = parts()
    made.put("http://a/", "http://b/")
    a = made.resolve("a")
    a.add_robots_task(FOR_ANOTHER)
    assert made.distributor.rank(a) == -1 < made.distributor.rank(made.host("b"))


def test_the_hosts_beyond_the_active_ones_wait_best_first(store: Store) -> None:
    made = parts(OPEN, store=store, active_max=1)
    made.put("http://a/1/2", "http://b/1", "http://c/")
    a, b, c = (made.host(name) for name in "abc")
    assert [host.state for host in (a, b, c)] == [State.READY, State.WAITING, State.WAITING]
    made.commit()
    made.distributor.bench.lease(a, with_ip=False)
    made.distributor.wake(NOW)
    assert made.host("c").state is State.WAITING, "a leased host keeps its place"
    made.distributor.bench.idle(a)
    made.distributor.place_host(a, NOW)
    assert a.state is State.WAITING, "a waiting host has a better link"
    made.distributor.wake(NOW)
    assert made.host("c").state is State.READY
    assert made.distributor.bench.active == 1


def test_a_host_in_the_store_is_dropped_from_memory(store: Store) -> None:
    made = parts(OPEN, store=store, active_max=1)
    made.put("http://a/", "http://b/")
    assert made.distributor.has_newly_waiting
    made.commit()
    assert not made.distributor.has_newly_waiting
    assert set(made.distributor.bench.hosts) == {"a"}
    made.put("http://b/1")
    assert made.host("b").queue.length == 2, "as it was"


def test_a_deferred_host_is_woken_only_while_there_is_other_work() -> None:
    made = parts(OPEN)
    made.put("http://a/")
    host = made.resolve("a")
    taken = made.candidates.take(host, NOW)
    assert taken is not None
    made.distributor.bench.lease(host, with_ip=True)
    made.candidates.keep(host, taken[0], "timeout", NOW + 15, NOW)
    assert host.ip is not None
    made.distributor.bench.end_lease(host.ip, NOW)
    made.distributor.bench.idle(host)
    made.distributor.place_host(host, NOW)
    assert (host.state, host.due_at) == (State.DEFERRED, NOW + 15)
    made.commit()
    assert made.distributor.next_at()[Lane.PAGES] == inf, "nothing else is left"
    made.distributor.wake(NOW + 15)
    assert made.host("a").state is State.DEFERRED
    made.put("http://b/")
    made.distributor.wake(NOW + 15)
    assert made.host("a").state is State.READY


def test_a_host_of_an_earlier_run_waits_its_whole_delay(tmp_path: Path) -> None:
    for began_at in (NOW, NOW + 1000):
        store = Store(tmp_path / "frontier", now=began_at)
        made = parts(OPEN, store=store, began_at=began_at)
        if began_at == NOW:
            made.put("http://a/")
            made.resolve("a")
            assert made.host("a").next_at == 0.0
            made.commit()
        else:
            assert made.host("a").next_at == began_at + 10
            made.distributor.resume(began_at)
            assert made.host("a").state is State.SNOOZED
        store.close()
