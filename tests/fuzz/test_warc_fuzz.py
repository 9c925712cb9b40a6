"""A damaged archive: recovery keeps the complete records, `check` reports the damage, and neither
raises anything.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.exchanges import EXCHANGES, capture, read, write
from webcrawl.tools.warccheck.check import check
from webcrawl.warc.files import OPEN
from webcrawl.warc.recovery import recover

Damage = Callable[[bytes], bytes]

KINDS = ("plain", "chunked", "gzip", "zeros", "robots.txt")

cuts = st.integers(0, 10_000).map(lambda at: lambda data: data[:-at] if at else data)
flips = st.tuples(st.integers(0, 1 << 20), st.integers(1, 255)).map(
    lambda drawn: lambda data: _flip(data, drawn[0] % len(data), drawn[1])
)
tails = st.binary(max_size=50).map(lambda tail: lambda data: data + tail)


def _flip(data: bytes, at: int, by: int) -> bytes:
    return data[:at] + bytes([data[at] ^ by]) + data[at + 1 :]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, bytes, list[int]]:
    """The name and the bytes of a good file, and the ends of its records."""
    (path,) = write(tmp_path_factory.mktemp("good"), [capture(EXCHANGES[kind]) for kind in KINDS])
    starts = [record.offset for record in read(path)]
    return path.name, path.read_bytes(), [*starts[1:], path.stat().st_size]


@given(damage=st.one_of(cuts, flips, tails))
def test_recovery_keeps_each_record_before_the_damage(
    archive: tuple[str, bytes, list[int]], damage: Damage
) -> None:
    name, good, ends = archive
    damaged = damage(good)
    same = next((at for at, (a, b) in enumerate(zip(good, damaged, strict=False)) if a != b), None)
    whole = min(len(good), len(damaged)) if same is None else same
    kept = max((end for end in ends if end <= whole), default=0)
    with TemporaryDirectory() as folder:
        left = Path(folder, name + OPEN)
        left.write_bytes(damaged)
        (found,) = recover(Path(folder))
        if found.path is None:
            assert kept <= ends[0]  # only its warcinfo record
            return
        assert found.path.read_bytes()[:kept] == good[:kept]
        assert [problem for problem in check(found.path) if "no gzip" in problem] == []
        if same is None:  # the file was only cut or made longer
            assert found.path.read_bytes() == good[:kept]


@given(damage=st.one_of(cuts, flips, tails))
def test_check_reports_any_damage(archive: tuple[str, bytes, list[int]], damage: Damage) -> None:
    name, good, ends = archive
    damaged = damage(good)
    with TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(damaged)
        problems = check(path)
    if damaged == good:
        assert problems == []
    elif len(damaged) not in ends and damaged[: len(good)] != good:
        assert problems or _only_in_a_gzip_header(good, damaged, ends)


def _only_in_a_gzip_header(good: bytes, damaged: bytes, ends: list[int]) -> bool:
    """No checksum covers its time, extra flags and system (RFC 1952)."""
    at = next(at for at, (a, b) in enumerate(zip(good, damaged, strict=False)) if a != b)
    start = max(end for end in (0, *ends) if end <= at)
    return at - start < 10


@given(data=st.binary(max_size=300))
def test_check_takes_any_bytes(data: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "any.warc")
        for start in (b"", b"WARC/1.1\r\n"):
            path.write_bytes(start + data)
            assert check(path), "a few bytes are no record"
