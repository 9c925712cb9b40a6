"""All figures of a crawl, from its files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import duckdb

from webcrawl.tools.report import distributions, summary, webhosts
from webcrawl.tools.report.archive import Found
from webcrawl.tools.report.folder import CrawlFolder
from webcrawl.tools.report.logtable import open_log, unreadable_lines
from webcrawl.tools.report.questions import questions
from webcrawl.tools.report.state import FUNNEL, CrawlState, read_state, speeds, waiting
from webcrawl.tools.report.tables import Table, listed, one, queried

_LOOKED_AT = "(FROM document WHERE detected_language IS NOT NULL)"
SERIES_COLUMNS = (
    *("elapsed_s", "pages_per_s", "mbps", "under_way", "pending"),
    *(f"{count}_per_s" for _, count, _ in FUNNEL),
    *("links_per_s", "rss_mb"),
)


@dataclass(slots=True)
class Report:
    """The figures by the names of their CSV files. Valid while the log is open."""

    folder: CrawlFolder
    state: CrawlState
    totals: dict[str, float]
    tables: dict[str, Table]
    domain: str = ""  # of --in-degree
    in_degree: dict[str, int] = field(default_factory=dict)
    began: str = ""  # UTC, of the first line
    ended: str = ""
    unreadable: int = 0  # lines of the log
    unread: int = 0  # pages that are missing in the WARC files

    @property
    def walls(self) -> list[tuple[str, int, int]]:
        """(service, bot walls, hosts) of each service, the most frequent first."""
        walls: Counter[str] = Counter()
        hosts: Counter[str] = Counter()
        for service, _, count, *_ in self.tables["walls"].rows():
            walls[service] += count
            hosts[service] += 1
        return [(service, count, hosts[service]) for service, count in walls.most_common()]

    @property
    def hosts_with_pages(self) -> int:
        return sum(self.tables["host_sizes"].column("hosts"))

    @property
    def one_page_share(self) -> float:
        """The share of hosts with one page, of hosts with any."""
        sizes = self.tables["host_sizes"].records()
        ones = sum(row["hosts"] for row in sizes if row["documents"] == 1)
        return ones / self.hosts_with_pages if ones else 0.0


@contextmanager
def open_crawl(folder: CrawlFolder) -> Iterator[tuple[duckdb.DuckDBPyConnection, CrawlState]]:
    """The log and the state of a crawl. NoCrawlError."""
    state = read_state(folder)
    with open_log([part.logs for part in folder.parts], waiting(folder)) as log:
        webhosts.prepare(log)
        yield log, state


def make_report(
    log: duckdb.DuckDBPyConnection,
    folder: CrawlFolder,
    state: CrawlState,
    found: Found | None = None,
    domain: str = "",
) -> Report:
    """The figures of an open crawl. `found` is what its WARC files have, None if not read."""
    totals = summary.totals(log, state)
    form = "'%Y-%m-%d %H:%M:%S'"
    began, ended = one(
        log, f"SELECT strftime(min(time), {form}), strftime(max(time), {form}) FROM line"
    )
    tables = [
        listed("summary", ("name", "value"), totals.items()),
        listed(
            "series",
            SERIES_COLUMNS,
            (tuple(map(each.get, SERIES_COLUMNS)) for each in speeds(state.points)),
        ),
        summary.funnel(log, state),
        summary.codes(log),
        summary.reasons(log, state),
        summary.levels(log, state),
        *_of_documents(log, found),
        webhosts.registry(log, state.is_running),
        *(queried(log, *each) for each in (summary.TABLES | webhosts.TABLES).items()),
        questions(log),
    ]
    report = Report(folder, state, totals, {each.name: each for each in tables}, domain)
    report.began, report.ended = began or "", ended or ""
    report.unreadable = unreadable_lines(log)
    if found is not None:
        report.unread = found.unread
    if found is not None and domain:
        _add_in_degree(report, found)
    return report


def _of_documents(log: duckdb.DuckDBPyConnection, found: Found | None) -> Iterable[Table]:
    values = {
        "bytes": distributions.column("body_bytes"),
        "links": distributions.column("links"),
    }
    names = {"bytes": "page_bytes", "links": "page_links", "tokens": "tokens"}
    if found is not None and found.tokens:
        values["tokens"] = distributions.counted(log, found.tokens)
    return (
        summary.values(log, "media_types", "media_type", "answered"),
        summary.values(log, "charsets", "charset", "document"),
        summary.values(log, "languages", "lang", "document"),
        summary.values(log, "detected_languages", "detected_language", _LOOKED_AT),
        *(distributions.binned(log, names[of], query) for of, query in values.items()),
        distributions.spread({of: distributions.quantiles(log, q) for of, q in values.items()}),
    )


def _add_in_degree(report: Report, found: Found) -> None:
    inside = sum(is_inside for _, is_inside in found.linking)
    report.in_degree = {
        "pages_that_link": len(found.linking),
        "from_inside": inside,
        "from_outside": len(found.linking) - inside,
        "pages_read": found.pages,
    }
    rows = ((url, "inside" if is_inside else "outside") for url, is_inside in found.linking)
    report.tables["in_degree"] = listed("in_degree", ("url", "from"), sorted(rows))
