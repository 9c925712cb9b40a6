"""Recovery: the files of a killed crawl are cut to whole records.

tests/fuzz/test_warc_fuzz.py has ends with any damage.
"""

from __future__ import annotations

import fcntl
import gzip
import io
import os
from pathlib import Path
from random import Random

import pytest

from tests.exchanges import EXCHANGES, capture, read, write
from webcrawl.tools.warccheck.check import check
from webcrawl.warc.files import WarcFiles
from webcrawl.warc.members import member, stored_member, whole_members
from webcrawl.warc.recovery import recover

PLAIN = capture(EXCHANGES["plain"])


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """The file of a dead process: a warcinfo record and two captures of three records each."""
    (path,) = write(tmp_path, [PLAIN, PLAIN])
    return path.rename(f"{path}.open")


def ends(path: Path) -> list[int]:
    return ends_in(path.read_bytes())


def ends_in(data: bytes) -> list[int]:
    return [each.end for each in whole_members(io.BytesIO(data))]


def final(path: Path) -> Path:
    return path.with_suffix("")


def test_recovery_renames_a_whole_file(left: Path) -> None:
    data = left.read_bytes()
    (mended,) = recover(left.parent)
    assert mended.path == final(left)
    assert (mended.records, mended.cut_bytes) == (7, 0)
    assert final(left).read_bytes() == data
    assert not left.exists()


@pytest.mark.parametrize(("kept", "torn"), [(2, 1), (4, 20), (6, 100)])
def test_recovery_cuts_a_torn_record(left: Path, kept: int, torn: int) -> None:
    end = ends(left)[kept - 1]
    os.truncate(left, end + torn)
    (mended,) = recover(left.parent)
    assert (mended.records, mended.cut_bytes) == (kept, torn)
    assert final(left).stat().st_size == end
    assert check(final(left)) == []
    assert sum(1 for _ in read(final(left))) == kept


@pytest.mark.parametrize("tail", [b"\0" * 5000, b"\x1f\x8b\x08\0", b"garbage", b"\x1f"])
def test_recovery_cuts_garbage_at_the_end(left: Path, tail: bytes) -> None:
    """File systems leave such ends after a loss of power."""
    data = left.read_bytes()
    left.write_bytes(data + tail)
    (mended,) = recover(left.parent)
    assert (mended.records, mended.cut_bytes) == (7, len(tail))
    assert final(left).read_bytes() == data


@pytest.mark.parametrize("kept", [0, 1])
def test_recovery_removes_a_file_without_captures(left: Path, kept: int) -> None:
    os.truncate(left, ([0, *ends(left)])[kept])
    (mended,) = recover(left.parent)
    assert mended.path is None
    assert os.listdir(left.parent) == []


def test_recovery_leaves_a_file_that_is_being_written(tmp_path: Path) -> None:
    files = WarcFiles(tmp_path, "name", 1 << 30)
    files.open()
    files.write(PLAIN)
    assert recover(tmp_path) == []
    files.close()
    assert len(list(tmp_path.glob("*.warc.gz"))) == 1


def test_recovery_leaves_a_file_that_was_just_finished(
    left: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its writer finishes it after recovery opens it and before recovery locks it."""
    real = fcntl.flock

    def finish_first(fd: int, how: int) -> None:
        left.rename(final(left))
        real(fd, how)

    monkeypatch.setattr(fcntl, "flock", finish_first)
    assert recover(left.parent) == []
    assert final(left).exists()


def test_recovery_never_replaces_a_finished_file(left: Path) -> None:
    final(left).write_bytes(b"precious")
    assert recover(left.parent) == []
    assert final(left).read_bytes() == b"precious"
    assert left.exists()


@pytest.mark.parametrize(
    "name",
    [
        "WEB-20260101000000000-00000-1~host~8443.warc.gz.open",  # Heritrix's
        "rec-20260101000000-host.warc.gz.open",
        "notes.open",
        "name-20260101000000-00000-host-1.warc.gz",
    ],
)
def test_recovery_leaves_files_with_other_names(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"torn")
    assert recover(tmp_path) == []
    assert (tmp_path / name).read_bytes() == b"torn"


def test_recovery_of_a_missing_folder_does_nothing(tmp_path: Path) -> None:
    assert recover(tmp_path / "none") == []


def test_whole_members_finds_large_and_small_members() -> None:
    parts = [
        Random(size).randbytes(size) for size in (0, 1, 5_000, 65_535, 65_536, 3_000_000, 10)
    ] + [bytes(20_000_000)]
    members = [make(part) for part in parts for make in (member, stored_member)]
    assert [gzip.decompress(each) for each in members[::2]] == parts
    assert [gzip.decompress(each) for each in members[1::2]] == parts
    data = b"".join(members)
    expected = [sum(map(len, members[: n + 1])) for n in range(len(members))]
    assert ends_in(data) == expected
    assert ends_in(data[:-1]) == expected[:-1]
    assert ends_in(b"") == []
