"""The records of WARC files, whole and broken, and the parts in which they are read."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path, PosixPath
from typing import Any

import duckdb
import pytest

from tests.exchanges import EXCHANGES, capture, write
from webcrawl.tools.corpus.parts import Options, counts_of, parts_of, write_part
from webcrawl.warc.index import index_path
from webcrawl.warc.reader import Broken, Record, read_records


def record(url: str, block: bytes = b"x" * 99) -> bytes:
    fields = f"WARC-Type: resource\r\nWARC-Target-URI: {url}\r\nContent-Length: {len(block)}"
    return b"WARC/1.1\r\n" + fields.encode() + b"\r\n\r\n" + block + b"\r\n\r\n"


RECORDS = [record(f"urn:{n}") for n in range(4)]
PACKED = list(map(gzip.compress, RECORDS))
GARBAGE = b"\x1f\x8b\x08 WARC/1.1 is not here"


def found(folder: Path, data: bytes) -> list[str | tuple[int, str]]:
    """The URLs of the records in `data`, and its broken parts."""
    path = folder / "a.warc"
    path.write_bytes(data)
    with path.open("rb") as file:
        return [
            (each.offset, each.why)
            if isinstance(each, Broken)
            else each.fields["warc-target-uri"].removeprefix("urn:")
            for each in read_records(file)
        ]


@pytest.mark.parametrize("parts", [RECORDS, PACKED], ids=["plain", "gzip"])
def test_reading_goes_on_after_a_broken_part(tmp_path: Path, parts: list[bytes]) -> None:
    first, second, third, fourth = parts
    (one, at, *rest) = found(tmp_path, first + GARBAGE + second + third + fourth)
    assert (one, rest) == ("0", ["1", "2", "3"])
    assert at[0] == len(first)
    (one, at, *rest) = found(tmp_path, first + second[:-40] + third + fourth)
    assert (one, rest[-1]) == ("0", "3")
    assert found(tmp_path, first + second[:-9]) == ["0", (len(first), "the last record is cut")]
    (at, *rest) = found(tmp_path, b"?" + first[1:] + second + third)
    assert (at[0], rest) == (0, ["1", "2"])
    assert found(tmp_path, b"") == []


def test_a_member_of_several_records_is_named(tmp_path: Path) -> None:
    ((offset, why),) = found(tmp_path, gzip.compress(b"".join(RECORDS)))
    assert offset == 0
    assert "more than one record in a gzip member; try `warcio recompress`" in why


@pytest.mark.parametrize("is_packed", [True, False])
def test_of_a_large_record_the_start_is_kept(tmp_path: Path, is_packed: bool) -> None:
    data = record("urn:large", bytes(5001))
    path = tmp_path / "a.warc"
    path.write_bytes((gzip.compress(data, 1) if is_packed else data) + RECORDS[0] * (not is_packed))
    with path.open("rb") as file:
        large, *others = read_records(file, 5000)
    assert isinstance(large, Record)
    assert (5000 - len(large.head) <= len(large.block) <= 5000, large.is_whole) == (True, False)
    assert len(others) == (not is_packed)


class CountedFile(PosixPath):
    opened = 0

    def open(self, *args: Any, **more: Any) -> Any:
        type(self).opened += 1
        return super().open(*args, **more)


def test_parts_have_the_rows_of_the_whole_file(tmp_path: Path) -> None:
    exchanges = [
        replace(each, url=f"http://{n}.test/{name.replace(' ', '-')}")
        for n in range(2)
        for name, each in EXCHANGES.items()
        if each.method == "GET"
    ]
    (path,) = write(tmp_path / "in", map(capture, exchanges))
    with index_path(path).open("ab") as index:
        index.write(b'{"a":' * 100_000 + b"\n")  # a line that is too deep to be read is left out
    rows = []
    for size, name in ((40_000, "parts"), (path.stat().st_size, "whole")):
        (folder := tmp_path / name).mkdir()
        parts = parts_of(CountedFile(path), size)
        assert (len(parts) > 2) == (name == "parts")
        assert [part.end for part in parts[:-1]] == [part.start for part in parts[1:]]
        CountedFile.opened = 0
        counts = [write_part(part, folder, Options(True, (), "")) for part in parts]
        assert CountedFile.opened <= len(parts) + 1, "its first record is read once"
        assert sum(each.captures for each in counts) == len(exchanges)
        db = duckdb.default_connection()
        assert [counts_of(part.path_in(folder), db) for part in parts] == counts
        rows.append(
            duckdb.execute(
                "SELECT * EXCLUDE (fetch_time) FROM read_parquet(?) ORDER BY warc_record_offset",
                [[str(part.path_in(folder)) for part in parts]],
            ).fetchall()
        )
    assert rows[0] == rows[1]
