"""The report as a page: index.html, plotly.min.js beside it, and one CSV file per figure.

The page needs no network. Its Content-Security-Policy allows the two scripts of this module, by a
random nonce, and nothing else. Values of the web stand in one block of JSON in which `<`, `>` and
`&` are escaped; `static/report.js` shows them as text.
"""

from __future__ import annotations

import json
import math
import os
import re
import secrets
import shutil
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]  # it ships no types

from webcrawl import __version__
from webcrawl.tools.report.contents import SECTIONS, WORDS, Figure, Section, label_of
from webcrawl.tools.report.csvfiles import save_csv
from webcrawl.tools.report.plots import plots
from webcrawl.tools.report.report import Report
from webcrawl.tools.report.tables import Table
from webcrawl.wording import printable, size_text

ROWS_MAX = 2_000  # of a table in the page; its CSV has all
TEXT_MAX = 300  # characters of a value in the page
_SCRIPT = "plotly.min.js"
_POLICY = "default-src 'none'; script-src 'nonce-{0}'; style-src 'unsafe-inline'; img-src data:"


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
    nonce = secrets.token_urlsafe(16)
    drawn = plots(report)
    sections = [section for section in SECTIONS if any(map(report.tables.get, section.tables))]
    title = f"Crawl {report.folder.crawl}"
    contents = "".join(f'<li><a href="#{s.name}">{escape(s.title)}</a></li>' for s in sections)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY.format(nonce)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{escape(title)}</title>
<style>{_static("report.css")}</style>
</head>
<body>
<div class="page">
<header>
<h1>{escape(title)}</h1><button type="button" id="theme">Dark</button>
<p>{escape(_subtitle(report))}</p>{_part_of(report)}
</header>
<div class="columns">
<nav aria-label="Contents"><ol>{contents}</ol></nav>
<main>
{"".join(_section(section, report, drawn) for section in sections)}
{_footer(report)}
</main>
</div>
</div>
<noscript><p class="page">The tables and plots of this page need JavaScript. The CSV files beside
it have the same numbers.</p></noscript>
<script type="application/json" id="data">{_embedded(_data(report, drawn))}</script>
<script nonce="{nonce}" src="{_SCRIPT}"></script>
<script nonce="{nonce}">{_static("report.js")}</script>
</body>
</html>
"""


def _subtitle(report: Report) -> str:
    spider = f"Spider {report.state.spider}" if report.state.spider else "This crawl"
    return (
        f"{spider}: {report.state.text}. First URL {report.began or '-'}, last"
        f" {report.ended or '-'} UTC. Report of {datetime.now(UTC):%Y-%m-%d %H:%M} UTC,"
        f" webcrawl {__version__}."
    )


def _part_of(report: Report) -> str:
    """A line if hubs are missing."""
    line = report.folder.missing_hubs
    return f"<p><strong>{escape(line)}.</strong></p>" if line else ""


def _section(section: Section, report: Report, drawn: dict[str, Any]) -> str:
    figures = "".join(
        _figure(figure, report.tables[figure.table], figure.plot in drawn)
        for figure in section.figures
        if figure.table in report.tables and not (figure.is_plot_only and figure.plot not in drawn)
    )
    numbers = ""
    if section.name == "summary":
        numbers = _numbers(report)
    note = section.note(report)
    return f"""<section id="{section.name}">
<h2>{escape(section.title)}</h2>
<p>{escape(note)}</p>
{numbers}<div class="{"pair" if section.is_paired else ""}">{figures}</div>
</section>
"""


def _figure(figure: Figure, table: Table, has_plot: bool) -> str:
    plot = f'<div class="plot" data-plot="{figure.plot}"></div>' if has_plot else ""
    rows = ""
    if not figure.is_plot_only:
        rows = f'<div data-table="{table.name}" data-label="{escape(figure.title)}"></div>'
    wide = "" if figure.is_plot_only else ' class="wide"'
    name = f"plot-{figure.plot}" if figure.is_plot_only else f"figure-{table.name}"
    return f"""<figure id="{name}"{wide}>
<h3>{escape(figure.title)}</h3>
<figcaption>{escape(figure.caption)}
<a class="csv" href="{table.name}.csv" download>CSV</a></figcaption>
{plot}{rows}
</figure>
"""


def _numbers(report: Report) -> str:
    items = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
        for name, value in key_numbers(report)
    )
    return f'<dl class="numbers">{items}</dl>'


def key_numbers(report: Report) -> list[tuple[str, str]]:
    """The most useful numbers, as text."""
    t = report.totals
    return [
        ("pages answered", f"{t['pages_answered']:,}"),
        *([("visits after the first", f"{again:,}")] if (again := t["later_visits"]) else []),
        ("HTML pages kept", f"{t['html_pages_kept']:,}"),
        ("HTML kept", size_text(t["html_bytes_kept"])),
        ("total time", duration_text(t["elapsed_s"])),
        ("average request time", f"{t['mean_request_s']:.3f} s"),
        ("average speed", f"{t['pages_per_s']:.1f} pages/s"),
        ("average bandwidth", f"{t['mbps']:.1f} Mbit/s"),
        ("hosts answered", f"{t['hosts_answered']:,}"),
        ("registered domains answered", f"{t['registered_domains_answered']:,}"),
        ("hosts with one page, of those with any", f"{report.one_page_share:.1%}"),
        ("links found", f"{t['links_found']:,}"),
        ("duplicates of an earlier page", f"{t['duplicates']:,}"),
        ("pages that only a sitemap gave", f"{t['pages_only_by_sitemaps']:,.0f}"),
        ("URLs dropped", f"{t['urls_dropped']:,}"),
        ("URLs kept for a later try", f"{t['urls_kept_for_a_later_try']:,}"),
        ("URLs queued", f"{t['urls_pending']:,.0f}"),
    ]


def duration_text(seconds: float) -> str:
    hours, rest = divmod(round(seconds), 3600)
    minutes, left = divmod(rest, 60)
    if hours:
        return f"{hours:,} h {minutes} min"
    return f"{minutes} min {left} s" if minutes else f"{seconds:.1f} s"


def _footer(report: Report) -> str:
    state, source = report.state, report.state.source or "the crawl log alone"
    lines = [
        *(
            ("Crawl log", f"{part.report_dir}, {len(part.logs)} file(s)")
            for part in report.folder.parts
        ),
        ("Counts of the funnel", f"from {source}"),
        ("Time series", f"{len(state.points):,} points"),
    ]
    if report.unreadable:
        lines.append(
            (
                "Lines that could not be read",
                f"{report.unreadable:,}; of a killed crawl the last line may be torn",
            )
        )
    if report.unread:
        lines.append(("Pages missing in the WARC files", f"{report.unread:,}"))
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in lines)
    return f"<footer><dl>{items}</dl></footer>"


def _data(report: Report, drawn: dict[str, Any]) -> dict[str, Any]:
    wanted = {
        figure.table
        for section in SECTIONS
        for figure in section.figures
        if not figure.is_plot_only
    }
    tables = {name: _table(report.tables[name]) for name in wanted if name in report.tables}
    return {"tables": tables, "plots": drawn}


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


def _embedded(value: Any) -> str:
    """JSON that is safe within a script element: no `<`, and no line end of JavaScript."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=True)
    return re.sub("[<>&]", lambda found: f"\\u{ord(found[0]):04x}", text)


def _static(name: str) -> str:
    return (files("webcrawl.tools.report") / "static" / name).read_text("utf-8")
