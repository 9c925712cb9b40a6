"""Reads WARC files in parts, one process per core, and writes the rows of each part as Parquet.

A part is a run of records: a whole file, or PART_BYTES of it if its index (NAME.cdxj) says where
captures begin. A part's file gets its name when it is complete, so a killed run loses the parts
that were being read. What was counted is stored in the file, too.

Memory of a process: some 120 MB for libraries and models, three times RECORD_MAX, the texts of
two pages of PAGE_MAX_BYTES, a tree, and DUCKDB_MEMORY.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, NamedTuple

import duckdb
import msgspec

from webcrawl.parse.detection import Detector
from webcrawl.tools.corpus.captures import capture_of
from webcrawl.tools.corpus.columns import tables
from webcrawl.tools.corpus.rows import BadRowError, Row, find_language, row_of
from webcrawl.tools.corpus.text import PageText
from webcrawl.tools.corpus.texts import as_member
from webcrawl.tools.stored import StoredFile, size_of
from webcrawl.warc.captures import Archived, captures, crawls_of
from webcrawl.warc.index import index_path
from webcrawl.warc.reader import Broken, Record, read_records, records_at

PART_BYTES = 16 << 20  # small, so that all cores end at about the same time
RECORD_MAX = 16 << 20  # bytes of a record; of a longer one its start is read
DUCKDB_MEMORY = "128MB"
ROW_MAX = 32 << 10  # characters of all columns of a row; DuckDB works on 2,048 rows at a time
_LINE_MAX = 6 * ROW_MAX + 4096  # bytes of a row as JSON, if all characters are escaped
# The model leaves the processor's cache while a page is read: 0.8 ms a page, 0.7 of 4 at once, 0.55
# of 16. Of long pages fewer, within so many characters of texts.
_PAGES_AT_ONCE = 16
_TEXTS_AT_ONCE = 2 << 20
_NO_MEMORY = "too little memory"
_NOTED = 20  # broken records of a part that are named one by one
# The columns that are not of the table, and those that JSON cannot hold as they are.
_MORE = {
    "refers_url": "VARCHAR",
    "refers_time": "BIGINT",
    "refers_id": "VARCHAR",
    "sketch": "UINTEGER[]",
    "texts_in": "VARCHAR",
    "texts_at": "BIGINT",
}
_AS_READ = {"fetch_time": "BIGINT", "warc_record_id": "VARCHAR"}
_CONVERTED = {
    "fetch_time": "make_timestamptz(fetch_time)",
    "warc_record_id": "unhex(warc_record_id)",
}
CONVERTED_BACK = {"fetch_time": "epoch_us(fetch_time)", "warc_record_id": "hex(warc_record_id)"}


class Options(NamedTuple):
    """What is read of pages. `texts`: the columns of texts that are kept."""

    with_main: bool
    texts: tuple[str, ...]
    crawl: str  # "": as the file says
    model: str = ""  # the file of the model of languages; "": the packaged one


class Part(NamedTuple):
    """A run of records of a WARC file: those that begin from `start` on and before `end`."""

    warc: Path | StoredFile
    start: int
    end: int

    def path_in(self, folder: Path) -> Path:
        return folder / f"{self.warc.name}.{self.start}.parquet"


class Counts(msgspec.Struct):
    """What a part has: rows, records of other kinds, and broken ones, of which some are named."""

    captures: int = 0
    others: int = 0
    broken: int = 0
    noted: list[str] = []

    def note(self, offset: int, why: str) -> None:
        """Count a broken record."""
        self.broken += 1
        self.noted = [*self.noted, f"{offset}: {why}"][:_NOTED]

    def add(self, other: Counts) -> None:
        self.captures += other.captures
        self.others += other.others
        self.broken += other.broken
        self.noted = (self.noted + other.noted)[:_NOTED]


def parts_of(warc: Path | StoredFile, part_bytes: int = PART_BYTES) -> list[Part]:
    """The parts of a file. OSError. Memory: the index, if there is one."""
    size_bytes = size_of(warc)
    index = index_path(warc)
    cuts = [0]
    if size_bytes > part_bytes and index != warc and index.is_file():
        with warc.open("rb") as file:
            for offset in sorted(_offsets(index)):
                if offset - cuts[-1] >= part_bytes and _is_capture(file, offset):
                    cuts.append(offset)
    return [Part(warc, *each) for each in pairwise([*cuts, size_bytes])]


def _offsets(index: Path | StoredFile) -> Iterator[int]:
    """The offsets in an index. A line that is not CDXJ is left out: it only moves a cut."""
    with index.open("rb") as lines:
        for line in lines:
            try:
                yield int(json.loads(line[line.index(b"{") :])["offset"])
            except (ValueError, KeyError, TypeError, RecursionError):
                continue


def _is_capture(file: BinaryIO, offset: int) -> bool:
    file.seek(offset)
    record = next(records_at(file), None)
    return isinstance(record, Record) and record.is_answer


def write_part(part: Part, folder: Path, options: Options) -> Counts:
    """Write rows and texts of `part` into `folder`. OSError; duckdb.Error if the disk is full."""
    path = part.path_in(folder)
    rows, texts = path.with_suffix(".rows"), path.with_suffix(".texts")
    counts = Counts()
    with rows.open("wb") as row_file, texts.open("wb") as text_file:
        for row, page in _with_languages(part, options, counts):
            if page is not None and options.texts:
                row.texts_in, row.texts_at = texts.name, text_file.tell()
                each = {"text": page.all_text, "main_text": page.main_text}
                text_file.write(as_member(**{name: each[name] for name in options.texts}))
            row_file.write(msgspec.json.encode(row) + b"\n")
    _convert(rows, path, part.warc.name, counts)
    rows.unlink()
    return counts


def _with_languages(
    part: Part, options: Options, counts: Counts
) -> Iterator[tuple[Row, PageText | None]]:
    """`_rows` with the languages of their texts, which are found for several pages at once."""
    for some in _together(_rows(part, options, counts)):
        whole = []
        for row, page in some:
            try:
                if page is not None:
                    find_language(row, page, _detector(options.model).detect)
            except MemoryError:
                counts.note(row.warc_record_offset, _NO_MEMORY)
                continue
            counts.captures += 1
            whole.append((row, page))
        yield from whole


def _together(
    rows: Iterator[tuple[Row, PageText | None]],
) -> Iterator[list[tuple[Row, PageText | None]]]:
    some, characters = [], 0
    for row, page in rows:
        some.append((row, page))
        characters += len(page.all_text) + len(page.main_text) if page else 0
        if len(some) == _PAGES_AT_ONCE or characters > _TEXTS_AT_ONCE:
            yield some
            some, characters = [], 0
    if some:
        yield some


def _rows(part: Part, options: Options, counts: Counts) -> Iterator[tuple[Row, PageText | None]]:
    """The rows of `part`. An error of the disk counts as one broken record, which ends the part.
    ObjectsError: of a store.
    """
    try:
        crawl = options.crawl or (_crawls_of(part.warc) or [""])[-1]  # ours: collection, then ID
        with part.warc.open("rb") as warc:
            warc.seek(part.start)
            if part.end == 0:
                counts.note(0, "no record")
            for each in captures(_until(read_records(warc, RECORD_MAX), part.end)):
                capture = capture_of(each) if isinstance(each, Archived) else None
                if isinstance(each, Broken):
                    counts.note(each.offset, each.why)
                elif capture is None:
                    counts.others += isinstance(each, Archived) or each.type != "warcinfo"
                else:
                    try:
                        row = _bounded(*row_of(capture, crawl, options.with_main))
                    except (BadRowError, MemoryError) as error:
                        counts.note(capture.record.offset, str(error) or _NO_MEMORY)
                        continue
                    yield row
    except OSError as error:
        if isinstance(part.warc, StoredFile):  # the store may come back
            raise
        counts.note(part.start, str(error.strerror))


_detector = cache(Detector)  # one in each process
_crawls_of = lru_cache(1)(crawls_of)  # parts of a file follow one another


def _bounded(row: Row, page: PageText | None) -> tuple[Row, PageText | None]:
    texts = [each for each in msgspec.structs.astuple(row) if isinstance(each, str)]
    if sum(map(len, texts)) > ROW_MAX:
        raise BadRowError(f"its columns have more than {ROW_MAX:,} characters")
    return row, page


def _until(records: Iterable[Record | Broken], end: int) -> Iterator[Record | Broken]:
    for record in records:
        if record.offset >= end:
            return
        yield record


def _convert(rows: Path, path: Path, filename: str, counts: Counts) -> None:
    """Rows as JSON become Parquet."""
    columns = {each.name: each.sql_type for each in tables()["captures"]} | _MORE
    query = select_json(rows, {name: columns[name] for name in Row.__struct_fields__}, _LINE_MAX)
    database = open_database(":memory:", path.parent, DUCKDB_MEMORY)
    with publishing(path) as unfinished, database as connection:
        connection.execute(
            f"COPY (SELECT *, {in_quotes(filename)} AS warc_filename FROM ({query}))"
            f" TO {in_quotes(unfinished)}"
            " (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE_BYTES '16MB',"
            f" KV_METADATA {{counts: {in_quotes(msgspec.json.encode(counts).decode())}}})"
        )


def select_json(path: Path, columns: Mapping[str, str], line_max: int) -> str:
    """The query of rows that stand in `path` as JSON, with times and ids as in CONVERTED_BACK.
    `columns`: their types by name. DuckDB holds two lines of `line_max` bytes.
    """
    struct = ", ".join(f"{name}: '{_AS_READ.get(name, kind)}'" for name, kind in columns.items())
    selected = ", ".join(f"{_CONVERTED.get(name, name)} AS {name}" for name in columns)
    return (
        f"SELECT {selected} FROM read_json({in_quotes(path)}, format = 'newline_delimited',"
        f" columns = {{{struct}}}, maximum_object_size = {line_max})"
    )


def counts_of(path: Path, connection: duckdb.DuckDBPyConnection) -> Counts:
    """What the part at `path` has."""
    (value,) = connection.execute(
        "SELECT value FROM parquet_kv_metadata(?) WHERE key = 'counts'", [str(path)]
    ).fetchall()[0]
    return msgspec.json.decode(value, type=Counts)


def open_database(name: str, folder: Path, memory: str) -> duckdb.DuckDBPyConnection:
    """A connection with one thread, which makes the same bytes of the same rows, and that moves
    what does not fit into `memory` to `folder`.
    """
    connection = duckdb.connect(
        name,
        config={
            "threads": 1,
            "memory_limit": memory,
            "temp_directory": str(folder),
            "preserve_insertion_order": False,
            "autoinstall_known_extensions": False,  # would ask the network
        },
    )
    connection.execute("SET enable_progress_bar = false")
    return connection


@contextmanager
def publishing(path: Path) -> Iterator[Path]:
    """The name of a file to write. It becomes `path` when it is complete."""
    unfinished = path.with_name(f"{path.name}.unfinished")
    yield unfinished
    unfinished.replace(path)


def in_quotes(text: object) -> str:
    """A string of SQL."""
    return "'" + str(text).replace("'", "''") + "'"
