"""The plots as values of plotly.js: traces and layout, plain JSON.

Colours are names of CSS variables (`--c1` ...), which the page replaces in light and dark.
"""

from __future__ import annotations

import math
from typing import Any

from webcrawl.tools.report.columns import STAGE_NAMES
from webcrawl.tools.report.report import Report
from webcrawl.tools.report.state import FUNNEL, HOSTS
from webcrawl.tools.report.tables import Table

Plot = dict[str, Any]
_SHORT = {"E": "taken", "H": "host", "D": "DNS", "I": "IP", "R": "robots", "C": "crawled"}


def plots(report: Report) -> dict[str, Plot]:
    """Each plot by its name. Plots without data are left out."""
    tables = report.tables
    made = {
        "funnel": _funnel(tables["funnel"]),
        "levels": _levels(tables["levels"]),
        "latency": _latency(tables["latency_distribution"]),
        "host_sizes": _host_sizes(tables["host_sizes"]),
        "page_bytes": _sizes(tables["page_bytes"], "bytes per document"),
        "page_links": _sizes(tables["page_links"], "links per document"),
        **_over_time(tables["series"]),
    }
    if "tokens" in tables:
        made["tokens"] = _sizes(tables["tokens"], "tokens per document")
    return {name: plot for name, plot in made.items() if plot["data"]}


def _plot(data: list[Plot], x: Plot | None = None, y: Plot | None = None, **layout: Any) -> Plot:
    return {"data": data, "layout": {"xaxis": x or {}, "yaxis": y or {}, **layout}}


def _title(text: str, **more: Any) -> Plot:
    return {"title": {"text": text}, **more}


def _log(text: str, values: list[float]) -> Plot:
    """A logarithmic axis for `values`; 1,000 is 1k. A bar of the least value can be seen."""
    low, high = (min(values), max(values)) if values else (1, 10)
    bounds = [math.log10(low * 0.7), math.log10(high * 1.4)]
    return _title(text, type="log", range=bounds, exponentformat="SI", minexponent=2)


def _funnel(table: Table) -> Plot:
    rows = [row for row in table.records() if row["stage"] != HOSTS]
    trace = {
        "type": "funnel",
        "y": [f"{row['stage']} {_SHORT[row['stage']]}" for row in rows],
        "x": [row["count"] for row in rows],
        "customdata": [row["meaning"] for row in rows],
        "texttemplate": "%{value:,} (%{percentInitial:.1%})",
        "hovertemplate": "%{y}: %{value:,}<br>%{customdata}<extra></extra>",
        "textposition": "auto",
        "marker": {"color": "--c1"},
        "connector": {"fillcolor": "--faint", "line": {"width": 0}},
    }
    return _plot(
        [trace] if rows else [], {"visible": False}, {"type": "category"}, showlegend=False
    )


def _over_time(table: Table) -> dict[str, Plot]:
    """Four plots with the same time axis; none for fewer than two points."""
    elapsed = table.column("elapsed_s")
    if len(elapsed) < 2:
        return {}
    unit, per_unit = ("hours", 3600.0) if elapsed[-1] > 7200 else ("seconds", 1.0)
    x = [round(each / per_unit, 4) for each in elapsed]
    axis = _title(f"{unit} since the start of the crawl", rangemode="tozero")

    def line(column: str, name: str, color: str = "--c1", **more: Any) -> Plot:
        y = [round(each, 3) for each in table.column(column)]
        look = {"color": color, "width": 1.5}
        return {
            "type": "scatter", "mode": "lines", "x": x, "y": y, "line": look, "name": name, **more
        }  # fmt: skip

    def plot(title: str, *lines: Plot, **layout: Any) -> Plot:
        return _plot([*lines], axis, _title(title, rangemode="tozero"), **layout)

    mbps = "Mbit a second"
    return {
        "speed": plot(
            "pages a second",
            line("pages_per_s", "pages a second"),
            line("mbps", mbps, "--c2", yaxis="y2"),
            yaxis2=_title(mbps, overlaying="y", side="right", rangemode="tozero", tickmode="auto"),
        ),
        "under_way": plot("fetches under way", line("under_way", "fetches under way")),
        "frontier": plot("URLs queued", line("pending", "URLs queued", fill="tozeroy")),
        "rates": plot(
            "per second",
            *(
                line(f"{count}_per_s", f"{letter} {_SHORT[letter]}", f"--c{n}")
                for n, (letter, count, _) in enumerate(FUNNEL, 1)
            ),
        ),
    }


