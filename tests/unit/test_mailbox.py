"""mailbox: numbered mail between hubs, in the commits of the state that it belongs to."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from tests.contracts.frontier import FOREVER, POLITE, link
from tests.mailing import receive, unsent
from webcrawl.frontier.base import Policy
from webcrawl.frontier.core import CrawlState
from webcrawl.frontier.disk import rowline, rows
from webcrawl.frontier.disk.store import Store
from webcrawl.frontier.lease import (
    Fetched,
    Lane,
    Lease,
    Resolved,
    RobotsFetched,
    RobotsMoved,
    RobotsUnreachable,
    Step,
)
from webcrawl.frontier.mailbox import (
    JUMP,
    ROW_BYTES_MAX,
    ROW_MAX,
    RULES_BYTES_MAX,
    FoundLink,
    Mail,
    RobotsAsked,
    RobotsFailed,
    answered,
    decode_all,
)
from webcrawl.frontier.orderings import Opic, Ordering
from webcrawl.frontier.state import Given
from webcrawl.parse.robots import ALLOW_ALL, RobotsRules

NOW = 100.0
OPEN = Policy(politeness=POLITE, obey_robots=False)
STRICT = Policy(politeness=POLITE)


class ByLetter:
    """A host `b.example` or `www.b.example` is of hub 1, `c.example` of hub 2 and so on."""

    def __init__(self, own: int) -> None:
        self.own = own

    def __call__(self, host: str) -> int | None:
        hub = "abc".index(host.split(".")[-2])
        return None if hub == self.own else hub


def hub(
    own: int = 0,
    policy: Policy = OPEN,
    ordering: Ordering | None = None,
    store: Store | None = None,
) -> CrawlState:
    given: Given = {"ordering": ordering, "now": NOW, "utc_s": -NOW, "partition": ByLetter(own)}
    return CrawlState(store or Store(None), policy, **given)


def ends_of_rows(store: Store) -> list[int]:
    """The number of the last mail of each row for hub 1."""
    return [rows.mail_number(key) for key, _ in store.mail_line(1).rows(rows.MAIL)]


def lease_of(state: CrawlState, step: Step, now: float = NOW) -> Lease:
    """The next lease, after the look-up of its host."""
    lane = Lane.PAGES if step is Step.PAGE else Lane.ADMISSIONS
    for _ in range(3):
        for lease in state.acquire(now, 1, lane) or state.acquire(now, 1, Lane.ADMISSIONS):
            if lease.step is step:
                return lease
            assert lease.step is Step.RESOLVE
            state.release([(lease, Resolved((f"ip of {lease.host}",), FOREVER))], now)
    raise AssertionError(f"no {step}")


def urls(mail: list[Mail]) -> list[str]:
    return [each.link.url for each in mail if isinstance(each, FoundLink)]


# Links


def test_a_foreign_link_is_mail_and_is_neither_seen_nor_counted_here() -> None:
    a = hub()
    links = [link(f"http://{host}.example/") for host in "aba"] + [link("http://c.example/")]
    assert a.put(links, NOW) == 3
    assert a.outbox == {1: (1, 1), 2: (1, 1)}
    assert unsent(a, 1, 0, 9) == [FoundLink(link("http://b.example/"))]
    assert a.counters.pending == a.counters.levels["found/1"] == 1
    assert a.put([link("http://b.example/")], NOW) == 1, "it may be known there; here it is not"
    assert a.outbox[1] == (1, 2)


def test_mail_is_applied_once_and_in_order() -> None:
    a, b = hub(), hub(1)
    a.put([link(f"http://b.example/{n}") for n in range(4)], NOW)
    mail = unsent(a, 1, 0, 9)
    assert receive(b, 0, 1, mail[:2], NOW) == 2
    assert receive(b, 0, 1, mail[:2], NOW) == 2
    assert receive(b, 0, 2, mail[1:], NOW) == 4
    assert b.inbox == {0: 4}
    assert b.counters.pending == b.counters.levels["found/2"] == 4
    assert receive(b, 2, 1, mail[:1], NOW) == 1, "each sender has its own numbers"
    assert b.counters.pending == 4, "the URL is known"
    assert receive(b, 3, 9, mail[:1], NOW) == 9, "what was before it is lost"
    b.receive_each([(3, 20, [])], NOW)
    assert b.inbox[3] == 20, "none of it could be read"


def test_a_link_that_is_refused_here_is_no_mail() -> None:
    a = hub(policy=Policy(politeness=POLITE, depth_max=2))
    a.put([link("http://b.example/", depth=3)], NOW)
    assert a.outbox == {}
    assert a.counters.dropped == {"depth": 1}


def test_force_travels() -> None:
    a, b = hub(), hub(1)
    b.put([link("http://b.example/")], NOW)
    a.put([link("http://b.example/")], NOW, force=True)
    receive(b, 0, 1, unsent(a, 1, 0, 9), NOW)
    assert b.counters.pending == 2


def test_cash_goes_with_its_links() -> None:
    a, b = hub(ordering=(opic := Opic())), hub(1, ordering=(other := Opic()))
    a.put([link("http://a.example/")], NOW)
    page = lease_of(a, Step.PAGE)
    found = tuple(link(f"http://b.example/{n}", depth=1) for n in range(3))
    a.release([(page, Fetched(200, NOW, NOW, found))], NOW)
    carry(a, 0, b, 1)
    carry(a, 0, b, 1)
    assert other._made == opic._sent == pytest.approx(0.9)
    for each in (opic, other):
        each.audit()


def test_a_users_request_for_a_foreign_host_is_dropped() -> None:
    a = hub()
    assert a.put([link("http://b.example/", payload=b"a Request")], NOW) == 0
    assert a.outbox == {}
    assert a.counters.dropped == {"foreign_request": 1}


def test_mail_for_a_host_of_a_third_hub_is_sent_on() -> None:
    b = hub(1)
    receive(b, 0, 1, [FoundLink(link("http://c.example/"))], NOW)
    assert urls(unsent(b, 2, 0, 9)) == ["http://c.example/"]


# robots.txt


def moved(
    from_hub: int = 0, to: str = "http://b.example/robots", policy: Policy = STRICT
) -> CrawlState:
    """A hub with a page, whose host has moved its robots.txt."""
    a = hub(from_hub, policy)
    host = "abc"[from_hub]
    a.put([link(f"http://{host}.example/page")], NOW)
    lease = lease_of(a, Step.ROBOTS)
    a.release([(lease, RobotsMoved(to, to.split("/")[2], NOW, NOW))], NOW)
    return a


def carry(sender: CrawlState, own: int, receiver: CrawlState, to: int, now: float = NOW) -> None:
    """Deliver all mail from hub `own` to hub `to`."""
    done = receiver.inbox.get(own, 0)
    receive(receiver, own, done + 1, unsent(sender, to, done, 99), now)
    sender.sent(to, receiver.inbox.get(own, 0))


def test_a_robots_txt_that_has_moved_to_a_foreign_host_is_fetched_there() -> None:
    a, b = moved(), hub(1, STRICT)
    assert a.acquire(NOW + 50, 9, Lane.ADMISSIONS) == []
    assert not a.is_finished()
    carry(a, 0, b, 1)
    assert not b.is_finished(), "the other hub waits for it"
    lease = lease_of(b, Step.ROBOTS)
    assert (lease.host, lease.url) == ("b.example", "http://b.example/robots")
    assert lease.robots_task is not None
    assert lease.robots_task.redirects == 1
    rules = RobotsRules.parse(b"user-agent: *\ndisallow: /page\ncrawl-delay: 20", "x")
    b.release([(lease, RobotsFetched(rules, NOW + 500, NOW, NOW))], NOW)
    assert b.is_finished()
    assert b.counters.robots == {}, "it is counted at its home"
    carry(b, 1, a, 0, NOW + 1000)  # its clock is another one
    assert a.acquire(NOW + 1100, 9) == []
    assert a.counters.robots == {"2xx": 1}
    assert a.counters.dropped == {"robots": 1}
    a.put([link("http://a.example/")], NOW + 1100)
    [page] = a.acquire(NOW + 1100, 9)
    a.release([(page, Fetched(200, NOW + 1100, NOW + 1100))], NOW + 1100)
    a.put([link("http://a.example/2")], NOW + 1100)
    assert a.acquire(NOW + 1119, 9) == [], "the Crawl-delay has arrived too"
    [page] = a.acquire(NOW + 1121, 9)
    a.release([(page, Fetched(200, NOW + 1121, NOW + 1121))], NOW + 1121)
    a.put([link("http://a.example/3")], NOW + 1150)
    assert a.acquire(NOW + 1501, 9) == [], "they hold as long as at the other hub"
    assert lease_of(a, Step.ROBOTS, NOW + 1501).url == "http://a.example/robots.txt"


def test_rules_that_have_travelled_are_for_the_name_of_the_crawl() -> None:
    named = replace(STRICT, agent="mybot")
    a, b = moved(policy=named), hub(1, named)
    carry(a, 0, b, 1)
    b.release([(lease_of(b, Step.ROBOTS), RobotsFetched(ALLOW_ALL, FOREVER, NOW, NOW))], NOW)
    carry(b, 1, a, 0)
    assert [each.url for each in a.acquire(NOW + 50, 9)] == ["http://a.example/page"]


def test_a_moved_robots_txt_without_an_answer_is_tried_again_from_its_home() -> None:
    a, b = moved(), hub(1, STRICT)
    now = NOW
    for tries in (1, 2):
        carry(a, 0, b, 1, now)
        failed = RobotsUnreachable("5xx", now, now)
        b.release([(lease_of(b, Step.ROBOTS, now), failed)], now)
        carry(b, 1, a, 0, now)
        assert a.counters.retried == {"robots": tries}
        now += 1000
        lease = lease_of(a, Step.ROBOTS, now)
        assert lease.url == "http://a.example/robots.txt"
        again = RobotsMoved("http://b.example/robots", "b.example", now, now)
        a.release([(lease, again)], now)
        now += 1000
    carry(a, 0, b, 1, now)
    b.release([(lease_of(b, Step.ROBOTS, now), RobotsUnreachable("5xx", now, now))], now)
    carry(b, 1, a, 0, now)
    assert a.counters.robots == {"5xx": 1}
    assert a.acquire(now + 1, 9) == []
    assert a.counters.kept == {"robots_unreachable": 1}
    a.audit()
    b.audit()


def test_a_foreign_task_outlives_a_kill(tmp_path: Path) -> None:
    a, folder = moved(), tmp_path / "frontier"
    store = Store(folder)
    carry(a, 0, hub(1, STRICT, store=store), 1)
    store.close()

    store = Store(folder)
    b = hub(1, STRICT, store=store)
    assert not b.is_finished()
    later = NOW + 50
    fetched = RobotsFetched(ALLOW_ALL, FOREVER, later, later)
    b.release([(lease_of(b, Step.ROBOTS, later), fetched)], later)
    store.close()
    store = Store(folder)
    b = hub(1, STRICT, store=store)
    assert b.is_finished(), "it was carried out"
    carry(b, 1, a, 0)
    assert [each.url for each in a.acquire(NOW + 50, 9)] == ["http://a.example/page"]
    store.close()


def test_a_task_that_is_asked_for_twice_is_carried_out_once() -> None:
    """Its home was restarted, and has asked again."""
    a, b = moved(), hub(1, STRICT)
    [mail] = unsent(a, 1, 0, 9)
    receive(b, 0, 1, [mail, mail], NOW)
    lease = lease_of(b, Step.ROBOTS)
    b.release([(lease, RobotsFetched(ALLOW_ALL, FOREVER, NOW, NOW))], NOW)
    assert b.is_finished()
    assert b.acquire(NOW + 50, 9, Lane.ADMISSIONS) == []
    assert b.outbox == {0: (1, 1)}
    receive(b, 0, 3, [mail], NOW)
    assert not b.is_finished(), "the answer may be lost by now"


def test_rules_that_are_too_large_to_travel_are_unreachable() -> None:
    a = moved()
    [asked] = unsent(a, 1, 0, 9)
    assert isinstance(asked, RobotsAsked)
    lines = "\n".join(f"+/{n * 2654435761 % 2**32:x}{n**9:x}" for n in range(40_000))
    fetched = RobotsFetched(RobotsRules(literals=lines), FOREVER, NOW, NOW)
    assert len(lines) > RULES_BYTES_MAX
    mail = answered(asked.robots_task, fetched, NOW)
    assert mail == RobotsFailed(asked.robots_task, "too_large", again=False)
    receive(a, 1, 1, [mail], NOW)
    assert a.counters.robots == {"too_large": 1}


# Rows


@pytest.mark.parametrize("head_bytes", [0, 1000, rowline.HEAD_BYTES])
def test_rows_have_the_mail_of_a_commit_and_are_sent_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, head_bytes: int
) -> None:
    """Whether they are still in memory or not."""
    monkeypatch.setattr(rowline, "HEAD_BYTES", head_bytes)
    store = Store(tmp_path)
    a = hub(store=store)
    commits = (7, ROW_MAX, 2 * ROW_MAX + 1, 3)
    numbers = iter(range(1, sum(commits) + 1))
    for commit in commits:
        a.put([link(f"http://b.example/{n}") for n in islice(numbers, commit)], NOW)
    ends = ends_of_rows(store)
    assert ends == [7, 107, 207, 307, 308, 311]
    for limit_bytes, after, limit, first, last in [
        (1 << 20, 0, 310, 1, 308),
        (1 << 20, 0, 206, 1, 107),
        (1, 7, 500, 8, 107),
        (1 << 20, 5, 106, 1, 7),  # in a row
        (1 << 20, 7, 30, 8, 107),  # no part of a row
        (1 << 20, 310, 500, 309, 311),
        (1 << 20, 311, 500, 312, 311),
    ]:
        found = [f"http://b.example/{n}" for n in range(first, last + 1)]
        number, data, begins = a.packed(1, after, limit, limit_bytes)
        assert (number, urls(decode_all(data)), begins) == (len(found), found, first)
    a.sent(1, 250)
    a.put([], NOW)
    assert ends_of_rows(store) == [307, 308, 311]
    assert len(unsent(a, 1, 250, 500)) == 61
    a.sent(1, 311)
    a.put([], NOW)
    assert ends_of_rows(store) == []
    store.close()


@pytest.mark.parametrize("head_bytes", [0, rowline.HEAD_BYTES])
def test_mail_of_a_later_run_has_numbers_that_were_never_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, head_bytes: int
) -> None:
    """Also of a folder that was set back. What it still has keeps its numbers, and goes first."""
    monkeypatch.setattr(rowline, "HEAD_BYTES", head_bytes)
    store = Store(tmp_path)
    a = hub(store=store)
    a.put([link(f"http://b.example/{n}") for n in range(1, 6)], NOW)
    a.sent(1, 2)
    a.put([link("http://c.example/1")], NOW)
    a.sent(2, 1)
    a.put([], NOW)
    store.close()
    store = Store(tmp_path)
    a = hub(store=store)
    a.put([link(f"http://b.example/{n}") for n in (6, 7)], NOW)
    a.put([link("http://c.example/2")], NOW)
    assert a.outbox == {1: (3, 7 + JUMP), 2: (2 + JUMP, 2 + JUMP)}
    for after, found, first in [
        (0, range(1, 6), 1),
        (2, range(1, 6), 1),
        (5, [6, 7], 6 + JUMP),
        (90, [6, 7], 6 + JUMP),  # the receiver has mail that this folder has forgotten
        (6 + JUMP, [6, 7], 6 + JUMP),
        (7 + JUMP, [], 8 + JUMP),
    ]:
        packed = a.packed(1, after, 9, 1 << 20)
        assert urls(decode_all(packed.data)) == [f"http://b.example/{n}" for n in found]
        assert packed.first == first
    assert len(unsent(a, 1, 2, 9)) == 5
    a.sent(1, 90)
    a.put([], NOW)
    assert ends_of_rows(store) == [7 + JUMP]
    assert a.outbox[1] == (91, 7 + JUMP)
    store.close()


def test_a_run_begins_behind_all_mail_that_was_sent_before_its_time(tmp_path: Path) -> None:
    for run, utc_s in enumerate((1000.0, 2000.5, 5.0)):  # the clock is wrong
        store = Store(tmp_path)
        a = CrawlState(store, OPEN, now=NOW, utc_s=utc_s - NOW, partition=ByLetter(0))
        a.put([link(f"http://b.example/{run}{n}") for n in range(3)], NOW)
        second = (1000, 2000, 2001)[run]
        assert a.outbox == {1: (1000 * JUMP + 1, second * JUMP + 3 * run + 3)}
        store.close()


def test_a_row_is_small_enough_for_a_message(tmp_path: Path) -> None:
    a = hub()
    words = "x" * 16_000
    a.put([link(f"http://b.example/{words}{n}") for n in range(50)], NOW)
    line = a._store.mail_line(1).rows(rows.MAIL)
    assert max(len(row) for _, row in line) <= ROW_BYTES_MAX
    assert len(unsent(a, 1, 0, 500)) == 50


def test_many_deletions_are_committed_by_themselves(tmp_path: Path) -> None:
    """Those of a hub that has nothing else to commit."""
    store = Store(tmp_path)
    a = hub(store=store)
    a.put([link(f"http://b.example/{n}") for n in range(5000)], NOW)
    for upto in range(500, 5001, 500):
        a.sent(1, upto)
    assert len(store._db._changes) <= 1000
    store.close()
    store = Store(tmp_path)
    assert hub(store=store).outbox == {1: (4001, 5000)}
    store.close()


def test_a_command_that_opens_a_hub_keeps_its_mail(tmp_path: Path) -> None:
    store = Store(tmp_path)
    hub(store=store).put([link("http://b.example/")], NOW)
    store.close()
    store = Store(tmp_path)
    CrawlState(store, OPEN, now=NOW).retry(frozenset({"dns"}), b"", NOW)
    store.close()
    store = Store(tmp_path)
    assert urls(unsent(hub(store=store), 1, 0, 9)) == ["http://b.example/"]
    store.close()
