"""Counts, time series and frontier of a crawl: what the crawl log does not have."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from webcrawl.frontier.disk.inspection import Inspection
from webcrawl.frontier.store import StoreError
from webcrawl.parse.urls import host_of, level_of
from webcrawl.report.lines import named_counts, per_second
from webcrawl.report.series import read_series
from webcrawl.tools.report.folder import CrawlFolder, NoCrawlError
from webcrawl.tools.report.logtable import Waiting

Point = dict[str, Any]
_POINTS_MAX = 4_000  # a series has 2,000 at most
# Each stage of the funnel: its letter in the stats lines, its count, and what it counts.
HOSTS = "D"  # counts hosts, the other stages count URLs
FUNNEL = (
    ("E", "extracted", "URLs taken from the queue"),
    ("H", "host_passed", "of these, within the caps per host and domain"),
    (HOSTS, "resolved", "hosts found in DNS"),
    ("I", "ip_passed", "of H, within the cap per IP address"),
    ("R", "robots_passed", "of I, allowed by robots.txt"),
    ("C", "crawled", "of R, answered: pages crawled"),
)


@dataclass(slots=True)
class CrawlState:
    """Counts by name (docs/watching.md), and their source; the points of the time series."""

    counts: dict[str, float] = field(default_factory=dict)
    source: str = ""  # "frontier", "report.json" or "time series"; "" without any
    elapsed_s: float = 0.0
    points: list[Point] = field(default_factory=list)
    finish_reason: str = ""  # "" if the crawl runs or was killed
    is_running: bool | None = None  # None: not known, since no JOBDIR was given
    spider: str = ""

    @property
    def text(self) -> str:
        """How the crawl is, in words."""
        if self.is_running:
            return "running"
        if self.finish_reason:
            done = self.finish_reason == "finished"
            return "finished" if done else f"ended: {self.finish_reason}"
        return "killed" if self.is_running is False else "running or killed"


def read_state(folder: CrawlFolder) -> CrawlState:
    """O(points). NoCrawlError if the frontier is damaged."""
    states = [_read_part(part) for part in folder.parts if not part.is_past]
    return states[0] if len(states) == 1 else merged(states)


def merged(states: list[CrawlState]) -> CrawlState:
    """The state of a crawl from those of its hubs.

    The time is that of the hub that ran longest. The points of the series are its points, with
    the counts that the others had then, by the clocks of their machines: exact at the end only.
    """
    base = max(states, key=lambda state: state.elapsed_s)
    running = [state.is_running for state in states if state.is_running is not None]
    reasons = list(dict.fromkeys(state.finish_reason for state in states))
    return CrawlState(
        counts=_sum([state.counts for state in states]),
        source=", ".join(dict.fromkeys(state.source for state in states if state.source)),
        elapsed_s=base.elapsed_s,
        points=_points_of_all(base.points, [s.points for s in states if s is not base]),
        finish_reason="" if "" in reasons else ", ".join(reasons),
        is_running=any(running) if running else None,
        spider=next((state.spider for state in states if state.spider), ""),
    )


def _sum(counts: list[dict[str, float]]) -> dict[str, float]:
    """Each count of all hubs; of `earlier_s`, a time that passes for all at once, the largest."""
    total: dict[str, float] = {}
    for name in dict.fromkeys(itertools.chain(*counts)):
        values = [each.get(name, 0) for each in counts]
        total[name] = max(values) if name == "earlier_s" else sum(values)
    return total


def _points_of_all(base: list[Point], others: list[list[Point]]) -> list[Point]:
    """The points of `base`, with the counts and the memory of all. O(n log n)."""

    def time_of(point: Point) -> str:
        return str(point.get("time"))

    ordered = [sorted(points, key=time_of) for points in others]
    found = []
    for point in base:
        same_time = [point]
        for points in ordered:
            is_last = point is base[-1]
            at = len(points) if is_last else bisect_right(points, time_of(point), key=time_of)
            same_time += points[at - 1 : at] if at else []
        total = {"counts": _sum([each.get("counts", {}) for each in same_time])}
        found.append(point | total | {"rss_bytes": sum(p.get("rss_bytes", 0) for p in same_time)})
    return found


def _read_part(folder: CrawlFolder) -> CrawlState:
    """The state of one hub."""
    points = read_points(folder.series)
    state = CrawlState(points=points, is_running=folder.is_running)
    report = folder.final_report
    last = points[-1] if points else {}
    state.spider = folder.spider or str(report.get("spider", ""))
    state.elapsed_s = max(report.get("elapsed_s", 0.0), last.get("t", 0.0))
    # report.json is of the last run that ended. A later one has, or left, a log that is not packed.
    if report and not state.is_running and all(log.suffix == ".gz" for log in folder.logs):
        state.is_running = False
        state.finish_reason = str(report.get("finish_reason", ""))
        state.counts, state.source = report.get("counts", {}), "report.json"
    elif last:
        state.counts, state.source = last.get("counts", {}), "time series"
    if folder.frontier is not None:
        try:
            with closing(Inspection(folder.frontier)) as frontier:
                state.counts = state.counts | named_counts(frontier.counters)
        except StoreError as error:
            raise NoCrawlError(str(error)) from None
        state.source = "frontier"
    return state


def read_points(path: Path) -> list[Point]:
    """The points of a time series, in the order of time; a torn line is left out."""
    if not path.exists():
        return []
    points = itertools.islice(read_series(path), _POINTS_MAX)
    return sorted(points, key=lambda point: float(point["t"]))


def speeds(points: list[Point]) -> Iterator[dict[str, float]]:
    """For each point but the first: what happened since the point before, per second."""
    for before, now in itertools.pairwise(points):
        over_s = now["t"] - before["t"]
        if over_s <= 0:
            continue
        was, counts = before.get("counts", {}), now.get("counts", {})

        def grown(*names: str, was: Point = was, counts: Point = counts) -> float:
            return max(0.0, float(sum(counts.get(name, 0) - was.get(name, 0) for name in names)))

        yield {
            "elapsed_s": now["t"],
            "pages_per_s": per_second(grown("crawled"), over_s),
            "mbps": per_second(grown("page_bytes", "robots_bytes") * 8e-6, over_s),
            "under_way": counts.get("under_way", 0),  # a stage's own counts overlap: page, archive
            "pending": counts.get("pending", 0),
            **{f"{name}_per_s": per_second(grown(name), over_s) for _, name, _ in FUNNEL},
            "links_per_s": per_second(grown("links"), over_s),
            "rss_mb": now.get("rss_bytes", 0) / 1e6,
        }


def waiting(folder: CrawlFolder) -> Iterator[Waiting]:
    """URL, host, level and whether it is a seed, of each URL queued or under way. 4 µs each."""
    for part in folder.parts:
        if part.is_past or part.frontier is None:
            continue
        with closing(Inspection(part.frontier)) as frontier:
            for link in frontier.pending_links():
                is_seed = not link.via and link.depth == 0
                yield link.url, host_of(link.url), level_of(link.url), is_seed
