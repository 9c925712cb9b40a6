"""The report as a page: index.html, plotly.min.js beside it, and one CSV file per figure.

`static/page.html` has the sections and figures, with their titles and captions. The page needs no
network. Its Content-Security-Policy allows its two scripts, by a random nonce, and nothing else.
Values of the web stand in one block of JSON in which `<`, `>` and `&` are escaped;
`static/report.js` shows them as text.
"""

from __future__ import annotations

import math
import os
import secrets
import shutil
from datetime import UTC, datetime
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]  # it ships no types

from webcrawl import __version__
from webcrawl.base.wording import counted, printable, size_text
from webcrawl.tools.report.columns import WORDS, label_of
from webcrawl.tools.report.plots import plots
from webcrawl.tools.report.report import Report
from webcrawl.tools.report.tables import Table, save_csv
from webcrawl.tools.template import page_template

ROWS_MAX = 2_000  # of a table in the page; its CSV has all
TEXT_MAX = 300  # characters of a value in the page
_SCRIPT = "plotly.min.js"


def write_page(report: Report, folder: Path) -> Path:
    """Write the page and its files, and return the path of index.html. OSError.

    Files of an earlier report are replaced once all new ones are written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    new = Path(mkdtemp(prefix=".new-", dir=folder))
    try:
        for table in report.tables.values():
            save_csv(table, new)
        (new / _SCRIPT).write_text(get_plotlyjs(), "utf-8")
        (new / "index.html").write_text(html(report), "utf-8")
        for path in sorted(new.iterdir(), key=lambda path: path.name == "index.html"):
            os.replace(path, folder / path.name)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return folder / "index.html"


def html(report: Report) -> str:
    """The text of index.html."""

    def rows(names: list[str]) -> dict[str, Any]:
        return {name: _table(report.tables[name]) for name in names}

    page = page_template(
        "webcrawl.tools.report",
        commas="{:,.0f}".format,
        counted=counted,
        duration=duration_text,
        percent="{:.1%}".format,
        rows=rows,
        size=size_text,
    )
    return page.render(
        report=report,
        plots=plots(report),
        nonce=secrets.token_urlsafe(16),
        made=f"{datetime.now(UTC):%Y-%m-%d %H:%M}",
        version=__version__,
    )


def duration_text(seconds: float) -> str:
    hours, rest = divmod(round(seconds), 3600)
    minutes, left = divmod(rest, 60)
    if hours:
        return f"{hours:,} h {minutes} min"
    return f"{minutes} min {left} s" if minutes else f"{seconds:.1f} s"


def _table(table: Table) -> dict[str, Any]:
    rows = table.first(ROWS_MAX + 1)
    total = len(rows) if len(rows) <= ROWS_MAX else sum(1 for _ in table.rows())
    columns: list[dict[str, str | int]] = []
    for name in table.columns:
        label, kind = label_of(name)
        columns.append({"label": label, "kind": kind})
        if kind == "quantity":
            columns[-1]["unit"] = table.columns.index("unit")
    words = [WORDS.get((table.name, column), {}) for column in table.columns]
    return {
        "columns": columns,
        "rows": [
            [_shown(words_of.get(value, value)) for words_of, value in zip(words, row, strict=True)]
            for row in rows[:ROWS_MAX]
        ],
        "total": total,
    }


def _shown(value: Any) -> Any:
    if isinstance(value, str):
        text = printable(value)
        return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}…"
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value
