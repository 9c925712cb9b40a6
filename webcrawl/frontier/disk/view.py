"""The last commit of an open database, for a reader in another thread of the crawl's process.

`scrapy explain` opens the files a second time, which takes 4 bytes of memory per URL and a file
descriptor for each file. A view shares what is open. It reads by two iterators of RocksDB, which
keep what they see, however many commits follow; the reader takes no lock, and no batch waits for
it. (A snapshot of rocksdict 0.3 would not do: iterators made from it later see later commits.)
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

from webcrawl.frontier.disk.database import Database

# The reader gives the interpreter's lock back after so many rows: half a millisecond.
ROWS: Final = 256
PAUSE_S: Final = 0.0005


class View(Database):
    """Only reads, and is read by one `rows` at a time.

    StoreError once the crawl has closed the database.
    """

    def __init__(self, database: Database) -> None:
        self.folder = database.folder
        self._read_only = True
        self._changes = {}
        try:
            self._rows = _Moment(database.opened)
        except Exception as error:
            raise self._broken(error) from None

    def rows(self, prefix: bytes, after: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """As in `Database`, at half the speed: a queue of a million URLs takes some seconds."""
        for number, row in enumerate(super().rows(prefix, after), 1):
            yield row
            if number % ROWS == 0:
                time.sleep(PAUSE_S)

    def close(self) -> None:
        """The crawl closes the database."""


class _Moment:
    """The part of `Rdict` that `Database` reads by, as of one commit."""

    def __init__(self, opened: Any) -> None:
        number = -1
        while number != opened.latest_sequence_number():  # a commit came between the two iterators
            number = opened.latest_sequence_number()
            self._found, self._read = opened.iter(), opened.iter()

    def iter(self) -> Any:
        return self._read

    def get(self, key: bytes) -> bytes | None:
        found = self._found
        found.seek(key)
        if not found.valid():
            found.status()
            return None
        value: bytes | None = found.value() if found.key() == key else None
        return value
