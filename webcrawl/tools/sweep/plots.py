"""Draws curves as an SVG file, one panel below the other, with matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.figure import Figure

WIDTH, HEIGHT = 8.0, 2.4  # of a panel, inches
_MARKED = 20  # a line with fewer points shows each of them


class Curve(NamedTuple):
    """One curve. Those with one `y_label` share a panel; then each has a `label`."""

    y_label: str
    x_label: str
    label: str
    x: Sequence[float]
    y: Sequence[float]


def save(path: Path, title: str, curves: Sequence[Curve]) -> None:
    """Write the SVG file. The same figures make the same file. Each y axis begins at 0, so that a
    flat curve looks flat.
    """
    panels = list(dict.fromkeys(each.y_label for each in curves))
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "webcrawl"}):
        figure = Figure(figsize=(WIDTH, HEIGHT * len(panels) + 0.4), layout="constrained")
        figure.suptitle(title)
        for axes, panel in zip(figure.subplots(len(panels), squeeze=False), panels, strict=True):
            _draw(axes[0], [each for each in curves if each.y_label == panel])
        figure.savefig(path, format="svg", metadata={"Date": None})


def _draw(axes: Any, curves: Sequence[Curve]) -> None:
    first = curves[0]
    axes.set_ylabel(first.y_label)
    axes.set_xlabel(first.x_label)
    axes.grid(axis="y", alpha=0.4)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    if not first.label:  # of steps: equal distances from 8 to 16 and from 16 to 32
        axes.set_xscale("log", base=2)
        marks = [each for each in first.x if log2(each).is_integer()] or first.x
        axes.set_xticks(marks)
        axes.xaxis.set_major_formatter("{x:g}")  # a logarithmic axis has brought its own
        axes.minorticks_off()
    for curve in curves:
        marker = "o" if len(curve.x) < _MARKED else ""
        axes.plot(curve.x, curve.y, label=curve.label, marker=marker)
    # A crawl that ends within its first second has no point.
    axes.set_ylim(0, 1.08 * max((y for curve in curves for y in curve.y), default=0.0) or 1.0)
    if first.label:
        axes.legend()
