"""Joins log, index, feed and archive of a crawl in DuckDB, as the tables of a corpus are made."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import duckdb

from tests.crawl.crawllog import log_lines
from tests.crawl.knownsite import Record, records
from webcrawl.warc.index import index_path

_TABLES = """
CREATE TABLE record (warc VARCHAR, place BIGINT, url VARCHAR, status INTEGER, is_304 BOOLEAN);
CREATE TABLE line (warc VARCHAR, place BIGINT, url VARCHAR, status INTEGER, "end" VARCHAR);
CREATE TABLE entry (warc VARCHAR, place BIGINT, url VARCHAR, status INTEGER);
CREATE TABLE item (warc VARCHAR, place BIGINT, url VARCHAR, status INTEGER, superseded BOOLEAN);
"""
_ORPHANS = {
    "a record without exactly one line": """
        SELECT record.*, count("end") AS lines, list("end") FROM record
        LEFT JOIN line USING (warc, place, url, status) GROUP BY ALL HAVING lines != 1""",
    "a line without a record": """
        SELECT * FROM line WHERE warc IS NOT NULL AND (warc, place) NOT IN
        (SELECT (warc, place) FROM record)""",
    "a record without exactly one entry of the index": """
        SELECT record.*, count(entry.warc) AS entries FROM record
        LEFT JOIN entry USING (warc, place, url, status)
        WHERE NOT is_304 GROUP BY ALL HAVING entries != 1""",
    "an entry of the index without a record": """
        SELECT * FROM entry ANTI JOIN record USING (warc, place)""",
    "an item without a record": """
        SELECT * FROM item ANTI JOIN record USING (warc, place, url, status)""",
    "an item and a line that disagree on what is superseded": """
        SELECT * FROM item JOIN line USING (warc, place)
        WHERE "end" != 'lost' AND superseded != ("end" = 'retried')
    """,
}


def assert_joined(*folders: Path, feeds: Iterable[Path] = ()) -> dict[str, int]:
    """Assert that no side in `folders` has an orphan; the lines with a record, by `end`."""
    db = duckdb.connect()
    db.execute(_TABLES)
    for path in (path for folder in folders for path in sorted(folder.glob("*.warc.gz"))):
        answers = [each for each in records(path) if each.type in ("response", "revisit")]
        _insert(db, "record", [
            (path.name, each.offset, each.url, _status(each.block), _is_304(each))
            for each in answers
        ])  # fmt: skip
        entries = [line.split(" ", 2)[2] for line in index_path(path).read_text().splitlines()]
        _insert(db, "entry", [
            (each["filename"], int(each["offset"]), each["url"], int(each["status"]))
            for each in map(json.loads, entries)
        ])  # fmt: skip
    _insert(db, "line", [
        (each.get("warc"), each.get("offset"), each["url"], each.get("status"), each["end"])
        for folder in folders for each in log_lines(folder)
    ])  # fmt: skip
    items = [json.loads(line) for path in feeds for line in path.read_text().splitlines()]
    _insert(db, "item", [
        (each["warc_filename"], each["warc_record_offset"], each["url"], each["status"],
         each["superseded"])
        for each in items
    ])  # fmt: skip
    for what, query in _ORPHANS.items():
        assert not (found := db.sql(query).limit(5).fetchall()), (what, found)
    counted = 'SELECT "end", count(*) FROM line WHERE warc IS NOT NULL GROUP BY 1'
    return dict(db.sql(counted).fetchall())


def _insert(db: duckdb.DuckDBPyConnection, table: str, rows: list[Any]) -> None:
    if rows:
        places = ", ".join("?" * len(rows[0]))
        db.executemany(f"INSERT INTO {table} VALUES ({places})", rows)


def _is_304(record: Record) -> bool:
    """An index has no line for it."""
    return "server-not-modified" in record.fields.get("warc-profile", "")


def _status(block: bytes) -> int:
    return int(block.split(None, 2)[1])
