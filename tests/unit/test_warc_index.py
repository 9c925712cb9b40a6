"""The index of a WARC file: sorted, whole or not there, and never without its WARC file."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tests.exchanges import EXCHANGES, capture, exchange, write
from webcrawl.tools.warccheck.check import check
from webcrawl.warc import index as module
from webcrawl.warc.files import WarcError, WarcFiles
from webcrawl.warc.index import Index, index_path
from webcrawl.warc.recovery import recover

PLAIN = capture(EXCHANGES["plain"])
ROBOTS = capture(EXCHANGES["robots.txt"])


@pytest.fixture
def files(tmp_path: Path) -> WarcFiles:
    files = WarcFiles(tmp_path, "name", 1 << 30)
    files.open()
    return files


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def fill(folder: Path, lines: list[bytes]) -> Index:
    index = Index(folder / "x.cdxj", folder / "x.cdxj.open")
    for line in lines:
        index.make_room()
        index.add(line)
    return index


@pytest.mark.parametrize("run_bytes", [1, 100, 3_000, 1 << 20])
def test_lines_are_sorted_however_many_runs_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_bytes: int
) -> None:
    monkeypatch.setattr(module, "RUN_BYTES", run_bytes)
    monkeypatch.setattr(module, "_PIECE", 50)
    random = Random(run_bytes)
    lines = [random.randbytes(random.randrange(90)).hex().encode() + b"\n" for _ in range(500)]
    index = fill(tmp_path, lines)
    assert names(tmp_path) == []  # the temporary file has no name
    index.publish()
    index.close()
    assert (tmp_path / "x.cdxj").read_bytes() == b"".join(sorted(lines))
    assert names(tmp_path) == ["x.cdxj"]


def test_a_full_run_leaves_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RUN_BYTES", 1000)
    index = fill(tmp_path, [b"x" * 99 + b"\n"] * 10_000)
    assert sum(map(len, index._run)) <= 1000
    index.close()


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_disk_error_in_the_index_leaves_the_warc_file_to_recovery(
    files: WarcFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    files.write(PLAIN)

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        if call == "fsync":
            real = os.fsync
            calls: list[int] = []  # the WARC file's comes first
            patch.setattr(os, "fsync", lambda fd: fail() if calls else (calls.append(fd), real(fd)))
        else:
            patch.setattr(Path, "replace", fail)
        with pytest.raises(WarcError, match="No space left"):
            files.close()
    (left,) = names(tmp_path)
    assert left.endswith(".warc.gz.open")
    (found,) = recover(tmp_path)
    assert found.path is not None
    assert found.cut_bytes == 0
    assert check(found.path) == []
    assert index_path(found.path).exists()


def test_a_disk_error_in_the_temporary_file_writes_no_part_of_a_capture(
    files: WarcFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RUN_BYTES", 1)
    files.write(PLAIN)

    def fail(**_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(module, "TemporaryFile", fail)
        with pytest.raises(WarcError, match="No space left"):
            files.write(ROBOTS)
    files.write(ROBOTS)  # there is room again
    files.close()
    index, warc = names(tmp_path)
    assert (tmp_path / index).read_bytes().count(b"\n") == 2
    assert check(tmp_path / warc) == []


# Recovery


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """The file of a process that died after it gave the index its name."""
    large = replace(capture(exchange(body=Random(0).randbytes(3 << 20))), recorded_digest="")
    (path,) = write(tmp_path, [ROBOTS, PLAIN, large])
    return path.rename(f"{path}.open")


def test_the_index_of_a_cut_file_has_the_records_before_the_cut(left: Path) -> None:
    os.truncate(left, left.stat().st_size - (1 << 20))
    (found,) = recover(left.parent)
    assert found.path is not None
    assert index_path(found.path).read_bytes().count(b"\n") == 2
    assert check(found.path) == []


def test_the_index_of_a_removed_file_does_not_stay(left: Path) -> None:
    os.truncate(left, 100)
    recover(left.parent)
    assert names(left.parent) == []


def test_a_temporary_index_without_its_file_is_removed(left: Path) -> None:
    index = index_path(left.with_suffix(""))
    index.rename(f"{index}.open")
    (left.parent / "notes.cdxj.open").touch()
    left.unlink()
    recover(left.parent)
    assert names(left.parent) == ["notes.cdxj.open"]


# Check


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (b'"status": "200"', b'"status": "404"', "the index has status '404', not '200'"),
        (b"test,a)/page", b"test,a)/pa", "the index has urlkey 'test,a)/pa', not 'test,a)/page'"),
        (b'"offset": "', b'"offset": "1', "no record begins here"),
        (b'"offset": "', b'"offset": [], "old": "', "[]: in the index, but no record begins here"),
        (b'"length": "', b'"length": "1', "the index has length"),
        (b'"url": ', b'"uri": ', "the index has url None, not 'http://a.test/page'"),
        (b"{", b"", "line 1 is not CDXJ"),
        pytest.param(b"{", b'{"a":' * 100_000, "line 1 is not CDXJ", id="too deep"),
        (b"test,a)/page", b"test,b)/page", "the lines are not sorted"),
        (b"}\n", b"}", "line 1 is not CDXJ"),
    ],
)
def test_check_finds_a_wrong_line(tmp_path: Path, old: bytes, new: bytes, problem: str) -> None:
    (path,) = write(tmp_path, [PLAIN, ROBOTS])
    index = index_path(path)
    good = index.read_bytes()
    assert check(path) == []
    index.write_bytes(good.replace(old, new, 1))
    assert any(problem in line for line in check(path)), check(path)
    index.write_bytes(good.partition(b"\n")[2])
    assert any("not in the index" in line for line in check(path))


def stem(name: str) -> str:
    return name.partition(".")[0]


def test_recovery_leaves_the_temporary_index_of_a_living_process(tmp_path: Path) -> None:
    files = WarcFiles(tmp_path, "name", 1 << 30)
    files.open()
    files.write(PLAIN)
    (name,) = names(tmp_path)
    index = tmp_path / f"{stem(name)}.cdxj.open"
    index.touch()
    recover(tmp_path)
    assert index.exists()
    files.close()
