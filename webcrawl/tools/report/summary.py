"""The figures of a crawl as a whole: totals, funnel, codes, losses, types, levels, latencies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from http import HTTPStatus
from typing import Final

import duckdb

from webcrawl.parse.urls import MAX_LEVEL
from webcrawl.report.lines import per_second
from webcrawl.tools.report.state import FUNNEL, HOSTS, CrawlState
from webcrawl.tools.report.tables import Row, Table, listed, one, queried

NONE = "(none)"
VALUES_MAX = 1_000  # of media types, character sets and languages, each; the rest is "(other)"
_PHRASES = {status.value: status.phrase for status in HTTPStatus}
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99)


# Queries of one row, whose columns are totals.
_TOTALS = (
    """SELECT count(*) AS urls_with_a_turn, count(*) FILTER ("end" = 'dropped') AS urls_dropped,
        count(*) FILTER ("end" = 'kept') AS urls_kept_for_a_later_try FROM outcome""",
    "SELECT count(*) AS pages_answered, count(DISTINCT host) AS hosts_answered FROM answered",
    """SELECT count(*) AS answers, coalesce(sum(size_bytes), 0) AS page_bytes_on_the_wire,
        coalesce(avg(total_ms), 0) / 1000 AS mean_request_s FROM answer""",
    """SELECT count(*) AS html_pages_kept, coalesce(sum(body_bytes), 0) AS html_bytes_kept,
        count(duplicate_of) AS duplicates, count(near_duplicate_of) AS near_duplicates
    FROM document""",
    # And sitemaps, and requisites. An answer to HEAD is one of the answered.
    """SELECT count(*) AS robots_and_head_requests,
        coalesce(sum(size_bytes) FILTER (kind <> 'head'), 0) AS robots_bytes
    FROM line WHERE kind <> 'page'""",
    "SELECT coalesce(sum(links), 0) AS links_found FROM line WHERE kind = 'page'",
    """SELECT count(DISTINCT domain) AS registered_domains_answered
    FROM site SEMI JOIN answered USING (host)""",
    "SELECT count(*) AS urls_pending FROM waiting",
)


def totals(log: duckdb.DuckDBPyConnection, state: CrawlState) -> dict[str, float]:
    """The totals by name. Sizes in bytes, times in seconds."""
    t: dict[str, float] = {"elapsed_s": elapsed(log, state)}
    for sql in _TOTALS:
        (row,) = queried(log, "totals", sql).records()
        t |= row
    answers, robots_bytes = t.pop("answers"), t.pop("robots_bytes")
    over_s = t["elapsed_s"]
    if state.counts:  # of requisites too, as those that are pending
        t["urls_kept_for_a_later_try"] = sum(counts_of(state, "kept").values())
    return t | {
        "later_visits": answers - t["pages_answered"],
        "pages_per_s": per_second(answers, over_s),
        "mbps": per_second((t["page_bytes_on_the_wire"] + robots_bytes) * 8e-6, over_s),
        "pages_only_by_sitemaps": state.counts.get("sitemaps/only", 0),
        "urls_pending": t["urls_pending"] or state.counts.get("pending", 0),
    }


def counts_of(state: CrawlState, family: str) -> Counter[str]:
    """The counts of the names `family/...`, by what is behind the slash."""
    begin = f"{family}/"
    counts = state.counts.items()
    return Counter({n.removeprefix(begin): int(c) for n, c in counts if n.startswith(begin) and c})


def elapsed(log: duckdb.DuckDBPyConnection, state: CrawlState) -> float:
    """Seconds of all runs. The log is newer than the last point if the crawl runs or was killed."""
    first, logged_time = one(log, "SELECT epoch(min(time)), epoch(max(time)) FROM line")
    if not state.elapsed_s:
        return float(logged_time - first) if first is not None else 0.0
    last = state.points[-1] if state.points else {}
    try:
        newer_s = float(logged_time or 0.0) - datetime.fromisoformat(last["time"]).timestamp()
    except (KeyError, TypeError, ValueError):  # no series, or no point of ours
        return state.elapsed_s
    return max(state.elapsed_s, float(last["t"]) + newer_s)


def funnel(log: duckdb.DuckDBPyConnection, state: CrawlState) -> Table:
    """Each stage with its count, at least that of the next. Without the crawl's counts only those
    that the log has.

    D counts hosts, so it is no share of the URLs.
    """
    counts: dict[str, float] = dict(state.counts)
    if not counts:
        (extracted,) = one(log, "SELECT count(*) FROM outcome")
        (resolved,) = one(log, "SELECT count(DISTINCT host) FROM line WHERE ip IS NOT NULL")
        counts = {"extracted": extracted, "resolved": resolved}
    (counts["crawled"],) = one(log, "SELECT count(*) FROM answer")
    least = 0.0  # the last point of a time series is older than the log of a crawl that runs
    for letter, name, _ in reversed(FUNNEL):
        if letter != HOSTS and (name in counts or name == "extracted"):
            least = counts[name] = max(counts.get(name, 0), least)
    first = counts["extracted"]
    return listed(
        "funnel",
        ("stage", "meaning", "count", "share_of_extracted"),
        (
            (
                letter,
                meaning,
                int(counts[name]),
                counts[name] / (first or 1) if letter != HOSTS else None,
            )
            for letter, name, meaning in FUNNEL
            if name in counts
        ),
    )


def codes(log: duckdb.DuckDBPyConnection) -> Table:
    rows = log.execute(
        """SELECT status, count(*) AS pages, count(*) / sum(count(*)) OVER () AS share,
            sum(size_bytes) AS size_bytes
        FROM answered GROUP BY status ORDER BY status"""
    ).fetchall()
    return listed(
        "codes",
        ("status", "name", "pages", "share", "size_bytes"),
        ((status, _PHRASES.get(status), *more) for status, *more in rows),
    )


def reasons(log: duckdb.DuckDBPyConnection, state: CrawlState) -> Table:
    """Why URLs were lost: those that had a turn, and links that were refused before."""
    rows = log.execute(
        """SELECT reason, "end", count(*) FROM outcome WHERE reason IS NOT NULL
        GROUP BY ALL ORDER BY 3 DESC, 1"""
    ).fetchall()
    logged = {reason for reason, _, _ in rows}
    refused = counts_of(state, "dropped")
    return listed(
        "reasons",
        ("reason", "ended_as", "urls"),
        [*rows, *((why, "refused", n) for why, n in refused.most_common() if why not in logged)],
    )


def values(log: duckdb.DuckDBPyConnection, name: str, column: str, of: str) -> Table:
    """Pages by a text of the answer; `column` and `of` are ours, their values are the web's."""
    ranked = f"""SELECT coalesce(lower(trim({column})), ?) AS value, count(*) AS pages,
            sum(body_bytes) AS body_bytes, row_number() OVER (ORDER BY count(*) DESC, 1) AS rank
        FROM {of} GROUP BY 1"""
    return queried(
        log,
        name,
        f"""SELECT CASE WHEN rank <= ? THEN value ELSE '(other)' END AS {column},
            sum(pages)::BIGINT AS pages, sum(pages) / sum(sum(pages)) OVER () AS share,
            sum(body_bytes)::BIGINT AS body_bytes
        FROM ({ranked}) GROUP BY 1 ORDER BY min(rank)""",
        VALUES_MAX,
        NONE,
    )


