"""Finds what takes all captures to know, as tables of a DuckDB on disk.

- `part`: the rows of all parts, with `number`: the WARC file's place and the offset in one.
- `original`: for each revisit with a known original its columns, as `of_...`. A 304 may name a
  capture that is a revisit: then the original is that one's.
- `near_duplicate`: `number` of a page, and `first`, that of the first page with nearly the same
  text. `neardup.mark` fills it from `page`: `number` and `sketch` of each page.
- `superseded`: `number` of captures that a later answer replaced; `logged`: files with a crawl log.
- `robots`: what the newest robots.txt of an origin says about the use of its pages.

Memory: MEMORY for DuckDB, which moves the rest to the disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import duckdb

from webcrawl.tools.corpus.neardup import mark
from webcrawl.tools.corpus.parts import in_quotes
from webcrawl.tools.corpus.rows import ROBOTS_PATH

MEMORY = "192MB"
# Of a revisit these are its original's.
INHERITED = (
    *("title", "declared_language", "detected_language", "language_score", "language_share"),
    *("content_languages", "content_charset", "words", "text_length", "main_text_length"),
    *("simhash", "texts_in", "texts_at", "content_mime_type", "content_mime_detected"),
    *("noindex", "noarchive", "nofollow", "content_usage", "tdm_reservation", "license"),
    *("content_truncated", "fetch_status"),
)
PORT = "coalesce(url_port, CASE url_protocol WHEN 'https' THEN 443 ELSE 80 END)"
_IS_SUCCESS = "fetch_status BETWEEN 200 AND 299"
_SECOND = 1_000_000  # microseconds

_ORIGINAL = f"""
CREATE TABLE revisit AS
    SELECT number, refers_url, refers_time, refers_id, content_digest FROM part
    WHERE is_revisit AND (refers_url IS NOT NULL OR refers_id IS NOT NULL);
UPDATE revisit SET refers_url = named.refers_url, refers_time = named.refers_time,
        refers_id = named.refers_id
    FROM part AS named WHERE named.is_revisit AND named.number <> revisit.number
        AND named.url = revisit.refers_url AND epoch_us(named.fetch_time) = revisit.refers_time;
CREATE TABLE original AS
    WITH candidate AS (
        SELECT revisit.number AS revisit_number, part.number,
            epoch_us(fetch_time) <> revisit.refers_time AS is_inexact,
            part.content_digest IS DISTINCT FROM revisit.content_digest AS differs
        FROM part JOIN revisit ON part.url = revisit.refers_url
            AND epoch_us(fetch_time) // {_SECOND} = revisit.refers_time // {_SECOND}
        WHERE NOT is_revisit
        UNION ALL
        SELECT revisit.number, part.number, false,
            part.content_digest IS DISTINCT FROM revisit.content_digest
        FROM part JOIN revisit ON warc_record_id = unhex(revisit.refers_id) WHERE NOT is_revisit
    ), chosen AS (
        SELECT revisit_number, number FROM candidate
        QUALIFY row_number() OVER (
            PARTITION BY revisit_number ORDER BY is_inexact, differs, number
        ) = 1
    )
    SELECT revisit_number AS number, chosen.number AS of_number,
        if(superseded.number IS NULL, chosen.number, NULL) AS of_first,
        warc_filename AS refers_to_file, warc_record_offset::BIGINT AS refers_to_offset,
        {", ".join(f"part.{name} AS of_{name}" for name in INHERITED)}
    FROM chosen JOIN part USING (number) LEFT JOIN superseded USING (number);
"""
_ROBOTS = f"""
CREATE TABLE robots AS
    SELECT url_protocol AS protocol, url_host_name AS host, {PORT} AS port,
        max_by(coalesce(part.content_usage, of_content_usage), (fetch_time, number))
            AS robots_usage
    FROM part LEFT JOIN original USING (number)
    WHERE url_path = '{ROBOTS_PATH}' AND part.{_IS_SUCCESS} GROUP BY ALL;
"""
_NEAR = """
CREATE TABLE near_duplicate (number BIGINT, first BIGINT);
CREATE TABLE page AS
    SELECT number, sketch FROM part ANTI JOIN superseded USING (number)
    WHERE sketch IS NOT NULL ORDER BY number;
"""
_LOG = """
CREATE TABLE superseded (number BIGINT);
CREATE TABLE logged (name VARCHAR);
"""
_READ_LOG = """
CREATE TEMP TABLE line AS
    SELECT file.number, name, "offset", "end" IN ('retried', 'lost') AS is_superseded
    FROM read_json(?, format = 'newline_delimited', ignore_errors = true,
        columns = {'end': 'VARCHAR', 'warc': 'VARCHAR', 'offset': 'BIGINT'})
    JOIN file ON name = warc WHERE "end" IS NOT NULL;
"""
_USE_LOG = """
INSERT INTO logged SELECT DISTINCT name FROM line;
INSERT INTO superseded
    SELECT DISTINCT number + coalesce("offset", 0) FROM line WHERE is_superseded;
"""


def resolve(
    connection: duckdb.DuckDBPyConnection,
    warcs: Sequence[str],
    parts: Sequence[Path],
    logs: Sequence[Path],
) -> None:
    """Make the tables. `warcs`: the names of all files, in order; `logs`: crawl logs. duckdb.Error.

    A WARC file's offsets fit into 31 bits (`rows.OFFSET_MAX`).
    """
    execute = connection.execute
    execute("CREATE TABLE file (number BIGINT, name VARCHAR)")
    connection.executemany(
        "INSERT INTO file VALUES (?, ?)", [(n << 31, name) for n, name in enumerate(warcs)]
    )
    execute(f"CREATE VIEW part AS {rows_of(parts)}")
    execute(_LOG)
    if logs:
        execute(_READ_LOG, [list(map(str, logs))])
        execute(_USE_LOG)
    execute(_ORIGINAL)
    execute(_ROBOTS)
    execute(_NEAR)
    mark(connection)


def rows_of(parts: Sequence[Path]) -> str:
    """The query of the rows of some parts, with their `number`."""
    return (
        "SELECT rows.*, file.number + warc_record_offset AS number"
        f" FROM read_parquet([{', '.join(map(in_quotes, parts))}]) AS rows"
        " JOIN file ON file.name = warc_filename"
    )
