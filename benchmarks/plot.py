"""Plots numbers over time as an SVG file, with one panel below the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

WIDTH, HEIGHT, GAP, LEFT, TOP = 720, 120, 34, 64, 44
COLOURS = ("#1f6f8b", "#b5533c", "#4b7f52", "#7a5195")
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#333}.t{font-size:15px;font-weight:600}"
    ".n{fill:#777;font-size:11px}line{stroke:#ddd}path{fill:none;stroke-width:1.5}"
)


class Panel(NamedTuple):
    """One quantity. Its axis begins at 0, so that a flat curve looks flat."""

    label: str
    values: Sequence[float]


def svg(title: str, x_label: str, x: Sequence[float], panels: Sequence[Panel]) -> str:
    """`x` ascends and is as long as the values of each panel; two points at least."""
    height = TOP + len(panels) * (HEIGHT + GAP) + 20
    total = LEFT + WIDTH + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {height}" width="{total}">',
        f'<style>{STYLE}</style><rect width="100%" height="100%" fill="#fff"/>',
        f'<text class="t" x="{LEFT}" y="22">{title}</text>',
    ]
    for number, panel in enumerate(panels):
        top = TOP + number * (HEIGHT + GAP)
        parts += _panel(panel, x, top, COLOURS[number % len(COLOURS)])
    bottom = height - GAP
    for mark in _marks(x[-1]):
        at = LEFT + WIDTH * mark / x[-1]
        parts.append(
            f'<text class="n" x="{at:.0f}" y="{bottom}" text-anchor="middle">{mark:g}</text>'
        )
    parts.append(
        f'<text class="n" x="{LEFT + WIDTH}" y="{bottom + 16}" text-anchor="end">{x_label}</text>'
    )
    return "\n".join([*parts, "</svg>\n"])


def _panel(panel: Panel, x: Sequence[float], top: int, colour: str) -> list[str]:
    marks = _marks(max(panel.values))
    highest = max(marks[-1], *panel.values) or 1.0

    def y_of(value: float) -> float:
        return top + HEIGHT * (1 - value / highest)

    parts = [f'<text x="{LEFT}" y="{top - 8}">{panel.label}</text>']
    for mark in marks:
        y = y_of(mark)
        parts.append(f'<line x1="{LEFT}" x2="{LEFT + WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(
            f'<text class="n" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{mark:g}</text>'
        )
    points = " ".join(
        f"{LEFT + WIDTH * at / x[-1]:.1f},{y_of(value):.1f}"
        for at, value in zip(x, panel.values, strict=True)
    )
    parts.append(f'<path stroke="{colour}" d="M{points}"/>')
    return parts


def _marks(highest: float) -> list[float]:
    """Round numbers from 0 up to `highest`, three to six of them."""
    step = 1e-3
    while highest / step > 5:
        step *= 2.5 if f"{step:e}".startswith("2") else 2
    return [step * number for number in range(int(highest / step) + 1)]
