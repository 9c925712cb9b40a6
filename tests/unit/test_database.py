"""The map on disk: which changes are visible before a commit, and which last after it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from webcrawl.frontier.disk.database import Database
from webcrawl.frontier.store import StoreError

ROOT = Path(__file__).parents[2]


def test_committed_changes_last_and_uncommitted_ones_do_not(tmp_path: Path) -> None:
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


def test_a_database_that_is_opened_again_has_the_same_options(tmp_path: Path) -> None:
    """rocksdict would take those of the last run from a file that names no filter."""
    for _ in range(2):
        db = Database(tmp_path / "db")
        for key in range(1000):
            db.put(b"%d" % key, b"")
        db.commit()
        db._rows.flush()
        db._rows.compact_range(None, None)
        tables = db._rows.property_value("rocksdb.aggregated-table-properties") or ""
        assert "# entries for filter=1000;" in tables
        db.close()


def test_rows_of_the_last_commit_have_their_uncommitted_values(tmp_path: Path) -> None:
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


def test_get_each_is_as_get_of_each_key(tmp_path: Path) -> None:
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


def test_a_reader_sees_the_commits_of_a_writer(tmp_path: Path) -> None:
    writer = Database(tmp_path / "db")
    writer.put(b"a", b"1")
    writer.commit()
    reader = Database(tmp_path / "db", read_only=True)
    assert reader.get(b"a") == b"1"
    reader.close()
    writer.close()


def test_a_folder_with_other_files_is_left_unchanged(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(StoreError, match="other files"):
        Database(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_database_that_is_closed_has_no_rows(tmp_path: Path) -> None:
    """A hub that ends may look for mail to send once more."""
    db = Database(tmp_path / "db")
    db.close()
    with pytest.raises(StoreError, match="cannot be used"):
        next(db.rows(b""))


def test_a_reader_makes_no_folder(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"is empty\. .*FRONTIER_STORE=memory"):
        Database(tmp_path / "db", read_only=True)
    assert not (tmp_path / "db").exists()


@pytest.mark.slow
def test_a_commit_that_has_returned_survives_a_kill_at_any_moment(tmp_path: Path) -> None:
    program = [sys.executable, "-m", "tests.properties.killed_commits", tmp_path / "db", "1", "30"]
    result = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) > 25
