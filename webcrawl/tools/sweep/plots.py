"""Draws curves and bars as an SVG file, one panel below the other, with matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.figure import Figure

WIDTH, HEIGHT = 8.0, 2.4  # of a panel, inches
_MARKED = 20  # a line with fewer points shows each of them


class Line(NamedTuple):
    """One curve, or one colour of stacked bars. `label` is "" where there is only one."""

    label: str
    x: Sequence[float]
    y: Sequence[float]


class Panel(NamedTuple):
    """One quantity. Its axis begins at 0, so that a flat curve looks flat.

    With `doubling`, x has equal distances from 8 to 16 and from 16 to 32, and marks at powers
    of two. With `bars`, the lines are stacked bars.
    """

    y_label: str
    x_label: str
    lines: Sequence[Line]
    doubling: bool = False
    bars: bool = False


def save(path: Path, title: str, panels: Sequence[Panel]) -> None:
    """Write the SVG file. The same figures make the same file."""
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "webcrawl"}):
        figure = Figure(figsize=(WIDTH, HEIGHT * len(panels) + 0.4), layout="constrained")
        figure.suptitle(title)
        for axes, panel in zip(figure.subplots(len(panels), squeeze=False), panels, strict=True):
            _draw(axes[0], panel)
        figure.savefig(path, format="svg", metadata={"Date": None})


def _draw(axes: Any, panel: Panel) -> None:
    axes.set_ylabel(panel.y_label)
    axes.set_xlabel(panel.x_label)
    axes.grid(axis="y", alpha=0.4)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    if panel.doubling:
        axes.set_xscale("log", base=2)
        x = panel.lines[0].x
        marks = [each for each in x if log2(each).is_integer()] or x
        axes.set_xticks(marks)
        axes.xaxis.set_major_formatter("{x:g}")  # a logarithmic axis has brought its own
        axes.minorticks_off()
    if panel.bars:
        bottom = [0.0] * len(panel.lines[0].x)
        for line in panel.lines:
            axes.bar(line.x, line.y, bottom=bottom, label=line.label)
            bottom = [a + b for a, b in zip(bottom, line.y, strict=True)]
        axes.set_xticks(panel.lines[0].x)
    else:
        for line in panel.lines:
            marker = "o" if len(line.x) < _MARKED else ""
            axes.plot(line.x, line.y, label=line.label, marker=marker)
    axes.set_ylim(0, 1.08 * axes.dataLim.y1 or 1.0)
    if any(line.label for line in panel.lines):
        axes.legend()