def levels(log: duckdb.DuckDBPyConnection, state: CrawlState) -> Table:
    """URLs by level: found, of these fetched, dropped, and pending (kept ones included).

    With a frontier on disk the URLs that wait in it are counted. Else `found` is from the time
    series, and what is left is pending; without either, both are empty.
    """
    ended = {
        level: counts
        for level, *counts in log.execute(
            """SELECT level, count(*) FILTER ("end" = 'done'),
                count(*) FILTER ("end" = 'dropped') FROM outcome GROUP BY level"""
        ).fetchall()
    }
    waiting = dict(log.execute("SELECT level, count(*) FROM waiting GROUP BY level").fetchall())
    found = counts_of(state, "levels/found")

    def rows() -> Iterator[Row]:
        for level in range(1, MAX_LEVEL + 1):
            fetched, dropped = ended.get(level, (0, 0))
            if waiting or state.source == "frontier":
                left = waiting.get(level, 0)
                yield level, fetched + dropped + left, fetched, dropped, left
            elif found:
                left = max(0, found[str(level)] - fetched - dropped)
                yield level, fetched + dropped + left, fetched, dropped, left
            else:
                yield level, None, fetched, dropped, None

    return listed("levels", ("level", "found", "fetched", "dropped", "pending"), rows())


# A look-up is before any kind of request; the other times are of pages.
_MS = """SELECT 'dns' AS stage, dns_ms AS ms FROM line WHERE dns_ms > 0
    UNION ALL SELECT 'connect', connect_ms FROM answer WHERE connect_ms > 0
    UNION ALL SELECT 'first_byte', first_byte_ms FROM answer WHERE first_byte_ms > 0
    UNION ALL SELECT 'total', total_ms FROM answer WHERE total_ms > 0"""
_IN_ORDER = "list_position(['dns', 'connect', 'first_byte', 'total'], stage)"


def quantiles_sql(by: str, value: str, rows: str) -> str:
    """Count, mean, extremes and QUANTILES of `value` by `by`, of the query `rows`.

    A quantile is the smallest value with so large a share. Equal values are counted first, so the
    memory is that of the distinct values, and DuckDB can move them to disk.
    """
    suffix = "_ms" if value == "ms" else ""
    quantiles = ", ".join(
        f"min({value}) FILTER (seen >= {q} * total - 1e-6) AS p{q * 100:.0f}{suffix}"
        for q in QUANTILES
    )
    return f"""SELECT {by}, sum(times)::BIGINT AS times, sum({value} * times) / sum(times)
            AS mean{suffix}, min({value}) AS min{suffix}, {quantiles}, max({value}) AS max{suffix}
        FROM (SELECT *, sum(times) OVER (PARTITION BY {by} ORDER BY {value}) AS seen,
                sum(times) OVER (PARTITION BY {by}) AS total
            FROM (SELECT {by}, {value}, count(*) AS times FROM ({rows}) GROUP BY ALL))
        GROUP BY {by}"""


# The queries of the other figures, by name.
TABLES: Final = {
    # What the visits of pages and sitemaps that were fetched before have found (RECRAWL).
    "visits": """SELECT visit, count(*) AS visits, count(*) / sum(count(*)) OVER () AS share,
            coalesce(sum(size_bytes), 0)::BIGINT AS size_bytes
        FROM line WHERE visit IS NOT NULL GROUP BY visit ORDER BY visits DESC, visit""",
    "latency": f"{quantiles_sql('stage', 'ms', _MS)} ORDER BY {_IN_ORDER}",
    # Ten bins per decade.
    "latency_distribution": f"""SELECT stage, 10 ** (bin / 10) AS from_ms,
            10 ** ((bin + 1) / 10) AS below_ms, count(*) AS times
        FROM (SELECT stage, floor(10 * log10(ms) + 1e-9) AS bin FROM ({_MS}))
        GROUP BY stage, bin ORDER BY {_IN_ORDER}, bin""",
}
