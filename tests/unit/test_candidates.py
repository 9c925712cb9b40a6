"""candidates: which links are queued, dropped or kept, and how each is counted once."""

from __future__ import annotations

import gc

from msgspec.structs import replace

from tests.unit.frontier_parts import FOREVER, NOW, POLITE, Parts, link, parts
from webcrawl.frontier.base import Policy
from webcrawl.frontier.candidates import FAILURES_MAX
from webcrawl.frontier.caps import Caps
from webcrawl.frontier.host import Rules
from webcrawl.parse.robots import RobotsRules

OPEN = Policy(politeness=POLITE, obey_robots=False)


def funnel(made: Parts) -> tuple[int, int, int, int]:
    counters = made.counters
    return (
        counters.extracted,
        counters.host_passed,
        counters.ip_passed,
        counters.robots_passed,
    )


def test_the_garbage_collector_does_not_walk_links() -> None:
    assert not gc.is_tracked(link("http://a/")), "a page may have 750,000: that would take 0.1 s"


def test_a_known_url_is_put_once_unless_forced() -> None:
    made = parts()
    assert made.put("http://a/", "http://a/", "http://a/1") == 2
    assert made.put("http://a/") == 0
    assert made.candidates.put([link("http://a/")], NOW, force=True) == 1
    assert made.counters.pending == made.backlog.queued == 3


def test_a_link_beyond_a_limit_is_dropped_and_its_url_is_not_seen() -> None:
    made = parts(Policy(politeness=POLITE, depth_max=2))
    assert made.put("http://a/", depth=3) == 0
    assert made.counters.dropped == {"depth": 1}
    assert made.put("http://a/", depth=2) == 1, "by another way it comes in"


def test_a_link_over_a_cap_is_extracted_but_never_queued() -> None:
    made = parts(caps=Caps(per_host=1))
    assert made.put("http://a/", "http://a/1", "http://a/2") == 1
    assert made.counters.dropped == {"host_cap": 2}
    assert funnel(made) == (2, 0, 0, 0)
    assert made.counters.pending == 1


def test_an_ip_slot_is_taken_once_and_the_funnel_counts_it_at_the_links_turn() -> None:
    made = parts(OPEN, Caps(per_ip=2))
    made.put("http://a/", "http://a/1")
    made.commit()
    host = made.resolve("a")
    made.candidates.take_ip_slot(host)
    made.candidates.take_ip_slot(host)
    assert funnel(made) == (0, 0, 0, 0)
    assert made.candidates.take(host, NOW) == (replace(link("http://a/"), is_counted=True), "")
    host.queue.drop()
    assert made.candidates.take(host, NOW) is not None, "the cap has room for both"
    assert funnel(made) == (2, 2, 2, 2)


def test_a_link_that_is_put_back_or_retried_is_not_counted_again() -> None:
    made = parts(OPEN)
    made.put("http://a/")
    host = made.resolve("a")
    for retry in (made.candidates.put_back, made.candidates.put_again):
        taken = made.candidates.take(host, NOW)
        assert taken is not None
        retry(host, taken[0], NOW)
        assert made.counters.pending == made.backlog.queued == 1
    assert made.candidates.take(host, NOW) is not None
    assert funnel(made) == (1, 1, 1, 1)
    assert made.counters.pending == made.backlog.queued == 0


def test_the_ip_cap_and_robots_txt_drop_for_good() -> None:
    made = parts(caps=Caps(per_ip=1))
    made.put("http://a/yes", "http://a/no", "http://b/")
    made.commit()
    a, b = made.resolve("a", "10.0.0.1"), made.resolve("b", "10.0.0.1")
    rules = RobotsRules.parse(b"User-agent: *\nDisallow: /yes", "webcrawl")
    made.store.keep_rules("http://a", rules)
    a.rules["http://a"] = Rules(FOREVER)
    assert made.candidates.take(a, NOW) is None
    assert made.candidates.take(b, NOW) is None
    assert made.counters.dropped == {"robots": 1, "ip_cap": 1}
    assert not made.candidates.keep_refused(NOW), "no link is kept"
    assert made.backlog.queued == 1


def test_a_refused_request_of_a_users_is_returned_with_the_reason() -> None:
    made = parts(Policy(politeness=POLITE), Caps(per_ip=1))
    made.put("http://a/", "http://a/1", payload=b"request")
    made.commit()
    host = made.resolve("a")
    host.rules["http://a"] = Rules(FOREVER, allows_all=True)
    reasons = [made.candidates.take(host, NOW) for _ in range(2)]
    assert [taken and taken[1] for taken in reasons] == ["", "ip_cap"]
    assert made.counters.dropped == {}, "its errback is called first"


def test_an_unreachable_robots_txt_keeps_the_link_for_a_later_try() -> None:
    made = parts()
    made.put("http://a/")
    host = made.resolve("a")
    host.rules["http://a"] = Rules(NOW + 15, reason="robots_unreachable")
    assert made.candidates.take(host, NOW) is None
    assert made.candidates.keep_refused(NOW)
    assert made.counters.kept == {"robots_unreachable": 1}
    assert made.counters.dropped == {}
    assert made.backlog.fresh == 0, "the crawl does not go on for it"
    assert made.backlog.due_at(host) == NOW + 15
    assert made.candidates.failed_seeds == [("http://a/", "robots_unreachable")]

    host.rules["http://a"] = Rules(FOREVER, allows_all=True)
    taken = made.candidates.take(host, NOW + 15)
    assert taken is not None
    assert funnel(made) == (1, 1, 1, 1), "each test is counted once"


def test_a_retired_host_drops_its_links_and_a_deferred_one_keeps_them() -> None:
    made = parts(OPEN)
    made.put("http://a/", "http://b/")
    a, b = made.host("a"), made.resolve("b")
    made.disposition.retire(a, "dns", NOW)
    made.disposition.defer(b, "host_retired", NOW)
    assert made.candidates.take(a, NOW) is None
    assert made.candidates.take(b, NOW) is None
    assert made.candidates.keep_refused(NOW)
    assert made.counters.dropped == {"dns": 1}
    assert made.counters.kept == {"host_retired": 1}
    assert funnel(made) == (2, 2, 0, 0)
    assert not b.queue.peek().is_counted, "its address was not tested"


def test_ten_failed_seeds_are_remembered_and_no_other_link() -> None:
    made = parts(OPEN)
    made.put("http://a/far", depth=1)
    made.put(*(f"http://a/{n}" for n in range(FAILURES_MAX + 1)))
    made.commit()
    host = made.host("a")
    made.disposition.retire(host, "dns", NOW)
    while host.queue.length:
        made.candidates.take(host, NOW)
    assert made.counters.dropped == {"dns": FAILURES_MAX + 2}
    assert made.candidates.failed_seeds == [(f"http://a/{n}", "dns") for n in range(FAILURES_MAX)]
