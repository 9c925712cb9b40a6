"""The map on disk: what is seen before a commit, what lasts after it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from webcrawl.frontier.disk.database import Database
from webcrawl.frontier.store import StoreError

ROOT = Path(__file__).parents[2]


def test_a_commit_lasts_and_what_came_after_it_does_not(tmp_path: Path) -> None:
    db = Database(tmp_path / "db")
    db.put(b"a", b"1")
    db.put(b"b", b"2")
    db.commit()
    db.put(b"a", b"3")
    db.delete(b"b")
    assert (db.get(b"a"), db.get(b"b")) == (b"3", None)
    db.close()
    db = Database(tmp_path / "db")
    assert (db.get(b"a"), db.get(b"b")) == (b"1", b"2")
    db.close()


def test_rows_are_those_of_the_last_commit_as_they_are_now(tmp_path: Path) -> None:
    db = Database(tmp_path / "db")
    for key in (b"a1", b"a2", b"a3", b"a4", b"b1"):
        db.put(key, b"old")
    db.commit()
    db.delete(b"a2")
    db.put(b"a3", b"")
    assert list(db.rows(b"a")) == [(b"a1", b"old"), (b"a3", b""), (b"a4", b"old")]
    assert [key for key, _ in db.rows(b"a", b"a1")] == [b"a3", b"a4"]
    assert list(db.rows(b"a", b"a4")) == []
    db.close()


def test_many_rows_are_got_as_each_is(tmp_path: Path) -> None:
    db = Database(tmp_path / "db")
    for key in (b"a", b"b", b"c"):
        db.put(key, key)
    db.commit()
    db.delete(b"a")
    db.put(b"b", b"")
    db.put(b"new", b"1")
    keys = [b"c", b"new", b"none", b"a", b"c", b"b"]
    assert db.get_each(keys) == [db.get(key) for key in keys]
    assert db.get_each([b"b"]) == [b""]
    assert db.get_each([]) == []
    db.close()


def test_a_reader_sees_what_a_writer_has_committed(tmp_path: Path) -> None:
    writer = Database(tmp_path / "db")
    writer.put(b"a", b"1")
    writer.commit()
    reader = Database(tmp_path / "db", read_only=True)
    assert reader.get(b"a") == b"1"
    reader.close()
    writer.close()


def test_a_folder_of_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(StoreError, match="other files"):
        Database(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_reader_makes_no_folder(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is none"):
        Database(tmp_path / "db", read_only=True)
    assert not (tmp_path / "db").exists()


def test_a_commit_that_was_told_of_outlives_a_kill_at_any_moment(tmp_path: Path) -> None:
    program = [sys.executable, "-m", "tests.properties.killed_commits", tmp_path / "db", "1", "120"]
    result = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) > 100
