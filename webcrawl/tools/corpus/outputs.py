"""Writes the tables and the texts from what `resolve` has found. Each file gets its name when it is
complete, and the same rows make the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import duckdb

from webcrawl.tools.corpus.columns import tables
from webcrawl.tools.corpus.parts import CONVERTED_BACK, Part, in_quotes, publishing, select_json
from webcrawl.tools.corpus.resolve import INHERITED, PORT, rows_of
from webcrawl.tools.corpus.rows import ROBOTS_PATH
from webcrawl.tools.corpus.texts import FIELDS, TEXTS_MAX, joined, with_texts
from webcrawl.tools.corpus.wet import write_wet
from webcrawl.warc.members import member

PARTS = "parts"
_ORDER = "ORDER BY url_surtkey, fetch_time, warc_record_offset"
_DIRECTIVES = ("noindex", "noarchive", "nofollow")

# The columns that are not simply those of a capture. A revisit has those of its original.
_HELD = {
    **{name: f"coalesce(captures.{name}, of_{name})" for name in INHERITED},
    **{name: f"captures.{name} OR coalesce(of_{name}, false)" for name in _DIRECTIVES},
    "fetch_status": "coalesce(nullif(captures.fetch_status, -1), of_fetch_status, -1)",
    "is_superseded": "if(logged.name IS NULL, NULL, superseded.number IS NOT NULL)",
    "near_duplicate_of": "first_file.name || ':' || (near.first - first_file.number)",
    "subset": f"CASE WHEN url_path = '{ROBOTS_PATH}' THEN 'robotstxt'"
    " WHEN coalesce(nullif(captures.fetch_status, -1), of_fetch_status) BETWEEN 200 AND 299"
    " THEN 'warc' ELSE 'crawldiagnostics' END",
    "refers_to_file": "refers_to_file",
    "refers_to_offset": "refers_to_offset",
    "robots_usage": "robots_usage",
}
_JOINED = f"""
    LEFT JOIN original ON original.number = captures.number
    LEFT JOIN superseded ON superseded.number = captures.number
    LEFT JOIN logged ON logged.name = captures.warc_filename
    LEFT JOIN robots ON robots.protocol = url_protocol AND robots.host = url_host_name
        AND robots.port = {PORT}
    LEFT JOIN (
        SELECT number AS page, first FROM near_duplicate
        UNION ALL
        SELECT original.number, coalesce(first, of_first)
        FROM original LEFT JOIN near_duplicate ON near_duplicate.number = of_number
    ) AS near ON near.page = captures.number
    LEFT JOIN file AS first_file ON first_file.number = near.first >> 31 << 31
"""
_ID_AS_TEXT = (
    "if(octet_length(warc_record_id) = 16, 'urn:uuid:' || lower(regexp_replace("
    "hex(warc_record_id), '(.{8})(.{4})(.{4})(.{4})(.{12})', '\\1-\\2-\\3-\\4-\\5')),"
    " decode(warc_record_id))"
)
_READABLE = {
    "fetch_time": "strftime(make_timestamp(epoch_us(fetch_time)), '%Y-%m-%dT%H:%M:%S.%fZ')",
    "warc_record_id": _ID_AS_TEXT,
}


class Filters(NamedTuple):
    """Which captures are in tables and texts. `without`: owners' signals."""

    with_superseded: bool = False
    languages: tuple[str, ...] = ()
    min_words: int = 0
    no_duplicates: bool = False
    without: tuple[str, ...] = ()

    def condition(self) -> str:
        """As SQL. A signal is one of `noindex`, `noarchive`, `nofollow`, `tdm-reservation`, or a
        KEY=VALUE of Content-Usage or Content-Signal; a line of robots.txt counts for each path.
        """
        tests = [] if self.with_superseded else ["is_superseded IS NOT TRUE"]
        if self.languages:
            tests.append(f"detected_language IN ({', '.join(map(in_quotes, self.languages))})")
        if self.min_words:
            tests.append(f"words >= {self.min_words}")
        if self.no_duplicates:
            tests.append("near_duplicate_of IS NULL")
        tests += map(_without, self.without)
        return " AND ".join(tests) or "true"


def _without(signal: str) -> str:
    if signal in _DIRECTIVES:
        return f"NOT coalesce({signal}, false)"
    if signal == "tdm-reservation":
        return "trim(tdm_reservation) IS DISTINCT FROM '1'"
    key, _, value = signal.partition("=")
    pattern = in_quotes(rf"(?i)(^|[\s,;:]){key}\s*=\s*{value}($|[\s,;])")
    return f"NOT regexp_matches(concat_ws(chr(10), content_usage, robots_usage), {pattern})"


class Texts(NamedTuple):
    """`columns`: "text", "main_text" or both; `format`: "parquet", "jsonl" or "wet"."""

    columns: tuple[str, ...]
    format: str


