"""Files of an object store (ARCHIVE_STORE), as tools read them in the place of files of this disk.

A WARC file is read where it is, by ranges: 4 MiB of memory, and no disk. Crawl logs, reports and
indexes, which are some percent of it, are fetched.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, NamedTuple

from webcrawl.base.wording import needs_extra
from webcrawl.crawllog.files import HUB_FOLDER

if TYPE_CHECKING:  # only who reads from a store loads obstore
    from webcrawl.warc.objects import Objects

CRAWL_FILES = re.compile(r"(crawl|report|series)-.*\.(jsonl|jsonl\.gz|json|txt)")
_LOG = re.compile(rf"({HUB_FOLDER}\d+/)?crawl-\d{{14}}-[0-9a-f]{{6}}-\d{{5,}}\.jsonl\.gz")


class NoStoreError(Exception):
    """A store cannot be read, or a folder has no such file. One line for the user."""


class StoredFile(NamedTuple):
    """A file in the folder of a store at `url`. All but `name` may raise OSError."""

    url: str
    name: str

    def __str__(self) -> str:
        return f"{self.url}/{self.name}"

    def open(self, mode: Literal["rb"] = "rb") -> BinaryIO:
        return store_at(self.url).open(self.name)

    def with_name(self, name: str) -> StoredFile:
        return self._replace(name=name)

    def is_file(self) -> bool:
        return store_at(self.url).has(self.name)

    def fetched(self, folder: Path) -> Path:
        """The file, which is written into `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        store = store_at(self.url)
        store.fetch(self.name, store.size_of(self.name), folder / self.name)
        return folder / self.name


def located(name: str) -> Path | StoredFile:
    """A file by its path or URL."""
    return StoredFile(*name.rsplit("/", 1)) if is_stored(name) else Path(name)


def size_of(file: Path | StoredFile) -> int:
    """OSError, NoStoreError."""
    if isinstance(file, StoredFile):
        return store_at(file.url).size_of(file.name)
    return file.stat().st_size


def named_files(name: str, ending: str) -> list[Path | StoredFile]:
    """The file of this path or URL; of a folder, here or in a store, those with the ending.

    OSError, NoStoreError.
    """
    url, folder = name.rstrip("/"), Path(name)
    found: list[Path | StoredFile]
    if is_stored(name) and not name.endswith((ending, ".warc")):
        try:
            sizes = store_at(url).sizes()
        except OSError as error:
            raise NoStoreError(f"{name}: {error.strerror}") from None
        found = [StoredFile(url, each) for each in sorted(sizes) if "/" not in each]
    elif folder.is_dir():
        found = [*sorted(folder.iterdir())]
    else:
        return [located(name)]
    found = [each for each in found if each.name.endswith(ending)]
    if not found:
        raise NoStoreError(f"{name} has no files *{ending}")
    return found


def stored_logs(url: str) -> list[str]:
    """The URLs of the crawl logs in the folder at `url`, those of each hub too."""
    return [f"{url}/{each}" for each in sorted(store_at(url).sizes()) if _LOG.fullmatch(each)]


def is_stored(name: object) -> bool:
    """Whether a user's text names a folder or a file of a store."""
    return "://" in str(name)


@cache
def store_at(url: str) -> Objects:
    """One for each folder of a process: it keeps its connections. OSError; NoStoreError without
    obstore.
    """
    try:
        from webcrawl.warc.objects import Objects  # noqa: PLC0415  (it loads obstore)
    except ModuleNotFoundError:
        raise NoStoreError(needs_extra(url, "obstore", "store")) from None
    return Objects(url)


def fetch_files(url: str, folder: Path, is_wanted: Callable[[str], object]) -> None:
    """Fetch files of the folder at `url` into `folder`. OSError, NoStoreError."""
    store = store_at(url)
    folder.mkdir(parents=True, exist_ok=True)
    for name, size_bytes in store.sizes().items():
        if "/" not in name and is_wanted(name):
            store.fetch(name, size_bytes, folder / name)
