"""Recovery: what a killed crawl leaves is cut to whole records, whatever it looks like."""

from __future__ import annotations

import fcntl
import gzip
import io
import os
from pathlib import Path
from random import Random

import pytest

from tests.exchanges import EXCHANGES, capture, write
from webcrawl.warc.check import check
from webcrawl.warc.files import WarcFiles
from webcrawl.warc.members import member, member_ends, stored_member
from webcrawl.warc.reader import read
from webcrawl.warc.recovery import recover

PLAIN = capture(EXCHANGES["plain"])


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """A file that a dead process did not finish: warcinfo and two captures of three records."""
    (path,) = write(tmp_path, [PLAIN, PLAIN])
    return path.rename(f"{path}.open")


def ends(path: Path) -> list[int]:
    return list(member_ends(io.BytesIO(path.read_bytes())))


def final(path: Path) -> Path:
    return path.with_suffix("")


def test_a_whole_file_gets_its_name(left: Path) -> None:
    data = left.read_bytes()
    (mended,) = recover(left.parent)
    assert mended.path == final(left)
    assert (mended.records, mended.cut_bytes) == (7, 0)
    assert final(left).read_bytes() == data
    assert not left.exists()


@pytest.mark.parametrize("kept", [2, 4, 6])
@pytest.mark.parametrize("torn", [1, 5, 20, 100])
def test_a_torn_record_is_cut(left: Path, kept: int, torn: int) -> None:
    end = ends(left)[kept - 1]
    os.truncate(left, end + torn)
    (mended,) = recover(left.parent)
    assert (mended.records, mended.cut_bytes) == (kept, torn)
    assert final(left).stat().st_size == end
    assert check(final(left)) == []
    assert sum(1 for _ in read(final(left))) == kept


@pytest.mark.parametrize("tail", [b"\0" * 5000, b"\x1f\x8b\x08\0", b"garbage", b"\x1f"])
def test_garbage_at_the_end_is_cut(left: Path, tail: bytes) -> None:
    """As file systems leave it after a loss of power."""
    data = left.read_bytes()
    left.write_bytes(data + tail)
    (mended,) = recover(left.parent)
    assert (mended.records, mended.cut_bytes) == (7, len(tail))
    assert final(left).read_bytes() == data


def test_a_record_with_a_wrong_checksum_is_cut(left: Path) -> None:
    data = bytearray(left.read_bytes())
    data[-6] ^= 1
    left.write_bytes(data)
    assert recover(left.parent)[0].records == 6


@pytest.mark.parametrize("kept", [0, 1])
def test_a_file_without_captures_is_removed(left: Path, kept: int) -> None:
    os.truncate(left, ([0, *ends(left)])[kept])
    (mended,) = recover(left.parent)
    assert mended.path is None
    assert os.listdir(left.parent) == []


def test_a_file_that_is_being_written_is_left_alone(tmp_path: Path) -> None:
    files = WarcFiles(tmp_path, "name", 1 << 30)
    files.open()
    files.write(PLAIN)
    assert recover(tmp_path) == []
    files.close()
    assert len(list(tmp_path.glob("*.warc.gz"))) == 1


def test_a_file_that_its_writer_has_just_finished_is_left_alone(
    left: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between our opening it and our lock."""
    real = fcntl.flock

    def finish_first(fd: int, how: int) -> None:
        left.rename(final(left))
        real(fd, how)

    monkeypatch.setattr(fcntl, "flock", finish_first)
    assert recover(left.parent) == []
    assert final(left).exists()


def test_a_finished_file_is_never_replaced(left: Path) -> None:
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
def test_files_that_are_not_ours_are_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"torn")
    assert recover(tmp_path) == []
    assert (tmp_path / name).read_bytes() == b"torn"


def test_no_folder_nothing_to_do(tmp_path: Path) -> None:
    assert recover(tmp_path / "none") == []


def test_members_larger_and_smaller_than_a_piece() -> None:
    parts = [
        Random(size).randbytes(size) for size in (0, 1, 5_000, 65_535, 65_536, 3_000_000, 10)
    ] + [bytes(20_000_000)]
    members = [make(part) for part in parts for make in (member, stored_member)]
    assert [gzip.decompress(each) for each in members[::2]] == parts
    assert [gzip.decompress(each) for each in members[1::2]] == parts
    data = b"".join(members)
    expected = [sum(map(len, members[: n + 1])) for n in range(len(members))]
    assert list(member_ends(io.BytesIO(data))) == expected
    assert list(member_ends(io.BytesIO(data[:-1]))) == expected[:-1]
    assert list(member_ends(io.BytesIO(b""))) == []
