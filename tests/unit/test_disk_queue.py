"""Queues of links and lines of hosts on disk, compared with models in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from webcrawl.frontier.disk import rows
from webcrawl.frontier.disk.database import Database
from webcrawl.frontier.disk.queue import HostQueue
from webcrawl.frontier.lease import Link


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    db = Database(tmp_path / "db")
    yield db
    db.close()


def test_waiting_keys_are_in_the_order_of_the_crawl() -> None:
    places = [(-1, 0), (-1, 5), (0, 2), (1, 1), (1, 300), (256, 0)]
    keys = [rows.waiting_key(rank, number, 7) for rank, number in places]
    assert keys == sorted(keys)
    assert [rows.waiting_place(key) for key in keys] == places


def test_a_queue_gives_its_links_in_order(db: Database) -> None:
    queue = HostQueue(db, 1)
    random, model, popped = Random(1), [], []
    for number in range(1, 800):
        if random.random() < 0.6:
            priority = random.randint(1000, 1005)
            queue.push(priority, number, Link(f"http://a/{number}", "a"))
            model.append((priority, number))
        elif model:
            db.commit()
            model.sort()
            assert queue.best == model[0]
            place = model.pop(0)
            priority, link = queue.pop()
            leased = place[1]
            assert (priority, link.url) == (place[0], f"http://a/{leased}")
            if random.random() < 0.3:  # while it is leased
                queue.promote(priority, leased, priority - 1)
                place = (priority - 1, leased)
            if random.random() < 0.3:
                queue.put_back(link)
                model.append(place)
            else:
                queue.drop()
                popped.append(leased)
        if model and random.random() < 0.3:
            at = random.randrange(len(model))
            priority, moved = model[at]
            model[at] = (priority - random.randint(1, 3), moved)
            queue.promote(priority, moved, model[at][0])
        assert queue.length == len(model)
    assert len(popped) > 50
    db.commit()
    stored = [rows.queue_place(key) for key, _ in db.rows(rows.queue_prefix(1))]
    assert stored == sorted(model)


def test_a_popped_link_is_still_queued_for_the_next_run(db: Database) -> None:
    queue = HostQueue(db, 1)
    for number in (1, 2):
        queue.push(4, number, Link(f"http://a/{number}", "a"))
    db.commit()
    queue.pop()
    assert (queue.length, queue.best) == (1, (4, 2))
    assert queue.stored() == (2, (4, 1))
    queue.drop()
    assert queue.stored() == (1, (4, 2))