def _levels(table: Table) -> Plot:
    rows = [row for row in table.records() if any(list(row.values())[1:])]
    traces = [
        {
            "type": "bar",
            "name": shown,
            "x": [row["level"] for row in rows],
            "y": [row[name] or 0 for row in rows],
            "marker": {"color": color},
            "hovertemplate": "level %{x}: %{y:,} " + shown + "<extra></extra>",
        }
        for name, shown, color in (
            ("fetched", "fetched", "--c1"),
            ("dropped", "dropped", "--c3"),
            ("pending", "queued", "--c4"),
        )
        if any(row[name] for row in rows)
    ]
    axis = _title("level (1 is the home page)", dtick=1)
    return _plot(traces, axis, _title("URLs"), barmode="stack", bargap=0.25)


def _latency(table: Table) -> Plot:
    """The share of times below each bound, by stage: a line that is further left is quicker."""
    traces = []
    for (stage, name), n in zip(STAGE_NAMES.items(), (1, 2, 3, 6), strict=True):
        rows = [row for row in table.records() if row["stage"] == stage]
        total, seen = sum(row["times"] for row in rows), 0
        x, y = [], []
        for row in rows:
            seen += row["times"]
            x.append(round(row["below_ms"], 3))
            y.append(seen / total)
        if rows:
            traces.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": name,
                    "x": [rows[0]["from_ms"], *x],
                    "y": [0, *y],
                    "line": {"color": f"--c{n}", "width": 2},
                    "hovertemplate": "%{y:.1%} below %{x:.3s} ms<extra>" + name + "</extra>",
                }
            )
    return _plot(
        traces,
        _log("milliseconds", [x for trace in traces for x in trace["x"]]),
        _title("share of requests", tickformat=".0%", range=[0, 1.02]),
    )


def _host_sizes(table: Table) -> Plot:
    rows = table.records()
    documents = [row["documents"] for row in rows]
    hosts = sum(row["hosts"] for row in rows)
    traces = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": "exactly n",
            "x": documents,
            "y": [row["hosts"] for row in rows],
            "marker": {"color": "--c1", "size": 6, "opacity": 0.75},
            "hovertemplate": "%{y:,} hosts with %{x:,} documents<extra></extra>",
        },
        {
            "type": "scatter",
            "mode": "lines",
            "name": "n or more",
            "x": documents,
            "y": [row["share_with_as_many"] * hosts for row in rows],
            "line": {"color": "--c2", "width": 2, "shape": "hv"},
            "hovertemplate": "%{y:,.0f} hosts with %{x:,} documents or more<extra></extra>",
        },
    ]
    x, y = _log("documents per host (n)", documents), _log("hosts", [1, max(hosts, 1)])
    return _plot(traces if rows else [], x, y)


def _sizes(table: Table, text: str) -> Plot:
    """Documents by size; a value of zero has no place on a logarithmic axis."""
    rows = [row for row in table.records() if row["from"] > 0]
    counts = [row["documents"] for row in rows]
    middles = [math.sqrt(row["from"] * row["below"]) for row in rows]
    trace = {
        "type": "bar",
        "x": middles,
        "width": [0.92 * (row["below"] - row["from"]) for row in rows],
        "y": counts,
        "customdata": [[row["from"], row["below"]] for row in rows],
        "marker": {"color": "--c1", "line": {"width": 0}},
        "hovertemplate": "%{customdata[0]:,} to below %{customdata[1]:,}: %{y:,}<extra></extra>",
    }
    x, y = _log(text, middles), _log("documents", [1, *counts])
    return _plot([trace] if rows else [], x, y, showlegend=False)
