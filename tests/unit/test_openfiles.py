"""How a process divides its open files."""

from __future__ import annotations

import errno

from tests.cases import each_of
from webcrawl.base.openfiles import CONNECTIONS_MIN, IDLE, TABLES, is_ours, plan_for


@each_of("limit", [100, 128, 256, 1024, 2048, 8192])
@each_of("disk", [False, True])
@each_of("keep_alive", [False, True])
def test_the_parts_are_within_the_limit(limit: int, disk: bool, keep_alive: bool) -> None:
    plan = plan_for(limit)
    connections = plan.connections(disk=disk, keep_alive=keep_alive)
    assert connections >= CONNECTIONS_MIN
    assert connections + plan.tables * disk + sum(plan.idle) * keep_alive < limit


def test_a_high_limit_gives_each_part_its_maximum() -> None:
    plan = plan_for(8192)
    assert (plan.idle, plan.tables) == (IDLE, TABLES[1])
    assert plan.connections(disk=True, keep_alive=True) > 1024, "the defaults fit"


def test_a_low_limit_is_not_enough_for_a_crawl() -> None:
    assert plan_for(64).connections(disk=True, keep_alive=False) < CONNECTIONS_MIN


@each_of("number", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM])
def test_errors_at_the_limit_are_our_fault(number: int) -> None:
    assert is_ours(OSError(number, "x"))
    assert not is_ours(OSError(errno.ECONNREFUSED, "x"))
    assert not is_ours(TimeoutError())
