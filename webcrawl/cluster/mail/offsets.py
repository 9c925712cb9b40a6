"""The file of a courier: its runs, and what its numbers on the way are beyond those of its rows.

`courier.json` in the folder of the shard. Replaced as a whole and synced: it must not be set back
with the frontier, whose last commits a loss of power undoes. Written when a run begins, and in a
turn in which a receiver was heard of for the first time, or one of us was set back.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from webcrawl.cluster.errors import OffsetsError
from webcrawl.cluster.synced import replace_file

NAME: Final = "courier.json"


class _Content(Struct):
    run: int = 0
    offsets: dict[int, int] = {}
    unconfirmed: dict[int, int] = {}


class Offsets:
    """Three things, for each receiver: 30 bytes.

    run -- of the courier; batches of earlier ones are refused
    of(receiver) -- a row's number on its way, less the row's number
    trusted(receiver) -- until the receiver's first watermark of this run, the last row that it may
        have: what was on our disk when the first run opened in which we have not heard of it
    """

    def __init__(self, folder: Path | None) -> None:
        """None: in memory only, for tests. OffsetsError for a file that cannot be read."""
        self._path = folder / NAME if folder is not None else None
        self._content = _Content()
        self._is_saved = True
        if self._path is not None:
            try:
                self._content = msgspec.json.decode(self._path.read_bytes(), type=_Content)
            except FileNotFoundError:
                pass
            except (OSError, msgspec.DecodeError) as error:
                raise OffsetsError(f"{self._path} cannot be read: {error}") from None

    @property
    def run(self) -> int:
        return self._content.run

    def of(self, receiver: int) -> int:
        return self._content.offsets.get(receiver, 0)

    def trusted(self, receiver: int) -> int:
        return self._content.unconfirmed.get(receiver, 0)

    def begin_run(self, last: Mapping[int, int]) -> None:
        """`last`: of all receivers, the last row on our disk. OffsetsError."""
        self._content.run += 1
        unconfirmed = self._content.unconfirmed
        for receiver, row in last.items():
            unconfirmed[receiver] = min(row, unconfirmed.get(receiver, row))
        self._is_saved = False
        self.save()

    def confirm(self, receiver: int) -> None:
        """It has told us where it is. To be saved before a row is sent there."""
        if self._content.unconfirmed.pop(receiver, None) is not None:
            self._is_saved = False

    def move(self, receiver: int, offset: int) -> None:
        """A new offset, and a new run: batches on the way mean other rows now. To be saved."""
        self._content.offsets[receiver] = offset
        self._content.run += 1
        self._is_saved = False

    def save(self) -> None:
        """What has changed. OffsetsError."""
        if not self._is_saved:
            self._write()
            self._is_saved = True

    def _write(self) -> None:
        if self._path is None:
            return
        try:
            replace_file(self._path, msgspec.json.encode(self._content))
        except OSError as error:
            raise OffsetsError(f"{self._path} cannot be written: {error.strerror}") from None
