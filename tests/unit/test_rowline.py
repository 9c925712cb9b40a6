"""A line of rows, its first rows in memory, compared with a model."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from webcrawl.frontier.disk import rowline
from webcrawl.frontier.disk.database import Database
from webcrawl.frontier.disk.rowline import RowLine

ROW_BYTES = 160  # in memory, with key and value


@pytest.fixture
def db() -> Iterator[Database]:
    db = Database(None)
    yield db
    db.close()


def key(number: int) -> bytes:
    return b"x" + number.to_bytes(4)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rowline, "HEAD_BYTES", 5 * ROW_BYTES)


@pytest.mark.usefixtures("few")
def test_a_line_gives_its_rows_in_order(db: Database) -> None:
    random, line, model = Random(2), RowLine(db, b"x"), dict[bytes, bytes]()
    for number in range(900):
        chance, new = random.random(), key(random.randrange(10_000))
        if chance < 0.5:
            model[new] = b"%04d" % number
            line.add(new, model[new])
        elif chance < 0.6 and model:
            left = random.choice(sorted(model))
            line.remove(left)
            del model[left]
        else:
            first = min(model, default=None)
            assert line.first() == (first and (first, model[first]))
            assert line.pop() == (first and (first, model.pop(first)))
        if random.random() < 0.4:
            db.commit()
            after = key(random.randrange(10_000))
            assert list(line.rows(after)) == sorted(row for row in model.items() if row[0] > after)
        assert len(line._head) <= 2 * 5 + 1
        assert line._head_bytes == ROW_BYTES * len(line._head) - len(line._head)
    while model:
        first = min(model)
        assert line.pop() == (first, model.pop(first))
    assert line.pop() is None


@pytest.mark.usefixtures("few")
def test_a_row_added_since_the_last_commit_is_not_passed_over(db: Database) -> None:
    before = RowLine(db, b"x")
    for number in range(9):
        before.add(key(number), b"row")
    db.commit()
    line = RowLine(db, b"x")
    assert [line.pop() for _ in range(5)] == [(key(n), b"row") for n in range(5)]
    line.add(key(99), b"new")
    assert [line.pop() for _ in range(6)] == [
        *((key(number), b"row") for number in range(5, 9)),
        *((key(99), b"new"), None),
    ]
