"""The figures of hosts, registered domains, public suffixes and seeds."""

from __future__ import annotations

from typing import Final

import duckdb

from webcrawl.tools.report.tables import Table, queried

# Of each host: URLs requested, documents kept, bytes on the wire, and time of all its requests.
_HOST = """SELECT host,
        count(*) FILTER (kind IN ('page', 'head') AND (tries > 0 OR status IS NOT NULL)
            AND number NOT IN (FROM superseded)) AS visited_urls,
        count(*) FILTER (kind = 'page' AND "end" = 'done' AND reason IS NULL
            AND status BETWEEN 200 AND 299 AND wall IS NULL
            AND number NOT IN (FROM superseded)) AS pages,
        coalesce(sum(size_bytes), 0)::BIGINT AS size_bytes,
        coalesce(sum(total_ms), 0) / 1000 AS time_s
    FROM line GROUP BY host"""


def prepare(log: duckdb.DuckDBPyConnection) -> None:
    """Make the table `web_host`, which all of these figures read. O(lines)."""
    log.execute(
        f"""CREATE TABLE web_host AS SELECT site.host, domain, suffix,
            coalesce(visited_urls, 0) AS visited_urls, coalesce(pages, 0) AS pages,
            coalesce(size_bytes, 0) AS size_bytes, coalesce(time_s, 0) AS time_s,
            coalesce(urls, 0) AS pending_urls
        FROM site LEFT JOIN ({_HOST}) USING (host)
        LEFT JOIN (SELECT host, count(*) AS urls FROM waiting GROUP BY host) USING (host)"""
    )


def registry(log: duckdb.DuckDBPyConnection, is_running: bool | None) -> Table:
    """Every host: what was visited, what is pending, and the seconds spent on its requests.

    A host is being visited while the running crawl has URLs of it queued or under way.
    """
    being_visited = "CASE WHEN ? AND pending_urls > 0 THEN 'yes' ELSE 'no' END"
    if is_running is None:
        being_visited = "CASE WHEN ? IS NULL THEN 'unknown' END"
    return queried(
        log,
        "hosts",
        f"""SELECT host, domain AS registered_domain, visited_urls, pages, pending_urls,
            {being_visited} AS being_visited, round(time_s, 3) AS time_s, size_bytes
        FROM web_host ORDER BY pages DESC, visited_urls DESC, host""",
        is_running,
    )


def _by(column: str, heading: str) -> str:
    domains = ", count(DISTINCT domain) AS registered_domains" if column == "suffix" else ""
    return f"""SELECT {column} AS {heading}{domains}, count(*) AS hosts,
        count(*) FILTER (pages > 0) AS hosts_with_pages, sum(pages)::BIGINT AS pages,
        coalesce(sum(pages) / nullif(sum(sum(pages)) OVER (), 0), 0) AS share,
        sum(visited_urls)::BIGINT AS visited_urls, sum(size_bytes)::BIGINT AS size_bytes
    FROM web_host GROUP BY {column} ORDER BY pages DESC, hosts DESC, 1"""


# The queries of the other figures, by name.
TABLES: Final = {
    # Bot walls in the place of pages, by service and host; a visit (RECRAWL) counts each time.
    "walls": """SELECT wall AS service, host, count(*) AS walls, web_host.pages,
            strftime(max(time), '%Y-%m-%d %H:%M:%S') AS last
        FROM line JOIN web_host USING (host) WHERE wall IS NOT NULL
        GROUP BY wall, host, web_host.pages ORDER BY walls DESC, service, host""",
    # How many hosts have exactly so many documents, and the share of hosts with at least so many.
    # Hosts without a document are left out.
    "host_sizes": """SELECT pages AS documents, count(*) AS hosts,
            sum(count(*)) OVER (ORDER BY pages DESC) / sum(count(*)) OVER () AS share_with_as_many
        FROM web_host WHERE pages > 0 GROUP BY pages ORDER BY pages""",
    "largest_hosts": """SELECT host, pages, pages / sum(pages) OVER () AS share, visited_urls,
            size_bytes, time_s
        FROM web_host WHERE pages > 0 ORDER BY pages DESC, host LIMIT 1000""",
    "registered_domains": _by("domain", "registered_domain"),
    "public_suffixes": _by("suffix", "public_suffix"),
    # Each seed that reached the frontier: its end, and the pages of its host and its domain.
    "seeds": """WITH seed AS (
            SELECT url, host, "end", status, reason, redirect_to FROM outcome
            WHERE via IS NULL AND coalesce(depth, 0) = 0 AND coalesce(redirects, 0) = 0
            UNION ALL
            SELECT url, host, 'pending', NULL, NULL, NULL FROM waiting
            ANTI JOIN outcome USING (url) WHERE is_seed
        ), domain_pages AS (
            SELECT domain, sum(pages)::BIGINT AS pages FROM web_host GROUP BY domain
        )
        SELECT url, "end", status, reason, redirect_to, web_host.pages AS pages_of_host,
            domain AS registered_domain, domain_pages.pages AS pages_of_domain
        FROM seed JOIN web_host USING (host) JOIN domain_pages USING (domain) ORDER BY url""",
}
