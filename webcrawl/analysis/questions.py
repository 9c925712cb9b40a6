"""The questions of a homework on web crawling, answered from this crawl.

Source of the questions: Texas A&M, CSCE 463/612, homework 1, part 3, section 1.2.
"""

from __future__ import annotations

import duckdb

from webcrawl.analysis.tables import Table, listed, one

PAGES_OF_WEB = 10**12  # the size of the web graph that is asked for
HASH_BYTES = 8  # of a URL in the graph
PAGES_A_DAY = 10**10
_DAY_S = 86_400


def questions(log: duckdb.DuckDBPyConnection) -> Table:
    """Each figure with its unit and its formula; a value is empty if nothing was counted."""
    (links,) = one(log, "SELECT avg(coalesce(links, 0)) FROM document")
    (size_bytes,) = one(log, "SELECT avg(size_bytes) FROM answered")
    seeds, seed_hosts = one(
        log,
        """SELECT count(*), count(DISTINCT host) FROM outcome
        WHERE via IS NULL AND coalesce(depth, 0) = 0 AND coalesce(redirects, 0) = 0""",
    )
    urls, hosts = one(log, "SELECT count(*), count(DISTINCT host) FROM outcome")
    looked_up, resolved = one(
        log,
        """SELECT count(*), count(*) FILTER (found) FROM (
            SELECT host, bool_or(ip IS NOT NULL OR reason IN ('blocked_address', 'ip_cap')) AS found
            FROM line GROUP BY host HAVING found OR bool_or(reason = 'dns'))""",
    )
    # The last robots.txt of a host that is not a redirect: its chain may end at another host.
    robots, robots_4xx = one(
        log,
        """SELECT count(*), count(*) FILTER (status BETWEEN 400 AND 499) FROM (
            SELECT max_by(status, time) AS status FROM line WHERE kind = 'robots'
            AND status IS NOT NULL AND url LIKE '%/robots.txt' GROUP BY url)""",
    )
    edges = None if links is None else links * PAGES_OF_WEB
    return listed(
        "questions",
        ("figure", "value", "unit", "formula"),
        [
            ("links a page", links, "links", "links of 2xx pages / 2xx pages"),
            ("web graph of a trillion pages, edges", edges, "edges", "links a page × 10¹² pages"),
            (
                "web graph of a trillion pages, size",
                None if links is None else HASH_BYTES * PAGES_OF_WEB * (1 + links),
                "bytes",
                "8 bytes × 10¹² pages × (1 + links a page)",
            ),
            ("average page", size_bytes, "bytes", "bytes on the wire / pages, all HTTP codes"),
            (
                "bandwidth for 10 billion pages a day",
                None if size_bytes is None else size_bytes * 8 * PAGES_A_DAY / _DAY_S / 1e9,
                "Gbit/s",
                "average page × 8 bits × 10¹⁰ / 86,400 s",
            ),
            ("new host among the seeds", _share(seed_hosts, seeds), "share", "hosts / seeds"),
            ("new host among all URLs", _share(hosts, urls), "share", "hosts / URLs with a turn"),
            (
                "valid DNS record of a new host",
                _share(resolved, looked_up),
                "share",
                "hosts with an address / hosts looked up",
            ),
            (
                "robots.txt with 4xx",
                _share(robots_4xx, robots),
                "share",
                "4xx answers / robots.txt answered",
            ),
        ],
    )


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
