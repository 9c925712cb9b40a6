"""The crawl log as tables of DuckDB.

Every value comes from a hostile web, so each is data: the columns are declared, values are bound
as parameters, and no statement is built from a value.

Tables:
- `line`: all lines that can be read, except those that are only of a record of the archive
  (`retried` and `lost`). Fields that a line leaves out are NULL. `hub` is the place of
  the hub in the list of hubs.
- `outcome`: for each URL of a page its final line, else its last one; of a page that was visited
  again (RECRAWL) the last answer that was no bot wall and not the 304 asked for: such a 304 says
  that the page is still what that answer was. An answer to HEAD that ended a URL's turn is a final
  line. Of a URL in the logs of two folders (a hub was restored from a checkpoint) only the last one
  counts.
- `answered`: of these, URLs with an HTTP status. `document`: of these, 2xx whose body was read and
  is no bot wall.
- `answer`: `answered`, and all earlier answers to visits: one row for each request of a page.
- `body`: for each document in the archive the place of its body: of a page that was visited again
  the first record with the same digest, as later ones are revisit records.
- `site`: each host with its registered domain and its public suffix.
- `waiting`: the URLs in the frontier.

Memory: MEMORY_LIMIT for DuckDB, which moves the rest to `folder`; hosts are read one by one. A
million lines take 2.6 s on two cores, and 85 MB of disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import msgspec

from webcrawl.parse.domains import domain_and_suffix
from webcrawl.tools.report.folder import NoCrawlError

Waiting = tuple[str, str, int, bool]  # URL, host, level, whether it is a seed

MEMORY_LIMIT = "384MB"
THREADS = 2
_TEXT, _COUNT, _MS = "VARCHAR", "BIGINT", "DOUBLE"
COLUMNS = {
    "time": "TIMESTAMP",
    "last_visit": "TIMESTAMP",
    "visit": _TEXT,
    **dict.fromkeys(("kind", "url", "host", "end", "reason", "via"), _TEXT),
    **dict.fromkeys(("status", "depth", "level", "redirects", "tries"), "INTEGER"),
    **dict.fromkeys(("size_bytes", "body_bytes", "links", "offset"), _COUNT),
    **dict.fromkeys(("media_type", "charset", "lang", "redirect_to", "digest"), _TEXT),
    "detected_language": _TEXT,
    **dict.fromkeys(("duplicate_of", "near_duplicate_of", "truncated"), _TEXT),
    **dict.fromkeys(("ip", "warc", "wall"), _TEXT),
    **dict.fromkeys(("dns_ms", "connect_ms", "first_byte_ms", "total_ms"), _MS),
}
_STRUCT = ", ".join(f"'{name}': '{kind}'" for name, kind in COLUMNS.items())
_OPTIONS = f"format = 'newline_delimited', ignore_errors = true, columns = {{{_STRUCT}}}"

# A line that is no JSON object (a torn last line, for example) is a row of NULLs.
_FILES = f"SELECT *, ?::INTEGER AS hub FROM read_json(?, {_OPTIONS})"
# URLs that more than one folder has: looked for if the log is of several.
_TWICE = """UNION ALL SELECT md5_number(url) FROM line WHERE kind IN ('page', 'head')
        GROUP BY 1 HAVING min(hub) < max(hub)"""
_DERIVE = """
CREATE VIEW line AS
    SELECT *, rowid AS number FROM read
    WHERE url IS NOT NULL AND host IS NOT NULL AND "end" NOT IN ('retried', 'lost');
CREATE TABLE repeated AS
    WITH kept AS (
        SELECT DISTINCT md5_number(url) AS key FROM line
        WHERE "end" = 'kept' OR visit IS NOT NULL
        {twice}
    )
    SELECT number, "end" = 'done' AND status IS NOT NULL AND (
        visit IS NOT NULL OR row_number() OVER (
            PARTITION BY md5_number(url), visit IS NULL ORDER BY "end" = 'kept', time DESC
        ) = 1
    ) AS is_answer
    FROM line SEMI JOIN kept ON md5_number(url) = key WHERE kind IN ('page', 'head')
    QUALIFY row_number() OVER (
        PARTITION BY md5_number(url) ORDER BY "end" = 'kept',
            coalesce(visit IN ('unanswered', 'refused', 'wall'), false),
            coalesce(visit = 'not_modified', false), time DESC
    ) > 1;
CREATE VIEW superseded AS SELECT number FROM repeated;
CREATE VIEW outcome AS
    SELECT * FROM line WHERE kind IN ('page', 'head') AND number NOT IN (FROM superseded);
