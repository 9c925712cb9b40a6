"""Makes a corpus of WARC files: parts by several processes, then what takes all of them, then one
table per file and the table of hosts.

State on disk, in the folder of the corpus, so that a killed run goes on:
- `corpus.json`: files and options. With others the folder is refused.
- `parts/`: parts, and the database of `resolve`. Removed at the end.
- `hosts.parquet`, which is written last.

The name `.unfinished` marks a file that is being written.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from itertools import chain
from pathlib import Path

import duckdb
import msgspec

from webcrawl.base.textfile import NotAFile, open_file
from webcrawl.crawllog.files import log_files
from webcrawl.tools.corpus.outputs import PARTS, Filters, Texts, stem_of, write_file, write_hosts
from webcrawl.tools.corpus.parts import (
    Counts,
    Options,
    Part,
    counts_of,
    open_database,
    parts_of,
    publishing,
    write_part,
)
from webcrawl.tools.corpus.resolve import MEMORY, resolve
from webcrawl.tools.pool import in_processes
from webcrawl.tools.progress import Progress
from webcrawl.tools.stored import StoredFile, is_stored, located, size_of, stored_logs

STATE = "corpus.json"
HOSTS = "hosts.parquet"
_DATABASE = "resolved.duckdb"


class CorpusError(Exception):
    """The files or the folder cannot be used. One line for the user."""


class Plan(msgspec.Struct, omit_defaults=True):
    """What a corpus is made of. `warcs`: path and size of each, by name. `model`: of languages, the
    user's; None: the packaged one.
    """

    warcs: list[tuple[str, int]]
    logs: list[str]
    crawl: str
    texts: Texts
    filters: Filters
    model: tuple[str, int] | None = None


class Summary(msgspec.Struct):
    """What was found. `problems`: a line for each broken record, as far as noted."""

    counts: Counts
    problems: list[str]
    unresolved: int  # revisits
    written: int  # captures in the tables
    pages: int  # of them, those with a language


def plan_of(
    warcs: Sequence[Path | StoredFile],
    log_folders: Sequence[str],
    crawl: str,
    texts: Texts,
    filters: Filters,
    model: str = "",
) -> Plan:
    """CorpusError: two files have one name, or one cannot be read. NoStoreError. `model`: can be
    loaded.
    """
    found: dict[str, tuple[str, int]] = {}
    for path in warcs:
        try:
            with nullcontext() if isinstance(path, StoredFile) else open_file(path):
                size_bytes = size_of(path)
        except NotAFile as error:
            raise CorpusError(str(error)) from None
        except OSError as error:
            raise CorpusError(f"{path}: {error.strerror}") from None
        stem = stem_of(path.name)
        if f"{stem}.parquet" == HOSTS:
            raise CorpusError(f"{path}: {HOSTS} is the table of hosts; rename the file")
        if stem in found:
            raise CorpusError(f"two files are named {path.name}: {found[stem][0]} and {path}")
        found[stem] = (str(path if isinstance(path, StoredFile) else path.resolve()), size_bytes)
    folders = {*log_folders, *(_folder_of(path) for path in warcs)}
    try:
        logs = sorted({log for folder in folders for log in _logs_in(folder)})
    except OSError as error:
        raise CorpusError(f"{error.filename}: {error.strerror}") from None
    ours = (model, Path(model).stat().st_size) if model else None
    return Plan([found[stem] for stem in sorted(found)], logs, crawl, texts, filters, ours)


def _folder_of(path: Path | StoredFile) -> str:
    return path.url if isinstance(path, StoredFile) else str(path.parent)


def _of_disk(log: Path) -> Path:
    """A file of the crawl log, which the crawl may have compressed since its name was read."""
    return log if log.exists() else log.with_name(f"{log.name}.gz")


def _logs_in(folder: str) -> list[str]:
    if is_stored(folder):
        return stored_logs(folder.rstrip("/"))
    return [str(log.resolve()) for _, _, log in log_files(Path(folder))]


def make_corpus(plan: Plan, folder: Path, progress: Progress, processes: int = 0) -> Summary:
    """Make the corpus, or go on with it. CorpusError, OSError, duckdb.Error, BrokenProcessPool."""
    work = folder / PARTS
    work.mkdir(parents=True, exist_ok=True)
    _claim(plan, folder)
    parts_by_warc = {located(path): parts_of(located(path)) for path, _ in plan.warcs}
    parts = [*chain.from_iterable(parts_by_warc.values())]
    _write_parts(parts, plan, work, processes, progress)
    problems = []
    counts = Counts()
    database = work / _DATABASE
    database.unlink(missing_ok=True)
    with open_database(str(database), work, MEMORY) as connection:
        for part in parts:
            more = counts_of(part.path_in(work), connection)
            counts.add(more)
            problems += [f"{part.warc}: {each}" for each in more.noted]
        names = [warc.name for warc in parts_by_warc]
        files = [part.path_in(work) for part in parts]
        logs = [
            log.fetched(work / str(number)) if isinstance(log, StoredFile) else _of_disk(log)
            for number, log in enumerate(map(located, plan.logs))
        ]
        resolve(connection, names, files, logs)
        for own in parts_by_warc.values():
            write_file(connection, own, folder, plan.filters, plan.texts)
        write_hosts(connection, folder / HOSTS)
        (unresolved,) = connection.execute(
            "SELECT count(*) FROM part ANTI JOIN original USING (number) WHERE is_revisit"
        ).fetchall()[0]
    shutil.rmtree(work)
    tables = [str(folder / f"{stem_of(name)}.parquet") for name in names]
    written, pages = duckdb.execute(
        "SELECT count(*), count(detected_language) FROM read_parquet(?)", [tables]
    ).fetchall()[0]
    return Summary(counts, problems, unresolved, written, pages)


def is_made(plan: Plan, folder: Path) -> bool:
    """Whether the corpus is there already. CorpusError if the folder has another."""
    return _stored(plan, folder) and (folder / HOSTS).exists() and not (folder / PARTS).exists()


def _stored(plan: Plan, folder: Path) -> bool:
    try:
        stored = (folder / STATE).read_bytes()
    except FileNotFoundError:
        return False
    if stored != msgspec.json.encode(plan):
        raise CorpusError(
            f"{folder} has the corpus of other files or options: give another folder, or remove it"
        )
    return True


def _claim(plan: Plan, folder: Path) -> None:
    if _stored(plan, folder):
        return
    with publishing(folder / STATE) as unfinished:
        unfinished.write_bytes(msgspec.json.encode(plan))


def _write_parts(
    parts: Sequence[Part], plan: Plan, work: Path, processes: int, progress: Progress
) -> None:
    """Write the parts that are not there."""
    model, model_bytes = plan.model or ("", 0)
    options = Options(plan.texts.columns != ("text",), plan.texts.columns, plan.crawl, model)
    missing = []
    for part in parts:
        if part.path_in(work).exists():
            progress(part.end - part.start)
        else:
            missing.append(part)
    write = partial(write_part, folder=work, options=options)
    for part, _ in in_processes(write, missing, processes, more_bytes=2 * model_bytes):
        progress(part.end - part.start)
