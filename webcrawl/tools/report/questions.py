"""The questions of a homework on web crawling, answered from this crawl.

Source of the questions: Texas A&M, CSCE 463/612, homework 1, part 3, section 1.2.
"""

from __future__ import annotations

import duckdb

from webcrawl.tools.report.tables import Table, listed, one

PAGES_OF_WEB = 10**12  # the size of the web graph that is asked for
HASH_BYTES = 8  # of a URL in the graph
PAGES_A_DAY = 10**10
_DAY_S = 86_400
# Of the robots.txt of a host the last that is not a redirect: its chain may end at another host.
_MEASURED = """SELECT (SELECT avg(coalesce(links, 0)) FROM document),
    (SELECT avg(size_bytes) FROM answered),
    (SELECT count(DISTINCT host) / nullif(count(*), 0) FROM outcome
        WHERE via IS NULL AND coalesce(depth, 0) = 0 AND coalesce(redirects, 0) = 0),
    (SELECT count(DISTINCT host) / nullif(count(*), 0) FROM outcome),
    (SELECT count(*) FILTER (found) / nullif(count(*), 0) FROM (
        SELECT bool_or(ip IS NOT NULL OR reason IN ('blocked_address', 'ip_cap')) AS found
        FROM line GROUP BY host HAVING found OR bool_or(reason = 'dns'))),
    (SELECT count(*) FILTER (status BETWEEN 400 AND 499) / nullif(count(*), 0) FROM (
        SELECT max_by(status, time) AS status FROM line WHERE kind = 'robots'
        AND status IS NOT NULL AND url LIKE '%/robots.txt' GROUP BY url))"""


def questions(log: duckdb.DuckDBPyConnection) -> Table:
    """Each figure with its unit and its formula; a value is empty if nothing was counted."""
    links, size_bytes, new_seed, new_url, with_address, with_4xx = one(log, _MEASURED)
    edges = size = bandwidth = None
    if links is not None:
        edges, size = links * PAGES_OF_WEB, HASH_BYTES * PAGES_OF_WEB * (1 + links)
    if size_bytes is not None:
        bandwidth = size_bytes * 8 * PAGES_A_DAY / _DAY_S / 1e9
    graph = "web graph of a trillion pages"
    bandwidth_by = "average page × 8 bits × 10¹⁰ / 86,400 s"
    address_by = "hosts with an address / hosts looked up"
    rows = (
        ("links a page", links, "links", "links of 2xx pages / 2xx pages"),
        (f"{graph}, edges", edges, "edges", "links a page × 10¹² pages"),
        (f"{graph}, size", size, "bytes", "8 bytes × 10¹² pages × (1 + links a page)"),
        ("average page", size_bytes, "bytes", "bytes on the wire / pages, all HTTP codes"),
        ("bandwidth for 10 billion pages a day", bandwidth, "Gbit/s", bandwidth_by),
        ("new host among the seeds", new_seed, "share", "hosts / seeds"),
        ("new host among all URLs", new_url, "share", "hosts / URLs with a turn"),
        ("valid DNS record of a new host", with_address, "share", address_by),
        ("robots.txt with 4xx", with_4xx, "share", "4xx answers / robots.txt answered"),
    )
    return listed("questions", ("figure", "value", "unit", "formula"), rows)