def write_file(
    connection: duckdb.DuckDBPyConnection,
    parts: Sequence[Part],
    folder: Path,
    filters: Filters,
    texts: Texts,
) -> None:
    """Write the table of the WARC file that has `parts`, and its texts. duckdb.Error, OSError."""
    work = folder / PARTS
    files = [part.path_in(work) for part in parts]
    path = folder / f"{stem_of(parts[0].warc.name)}.parquet"
    names = [each.name for each in tables()["captures"]]
    chosen = f"FROM ({_captures(files)}) WHERE {filters.condition()} {_ORDER}"
    if not texts.columns:
        write(connection, f"SELECT {', '.join(names)} {chosen}", path)
        return
    rows = work / "sorted.jsonl"
    replaced = _READABLE if texts.format == "jsonl" else CONVERTED_BACK
    selected = ", ".join(f"{replaced.get(name, name)} AS {name}" for name in names)
    query = f"SELECT {selected}, {', '.join(FIELDS)} {chosen}"
    connection.execute(f"COPY ({query}) TO {in_quotes(rows)} (FORMAT json)")
    if texts.format == "parquet":
        joined_rows = work / "joined.jsonl"
        with joined_rows.open("wb") as file:
            file.writelines(with_texts(*each) for each in joined(rows, work))
        columns = {each.name: each.sql_type for each in tables()["captures"]}
        columns |= dict.fromkeys(texts.columns, "VARCHAR")
        write(connection, select_json(joined_rows, columns, TEXTS_MAX), path)
        joined_rows.unlink()
    else:
        if texts.format == "wet":
            write_wet(joined(rows, work), texts.columns[0], path.with_suffix(".warc.wet.gz"))
        else:
            write_lines(joined(rows, work), path.with_suffix(".jsonl.gz"))
        write(connection, f"SELECT {', '.join(names)} {chosen}", path)
    rows.unlink()


def write_lines(rows: Iterable[tuple[bytes, bytes]], path: Path) -> None:
    """A gzip member for each page with texts; an empty one if there is none: gzip and DuckDB refuse
    a file without a byte.
    """
    with publishing(path) as unfinished, unfinished.open("wb") as file:
        file.writelines(member(with_texts(*each)) for each in rows if each[1])
        if not file.tell():
            file.write(member(b""))


def stem_of(name: str) -> str:
    """The name of a WARC file without its endings, also of one that is not finished."""
    return name.removesuffix(".open").removesuffix(".gz").removesuffix(".warc")


def write(connection: duckdb.DuckDBPyConnection, query: str, path: Path) -> None:
    """Write the rows of `query` to `path`."""
    with publishing(path) as unfinished:
        connection.execute(
            f"COPY ({query}) TO {in_quotes(unfinished)}"
            " (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE_BYTES '16MB')"
        )


def _captures(parts: Sequence[Path]) -> str:
    names = [*(each.name for each in tables()["captures"]), *FIELDS]
    columns = ", ".join(f"{_HELD.get(name, f'captures.{name}')} AS {name}" for name in names)
    return f"SELECT {columns} FROM ({rows_of(parts)}) AS captures {_JOINED}"


_CODES = {
    "200": "= 200",
    "redirPerm": "IN (301, 308)",
    "redirTemp": "IN (302, 303, 307)",
    "3xx": "BETWEEN 300 AND 399 AND status NOT IN (301, 302, 303, 304, 307, 308)",
    "notModified": "= 304",
    "gone": "IN (404, 410)",
    "4xx": "BETWEEN 400 AND 499 AND status NOT IN (404, 410)",
    "5xx": "BETWEEN 500 AND 599",
    "other": "NOT BETWEEN 300 AND 599 AND status <> 200",
}


def write_hosts(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Write the table of hosts: of all captures that are not superseded. duckdb.Error."""
    counted = [
        f"count(*) FILTER ({is_kind} AND status {test})::INTEGER AS {kind}_{code}"
        for kind, is_kind in (("fetch", "NOT is_robots"), ("robots", "is_robots"))
        for code, test in _CODES.items()
    ]
    is_page = "NOT is_robots AND status = 200"
    language = "coalesce(detected_language, 'und')"
    lote = f"count(*) FILTER ({is_page} AND {language} NOT IN ('und', 'eng'))"
    lengths = f"(warc_record_length) FILTER ({is_page})"
    query = f"""
        SELECT any_value(surt_host_name) AS surt_host_name, host AS url_host_name,
            any_value(url_host_tld) AS url_host_tld,
            any_value(url_host_registered_domain) AS url_host_registered_domain,
            max_by(crawl, fetch_time) AS crawl, {", ".join(counted)},
            {lote}::INTEGER AS fetch_200_lote,
            (100 * {lote} // nullif(count(*) FILTER ({is_page}), 0))::INTEGER
                AS fetch_200_lote_pct,
            round(avg{lengths})::INTEGER AS warc_record_length_av,
            quantile_disc(warc_record_length, 0.5) FILTER ({is_page})
                AS warc_record_length_median,
            coalesce(histogram(detected_language) FILTER ({is_page} AND
                detected_language IS NOT NULL), MAP {{}}) AS content_languages,
            coalesce(histogram(wall) FILTER (wall IS NOT NULL), MAP {{}}) AS walls,
            sum(warc_record_length)::BIGINT AS warc_record_bytes,
            coalesce(sum(words) FILTER (NOT is_revisit), 0)::BIGINT AS words
        FROM (
            SELECT part.* EXCLUDE (detected_language), url_host_name AS host,
                coalesce(nullif(part.fetch_status, -1), of_fetch_status, -1) AS status,
                url_path = '{ROBOTS_PATH}' AS is_robots,
                coalesce(part.detected_language, of_detected_language) AS detected_language,
                regexp_extract(url_surtkey, '^[^):]*') AS surt_host_name
            FROM part LEFT JOIN original USING (number) ANTI JOIN superseded USING (number)
        ) GROUP BY host
    """
    names = ", ".join(f"{each.name}::{each.sql_type} AS {each.name}" for each in tables()["hosts"])
    write(connection, f"SELECT {names} FROM ({query}) ORDER BY surt_host_name, url_host_name", path)