CREATE VIEW answered AS
    SELECT * FROM outcome WHERE "end" = 'done' AND status IS NOT NULL;
CREATE VIEW answer AS
    SELECT * FROM answered
    UNION ALL SELECT * FROM line WHERE number IN (SELECT number FROM repeated WHERE is_answer);
CREATE VIEW document AS
    SELECT * FROM answered WHERE kind = 'page' AND status BETWEEN 200 AND 299 AND reason IS NULL
        AND wall IS NULL;
CREATE VIEW body AS
    SELECT url, hub, warc, "offset" FROM document WHERE warc IS NOT NULL AND visit IS NULL
    UNION ALL SELECT url, first.hub, first.warc, first."offset" FROM (
        SELECT url, min_by({{'hub': line.hub, 'warc': line.warc, 'offset': line."offset"}},
            line.time) AS first
        FROM document JOIN line USING (url)
        WHERE document.warc IS NOT NULL AND document.visit IS NOT NULL
            AND line.kind = 'page' AND line."end" = 'done' AND line.warc IS NOT NULL
            AND (line.digest = document.digest OR line.number = document.number)
        GROUP BY url
    );
"""


@contextmanager
def open_log(
    hubs: Sequence[Sequence[Path]], waiting: Iterable[Waiting] = ()
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection with the tables of the module's docstring. NoCrawlError if a file is damaged.

    `hubs` has the files of each hub; a crawl with one frontier is one hub.
    Lines may be written meanwhile: the tables have those that were there when they were read.
    """
    with TemporaryDirectory(prefix="webcrawl-") as folder:
        options: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": MEMORY_LIMIT,
            "temp_directory": f"{folder}/more",
            "threads": THREADS,
            "preserve_insertion_order": False,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        with duckdb.connect(f"{folder}/log.duckdb", config=options) as log:
            try:
                for hub, logs in enumerate(hubs):
                    into = "INSERT INTO read" if hub else "CREATE TABLE read AS"
                    if logs or not hub:
                        log.execute(f"{into} {_FILES}", [hub, [_literal(path) for path in logs]])
            except duckdb.Error as error:
                first = str(error).partition("\n")[0]
                raise NoCrawlError(f"the crawl log cannot be read: {first}") from None
            log.execute(_DERIVE.format(twice=_TWICE if len(hubs) > 1 else ""))
            rows = Path(folder) / "rows.jsonl"
            _add(
                log,
                "waiting (url VARCHAR, host VARCHAR, level INTEGER, is_seed BOOLEAN)",
                waiting,
                rows,
            )
            _add(log, "site (host VARCHAR, domain VARCHAR, suffix VARCHAR)", _sites(log), rows)
            log.execute("SET enable_external_access = false")
            yield log


def unreadable_lines(log: duckdb.DuckDBPyConnection) -> int:
    """Lines that are not in the tables. One may be the torn last line of a killed crawl."""
    (unreadable,) = log.sql(
        'SELECT count(*) FROM read WHERE url IS NULL OR host IS NULL OR "end" IS NULL'
    ).fetchall()[0]
    return int(unreadable)


def _literal(path: Path) -> str:
    """The name of one file: read_json expands patterns."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in str(path))


def _sites(log: duckdb.DuckDBPyConnection) -> Iterator[tuple[str, str, str]]:
    """The rows of `site`. 4 µs per host."""
    with log.cursor() as cursor:
        hosts = cursor.execute("SELECT host FROM line UNION SELECT host FROM waiting")
        while rows := hosts.fetchmany(10_000):
            for (host,) in rows:
                domain, suffix = domain_and_suffix(host)
                yield host, domain, suffix or "(none)"


def _add(
    log: duckdb.DuckDBPyConnection, table: str, rows: Iterable[tuple[Any, ...]], path: Path
) -> None:
    """Make `table`, a name and columns, of `rows`. By way of a file: INSERT takes 1 ms per row."""
    encode = msgspec.json.Encoder().encode
    with path.open("wb") as file:
        file.writelines(encode(row) + b"\n" for row in rows)
    log.execute(f"CREATE TABLE {table}")
    name, _, columns = table.partition(" ")
    each = ", ".join(f"json[{n}]" for n in range(1, columns.count(",") + 2))
    log.execute(
        f"INSERT INTO {name} SELECT {each} FROM read_json(?, format = 'newline_delimited',"
        " records = false, columns = {'json': 'VARCHAR[]'})",
        [_literal(path)],
    )
    path.unlink()
