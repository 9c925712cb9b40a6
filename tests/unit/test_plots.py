"""Plots: each panel has its lines, within its frame. Looked at by eye: docs/performance.md."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

SVG = "{http://www.w3.org/2000/svg}"


def texts(path: Path) -> list[str]:
    return [each.text or "" for each in ET.parse(path).iter(f"{SVG}text")]


def drawing() -> Any:
    return import_module("webcrawl.tools.sweep.plots")  # a second, for one worker alone


def test_a_plot_has_its_labels_and_marks(tmp_path: Path) -> None:
    plots = drawing()
    x = [8, 16, 24, 32]
    curves = [
        plots.Curve("flat", "fetches", "", x, [5, 5, 5, 5]),
        *(plots.Curve("nothing", "minutes", label, x, [0, 0, 0, 0]) for label in "ab"),
    ]
    plots.save(tmp_path / "plot.svg", "a & <b>", curves)
    found = texts(tmp_path / "plot.svg")
    assert {"a & <b>", "flat", "nothing", "fetches", "minutes", "a", "b", "8", "16", "32"} <= {
        *found
    }
    assert "24" not in found  # between the powers of two


def test_the_same_figures_make_the_same_file(tmp_path: Path) -> None:
    plots = drawing()
    for name in "ab":
        plots.save(tmp_path / name, "title", [plots.Curve("y", "x", "", [1, 2], [1, 2])])
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
