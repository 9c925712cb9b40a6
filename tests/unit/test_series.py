"""The file of the time series: bounded, whole after a kill, as it was after a failure."""

from __future__ import annotations

import os
import resource
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from webcrawl.report.series import (
    FIRST_INTERVAL_S,
    POINTS_MAX,
    SeriesFile,
    read_series,
)


def points(path: Path) -> list[dict[str, Any]]:
    return list(read_series(path))


def write(file: SeriesFile, *times: float) -> None:
    for elapsed_s in times:
        file.append({"t": elapsed_s})


def test_points_are_lines_in_order_with_the_number_of_the_run(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "s.jsonl"
    write(SeriesFile(path), 0, 10)
    write(SeriesFile(path), 12)
    write(SeriesFile(path), 15)
    assert [(p["t"], p["run"]) for p in points(path)] == [(0, 1), (10, 1), (12, 2), (15, 3)]


def test_a_torn_last_line_is_not_read_and_is_cut_off_by_the_next_run(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    write(SeriesFile(path), 0, 10)
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        before = [p["t"] for p in points(path)]
        assert before == [0, 10][: whole[:size].count(b"\n")]
        write(SeriesFile(path), 20)
        assert [p["t"] for p in points(path)] == [*before, 20]


def test_every_second_point_is_left_out_when_there_are_too_many(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    file = SeriesFile(path)
    now, counts = 0.0, []
    for _ in range(3 * POINTS_MAX):
        write(file, now)
        counts.append(file._points)
        now += file.interval_s
    assert max(counts) == POINTS_MAX
    times = [p["t"] for p in points(path)]
    assert len(times) == counts[-1] > POINTS_MAX / 2
    assert times[0] == 0
    gaps = {after - before for before, after in pairwise(times)}
    assert gaps == {file.interval_s}
    assert file.interval_s == 16 * FIRST_INTERVAL_S
    resumed = SeriesFile(path)
    write(resumed, now)
    assert resumed.interval_s == file.interval_s, "the next run keeps the distance"
    assert not list(tmp_path.glob("*.part"))


def test_a_full_disk_leaves_the_file_whole(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    file = SeriesFile(path)
    write(file, 0, 10)
    whole = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 5, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            file.append({"t": 20})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [p["t"] for p in points(path)] == [0, 10]
    write(file, 30)
    assert [p["t"] for p in points(path)] == [0, 10, 30], "once there is room"


def test_a_failed_thinning_leaves_all_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.jsonl"
    file = SeriesFile(path)
    write(file, *range(POINTS_MAX))

    def full(_: int) -> None:
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            write(file, POINTS_MAX)
    assert len(points(path)) == POINTS_MAX + 1
    write(file, POINTS_MAX + 1)
    assert len(points(path)) == POINTS_MAX // 2 + 1


@pytest.mark.parametrize("line", ['{"t": "x"}', "[]", "{", '"t"', '{"t": 1, "run": null}'])
def test_a_file_of_another_kind_is_not_touched(line: str, tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(OSError, match="is no time series"):
        write(SeriesFile(path), 0)
    assert path.read_text() == line + "\n"
