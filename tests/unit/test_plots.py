"""Plots: each panel has its lines, within its frame. Looked at by eye: docs/performance.md."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

from webcrawl.report.series import read_series
from webcrawl.tools.sweep.plots import Line, Panel, save
from webcrawl.tools.sweep.sweeps import course

SVG = "{http://www.w3.org/2000/svg}"


def texts(path: Path) -> list[str]:
    return [each.text or "" for each in ET.parse(path).iter(f"{SVG}text")]


def test_a_plot_has_its_labels_and_marks(tmp_path: Path) -> None:
    x = [8, 16, 24, 32]
    panels = [
        Panel("flat", "fetches", [Line("", x, [5, 5, 5, 5])], doubling=True),
        Panel("nothing", "minutes", [Line("a", x, [0, 0, 0, 0]), Line("b", x, [0, 0, 0, 0])]),
    ]
    save(tmp_path / "plot.svg", "a & <b>", panels)
    found = texts(tmp_path / "plot.svg")
    assert {"a & <b>", "flat", "nothing", "fetches", "minutes", "a", "b", "8", "16", "32"} <= {
        *found
    }
    assert "24" not in found  # between the powers of two


def test_the_same_figures_make_the_same_file(tmp_path: Path) -> None:
    panels = [Panel("y", "x", [Line("", [1, 2], [1, 2])], bars=True)]
    for name in "ab":
        save(tmp_path / name, "title", panels)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def point(seconds: float, crawled: int) -> str:
    return f'{{"t": {seconds}, "counts": {{"crawled": {crawled}}}}}\n'


def test_the_course_of_a_crawl(tmp_path: Path) -> None:
    path = tmp_path / "series-1.jsonl"
    lines = [point(10 * n, 20 * n) for n in range(13)]
    path.write_text("".join([*lines, point(130, 260)]) + '{"t": 14')
    points = list(read_series(path))
    assert [each["t"] for each in points] == [*range(0, 140, 10)]  # without the torn line
    (speed,) = course(points[:-1])
    assert speed.y_label == "pages per second"
    assert speed.lines[0].x[0] == 1.0  # minutes: the first mean
    assert set(speed.lines[0].y) == {2.0}


def test_urls_by_level() -> None:
    counts = {
        "crawled": 3,
        "levels/found/1": 4,
        "levels/ended/1": 3,
        "levels/found/10": 6,
    }
    (panel,) = course([{"t": 1.0, "counts": counts}])
    parts = {line.label: [*line.y] for line in panel.lines}
    assert parts == {
        "fetched or dropped": [3] + 9 * [0],
        "queued": [1] + 8 * [0] + [6],
    }
