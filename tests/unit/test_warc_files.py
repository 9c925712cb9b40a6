"""WARC files: names, rotation, and the state of a file after a disk error."""

from __future__ import annotations

import errno
import os
import re
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from tests.exchanges import EXCHANGES, capture, encrypted, exchange, read, write
from webcrawl.tools.warccheck.check import check
from webcrawl.warc.files import WarcError, WarcFiles, new_id

PLAIN = capture(EXCHANGES["plain"])


@pytest.fixture
def files(tmp_path: Path) -> WarcFiles:
    files = WarcFiles(tmp_path / "warc", "name", 1 << 30, [("operator", "me")])
    files.open()
    return files


def names(files: WarcFiles) -> list[str]:
    """Of the WARC files: each that is closed has its index beside it, and nothing else is there."""
    found = sorted(os.listdir(files.folder))
    closed = [name.removesuffix(".warc.gz") for name in found if name.endswith(".gz")]
    indexes = [f"{name}.cdxj" for name in closed]
    assert [name for name in found if name.endswith(".cdxj")] == indexes
    return [name for name in found if name not in indexes]


def failing(number: int) -> Callable[..., int]:
    """A system call that fails."""

    def call(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    return call


def test_a_closed_file_loses_the_ending_open(files: WarcFiles) -> None:
    files.write(PLAIN)
    (open_name,) = names(files)
    assert re.fullmatch(r"name-\d{14}-00000-\w+-\d+\.warc\.gz\.open", open_name)
    files.close()
    assert names(files) == [open_name.removesuffix(".open")]


def test_a_compressed_body_is_not_compressed_again(files: WarcFiles) -> None:
    packed = EXCHANGES["gzip, large"]
    files.write(capture(packed))
    files.close()
    (name,) = names(files)
    data = (files.folder / name).read_bytes()
    at = data.index(packed.body[:60_000])
    assert packed.body[-20_000:] in data[at + 60_000 :]
    assert [record.block for record in read(files.folder / name)][1] == packed.head + packed.body


def test_a_file_without_captures_is_removed(files: WarcFiles) -> None:
    files.close()
    assert names(files) == []
    assert files.written.files == 0


def test_a_position_names_the_bytes_of_the_records(files: WarcFiles) -> None:
    places = [files.write(PLAIN) for _ in range(3)]
    files.close()
    assert all(one.offset + one.size_bytes == two.offset for one, two in pairwise(places))
    path = files.folder / places[0].filename
    assert path.stat().st_size == places[2].offset + places[2].size_bytes
    offsets = {record.offset for record in read(path) if record.type == "response"}
    assert offsets == {place.offset for place in places}


def test_files_stay_within_the_maximum_size(tmp_path: Path) -> None:
    paths = write(tmp_path, [PLAIN] * 20, max_size_bytes=5000)
    sizes = [path.stat().st_size for path in paths]
    assert len(paths) > 1
    assert max(sizes) <= 5000
    assert min(sizes[:-1]) > 5000 - 2000
    assert sum(record.type == "response" for path in paths for record in read(path)) == 20
    assert [problem for path in paths for problem in check(path)] == []


def test_a_process_always_has_an_unfinished_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By it the next run knows that the process was killed: also between two files."""
    unfinished = []

    def fsync(fd: int) -> None:
        unfinished.append(len([*tmp_path.glob("*.warc.gz.open")]))

    monkeypatch.setattr("os.fsync", fsync)
    files = WarcFiles(tmp_path, "name", 1)
    files.open()
    for _ in range(3):
        files.write(PLAIN)
    assert len(list(tmp_path.glob("*.warc.gz"))) == 2
    assert min(unfinished) == 1
    files.close()
    written, sizes = files.written, [path.stat().st_size for path in tmp_path.glob("*.warc.gz")]
    assert (written.files, written.records, written.size_bytes) == (3, 3 * 4, sum(sizes))


def test_a_capture_over_the_maximum_size_gets_its_own_file(tmp_path: Path) -> None:
    large = capture(exchange(body=Random(0).randbytes(20_000)))
    paths = write(tmp_path, [PLAIN, large, PLAIN], max_size_bytes=5000)
    types = [[record.type for record in read(path)] for path in paths]
    assert types == [["warcinfo", "response", "request", "metadata"]] * 3


def test_two_crawls_in_one_process_share_a_folder(tmp_path: Path) -> None:
    both = [WarcFiles(tmp_path, "same", 1 << 30) for _ in range(2)]
    for each in both:
        each.open()
    for each in both:
        each.write(PLAIN)
        each.close()
    assert len(list(tmp_path.glob("*.warc.gz"))) == len(list(tmp_path.glob("*.cdxj"))) == 2
    assert len(os.listdir(tmp_path)) == 4


def test_a_failed_write_leaves_whole_captures(
    files: WarcFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.write(PLAIN)
    real = os.pwrite
    calls = []

    def half(fd: int, data: memoryview, offset: int) -> int:
        calls.append(offset)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(fd, data[: len(data) // 2], offset)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", half)
        with pytest.raises(WarcError, match=r"WARC_DIR = '.*' cannot be written: No space left"):
            files.write(PLAIN)
    assert len(calls) == 2
    place = files.write(PLAIN)  # there is room again
    files.close()
    path = files.folder / place.filename
    assert check(path) == []
    assert sum(record.type == "response" for record in read(path)) == 2


def test_a_short_write_is_continued(files: WarcFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, offset: real(fd, data[:100], offset))
    place = files.write(PLAIN)
    files.close()
    assert check(files.folder / place.filename) == []


def test_open_refuses_a_read_only_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "open", failing(errno.EROFS))  # root may write anywhere
    with pytest.raises(WarcError, match="Read-only file system"):
        WarcFiles(tmp_path, "name", 1 << 30).open()


def test_a_first_record_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "pwrite", failing(errno.ENOSPC))
    with pytest.raises(WarcError):
        WarcFiles(tmp_path, "name", 1 << 30).open()
    assert os.listdir(tmp_path) == []


def id_of_a_forked_process() -> str:
    told, telling = os.pipe()
    child = os.fork()
    if not child:
        os.write(telling, new_id().encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(telling)
    with open(told) as answer:
        return answer.read()


def test_forked_processes_create_different_ids() -> None:
    assert len({id_of_a_forked_process() for _ in range(3)} | {new_id()}) == 4


def test_a_certificate_is_once_in_a_file(tmp_path: Path) -> None:
    der = b"a certificate"
    secure = encrypted(EXCHANGES["plain"])
    assert secure.tls is not None
    secure.tls = replace(secure.tls, certificate=der)
    size = sum(path.stat().st_size for path in write(tmp_path / "one", [capture(secure)] * 2))
    for path in write(tmp_path / "two", [capture(secure)] * 5, size):  # three files
        lines = [each.block for each in read(path) if each.type == "metadata"]
        has_it = [b"tlsCertificate: " + b64encode(der) in block for block in lines]
        assert has_it == [True, *[False] * (len(lines) - 1)]
        assert check(path) == []


def test_a_certificate_that_could_not_be_written_is_in_the_next_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secure = encrypted(EXCHANGES["plain"])
    assert secure.tls is not None
    secure.tls = replace(secure.tls, certificate=b"a certificate")
    large = replace(secure, body=Random(1).randbytes(9_000))
    large.payload = large.body
    files = WarcFiles(tmp_path, "name", 8_000)
    files.open()
    files.write(PLAIN)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", failing(errno.ENOSPC))
        with pytest.raises(WarcError):
            files.write(capture(large))  # the next file cannot begin
    place = files.write(capture(secure))
    files.close()
    blocks = [each.block for each in read(tmp_path / place.filename) if each.type == "metadata"]
    assert b"tlsCertificate: " + b64encode(b"a certificate") in b"".join(blocks)


def test_the_warcinfo_record_has_the_filename_and_the_info(files: WarcFiles) -> None:
    files.write(PLAIN)
    files.close()
    (name,) = names(files)
    first, *_ = read(files.folder / name)
    assert first.fields["warc-filename"] == name
    assert first.block.startswith(b"operator: me\r\n")


def test_a_failed_sync_raises_warc_error(files: WarcFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write(PLAIN)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing(errno.EIO))
        with pytest.raises(WarcError, match="Input/output error"):
            files.close()
    assert names(files)[0].endswith(".open")  # for the next crawl to recover
    assert files.written.files == 0
