"""Plots: each panel has its lines, within its frame. Looked at by eye: docs/performance.md."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from xml.etree import ElementTree as ET

SVG = "{http://www.w3.org/2000/svg}"


def texts(path: Path) -> list[str]:
    return [each.text or "" for each in ET.parse(path).iter(f"{SVG}text")]


def test_a_plot_has_its_labels_and_marks(tmp_path: Path) -> None:
    plots = import_module("webcrawl.tools.sweep.plots")  # a second, for one worker alone
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
