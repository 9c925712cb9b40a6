"""Makes one WACZ of WARC files, or several that are smaller than a given size, with a collection:
a JSON file that ReplayWeb.page opens as one archive (https://specs.webrecorder.net/multi-wacz/).

First all WARC files are read, then the parts are written in a folder beside the output. When all
are on the disk, they get their names, the collection last. A run that is killed leaves that folder,
which the next run with the same name replaces.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from webcrawl.base.synced import replace_file, sync
from webcrawl.base.wording import counted, is_utf8
from webcrawl.tools.progress import Progress
from webcrawl.tools.stored import StoredFile, is_stored, named_files, size_of
from webcrawl.tools.wacz.captures import Captures, DamagedError, Lost
from webcrawl.tools.wacz.package import SOFTWARE, Contents, write_package
from webcrawl.warc.files import OPEN, lock
from webcrawl.warc.index import Index, index_path
from webcrawl.warc.reader import Record
from webcrawl.warc.recovery import index_line

ENDING = ".wacz"
LOST_SHOWN = 3
_WARC = ".warc.gz"
_is_epoch = re.compile("[0-9]{1,10}").fullmatch
_PART_BYTES = 64 << 10  # more than a part takes beside what `_size` counts


class WaczError(Exception):
    """No WACZ can be made of these files. One line for the user, or several."""


def warc_files(names: Sequence[str]) -> tuple[list[Path | StoredFile], list[Path]]:
    """The files, in the order of their names, and those that a running crawl is writing.

    WaczError: what is no such file, two files of one name, and files of a killed crawl, which would
    be missing. NoStoreError, OSError.
    """
    found: dict[str, Path | StoredFile] = {}  # by their names, which they keep in the WACZ
    written: list[Path] = []
    for name in names:
        path = Path(name)
        files: Sequence[Path | StoredFile]
        if is_stored(name):
            files = named_files(name, _WARC)
        elif path.is_dir():
            files = [each for each in path.iterdir() if each.name.endswith((_WARC, _WARC + OPEN))]
            if not files:
                raise WaczError(f"{name} has no files *{_WARC}")
        elif not path.exists():
            raise WaczError(f"{name} does not exist")
        elif not path.name.endswith((_WARC, _WARC + OPEN)):
            raise WaczError(f"{name} is no file *{_WARC}")
        else:
            files = [path]
        for each in files:
            if not is_utf8(each.name):
                raise WaczError(f"{each}: a file in a WACZ has a name in UTF-8")
            if isinstance(each, Path) and each.name.endswith(OPEN):
                written.append(each)
            elif not _is_same(found.setdefault(each.name, each), each):
                raise WaczError(f"{found[each.name]} and {each} have one name")
    killed = [each for each in written if not _is_being_written(each)]
    if killed:
        raise WaczError(
            f"{counted(len(killed), 'file')} of a killed crawl, such as {killed[0]}: run"
            f" scrapy warcrecover {killed[0].parent} first"
        )
    if not found:
        raise WaczError(f"the crawl is running and has finished no file: {written[0]}")
    return [found[name] for name in sorted(found)], written


def _is_same(one: Path | StoredFile, other: Path | StoredFile) -> bool:
    if isinstance(one, Path) and isinstance(other, Path):
        return one.samefile(other)
    return one == other


def _is_being_written(path: Path) -> bool:
    """Whether another process holds the lock of a file that is not finished."""
    with path.open("rb") as file:
        return not lock(file.fileno())


class Part(NamedTuple):
    """A WACZ that was written."""

    path: Path
    warcs: int
    written: tuple[int, int]  # captures and pages
    size_bytes: int


class Result(NamedTuple):
    """`collection` is None for a single part. `lost`: revisits whose originals are in no file."""

    parts: list[Part]
    collection: Path | None
    lost: int
    some_lost: list[Lost]


def make_wacz(
    warcs: Sequence[Path | StoredFile],
    output: Path,
    size_max: int,
    *,
    has_text: bool,
    progress: Progress,
) -> Result:
    """Write `output`, or its parts if it would have more than `size_max` bytes (0: any number).

    A part is larger only if one WARC file is. `progress` has the bytes of each file twice.
    DamagedError, EarlierError, OSError, sqlite3.Error.
    """
    folder = Path(f"{output}.part")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        with closing(Captures(folder / "captures.db", has_text=has_text)) as captures:
            cdxjs = _read(warcs, captures, folder, progress)
            bytes_of_pages = map(captures.pages_bytes, range(len(warcs)))
            sizes = [_size(*each) for each in zip(warcs, cdxjs, bytes_of_pages, strict=True)]
            texts = {"title": captures.title, "description": captures.description}
            about = {"created": _created(captures)} | {k: v for k, v in texts.items() if v}
            parts = _cut(sizes, size_max)
            names = _names(output, len(parts))
            made = []
            for numbers, name in zip(parts, names, strict=True):
                contents = Contents(
                    warcs[numbers.start : numbers.stop],
                    cdxjs[numbers.start : numbers.stop],
                    captures,
                    numbers,
                    has_text,
                    about | _relation(captures, numbers, parts, names),
                )
                written = write_package(contents, folder / name, progress)
                size_bytes = (folder / name).stat().st_size
                made.append(Part(output.with_name(name), len(numbers), written, size_bytes))
            for part in made:
                (folder / part.path.name).replace(part.path)
            sync(output.parent)
            collection = None
            if len(made) > 1:
                collection = output.with_suffix(".json")
                replace_file(collection, json.dumps(_collection(made, about), indent=2) + "\n")
            return Result(made, collection, *captures.lost(LOST_SHOWN))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _read(
    warcs: Sequence[Path | StoredFile], captures: Captures, folder: Path, progress: Progress
) -> list[Path]:
    """Read all files; return the index of each: in `folder`, if it is fetched from a store, or
    made, as there is none.

    DamagedError has a line for each file that is damaged.
    """
    cdxjs, problems = [], []
    for number, warc in enumerate(warcs):
        index = index_path(warc)
        has_index = index.is_file()
        if not has_index:
            cdxj = folder / f"{number}.cdxj"
        elif isinstance(index, StoredFile):
            cdxj = index.fetched(folder / "cdxj")
        else:
            cdxj = index
        try:
            _read_one(number, warc, captures, None if has_index else cdxj, progress)
        except DamagedError as error:
            problems.append(str(error))
        cdxjs.append(cdxj)
    if problems:
        raise DamagedError("\n".join(problems))
    return cdxjs


def _read_one(
    number: int, warc: Path | StoredFile, captures: Captures, cdxj: Path | None, progress: Progress
) -> None:
    """Read a file, and make its index at `cdxj`."""
    if cdxj is None:
        captures.read(number, warc, lambda each: progress(each.size_bytes))
        return
    with closing(Index(cdxj, cdxj.with_suffix(".open"))) as index:

        def add(each: Record) -> None:
            progress(each.size_bytes)
            if line := index_line(warc, warc.name, each):
                index.make_room()
                index.add(line)

        captures.read(number, warc, add)
        index.publish()


def _size(warc: Path | StoredFile, cdxj: Path, bytes_of_pages: int) -> int:
    """What a WARC file adds to its part, or more: its lines are compressed to a third or less, a
    second line for each included.
    """
    return size_of(warc) + cdxj.stat().st_size // 2 + bytes_of_pages


def _cut(sizes: list[int], size_max: int) -> list[range]:
    """The numbers of the files of each part."""
    parts: list[range] = []
    start, room = 0, size_max - _PART_BYTES
    for number, size in enumerate(sizes):
        if size_max and size > room and number > start:
            parts.append(range(start, number))
            start, room = number, size_max - _PART_BYTES
        room -= size
    return [*parts, range(start, len(sizes))]


def _names(output: Path, parts: int) -> list[str]:
    stem = output.name.removesuffix(ENDING)
    numbered = [f"{stem}-{number:03}{ENDING}" for number in range(1, parts + 1)]
    return numbered if parts > 1 else [output.name]


def _relation(
    captures: Captures, numbers: range, parts: list[range], names: list[str]
) -> dict[str, Any]:
    """The other parts that have originals of this one's revisits: ReplayWeb.page looks there.

    Those with most of them first: it gives up after a dozen.
    """
    name_of = {n: name for part, name in zip(parts, names, strict=True) for n in part}
    needed: Counter[str] = Counter()
    for warc, count in captures.originals_in(numbers):
        needed[name_of[warc]] += count
    requires = [{"filename": name} for name, _ in needed.most_common()]
    return {"relation": {"requires": requires}} if requires else {}


def _collection(parts: list[Part], about: dict[str, Any]) -> dict[str, Any]:
    resources = [
        {"name": part.path.name, "path": part.path.name, "bytes": part.size_bytes} for part in parts
    ]
    head = {"profile": "multi-wacz-package", "software": SOFTWARE}
    return head | about | {"resources": resources}


def _created(captures: Captures) -> str:
    """SOURCE_DATE_EPOCH (https://reproducible-builds.org/specs/source-date-epoch/) if it is set,
    else the time of the latest capture: the same input gives the same bytes. A ZIP has no others.
    """
    given = os.environ.get("SOURCE_DATE_EPOCH", "")
    created = datetime.fromtimestamp(int(given), UTC).isoformat() if _is_epoch(given) else ""
    first, last = "1980-01-01T00:00:00", "2107-12-31T23:59:58"
    return f"{min(max(created or captures.latest, first), last)[:19]}Z"
