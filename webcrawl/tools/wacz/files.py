"""The WARC files of a WACZ: those that are given, and all in the folders that are given."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from webcrawl.base.wording import counted
from webcrawl.tools.stored import StoredFile, is_stored, named_files
from webcrawl.warc.files import OPEN, lock

_WARC = ".warc.gz"


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
