"""Keeps files as objects of a store: a bucket (`s3://`, `gs://`, `az://`) or a folder (`file://`).

Only with ARCHIVE_STORE, and for the tools that read from a store, this module is loaded: it needs
obstore, whose stores read their credentials from the environment. All calls block.

An object counts as sent if the store says so of what it has, not of what it was given:
- it has the size of the file; and
- its ETag is the MD5 of the file, or that of the MD5s of its parts, as S3 makes it of what has
  arrived (unless the bucket encrypts with KMS); of any other ETag, as those of Azure, of larger
  objects of Google, and of folders, nothing follows: then the object is read back and compared,
  byte by byte.

Invariants: an object with other content is never replaced, unless the caller asks for it; of an
upload that fails or is killed no object is there. A bucket keeps the parts of a killed one,
invisible, until a lifecycle rule of the bucket removes them.

Memory: PARTS_AT_A_TIME parts of PART_BYTES, whatever the size of a file, and one while it is
compared or fetched.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from io import BufferedReader, RawIOBase
from pathlib import Path
from shutil import copyfileobj
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Self
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import BaseError
from obstore.store import from_url

from webcrawl.base.synced import sync

if TYPE_CHECKING:
    from obstore import ObjectMeta

PART_BYTES: Final = 8 << 20  # a file may have 10,000 (S3): 84 GB
PARTS_AT_A_TIME: Final = 2
_SLOWEST: Final = 50_000  # bytes a second, of all parts under way
_READ_BYTES: Final = 4 << 20
_CLIENT: Final[Any] = {
    "allow_http": True,  # the endpoint says which
    "connect_timeout": timedelta(seconds=10),
    "timeout": timedelta(seconds=PARTS_AT_A_TIME * PART_BYTES / _SLOWEST),  # of a request
}
_CONFIG: Final[Any] = {
    "client_options": _CLIENT,
    "retry_config": {"max_retries": 3, "retry_timeout": timedelta(seconds=30)},
}
_CONFIG_AT_START: Final[Any] = {  # the user waits for an answer
    "client_options": _CLIENT | {"timeout": timedelta(seconds=15)},
    "retry_config": {"max_retries": 1, "retry_timeout": timedelta(seconds=10)},
}
_OF_SERVER = re.compile(r"<Code>(\w+)</Code>(?:.*?<Message>([^<\n]*))?", re.DOTALL)
_OF_REQUEST = re.compile(
    r"Generic \w+ error: |.*Error performing \w+ \w+://(?:[^/\s]*@)?([^/\s]+).*? - "
)
_OF_CLOUD = "169.254.169.254"  # gives a machine of Amazon, Google or Azure its credentials


class ObjectsError(OSError):
    """The store is away, refuses, or has not got what was sent. `strerror` is one line for the
    user, without any secret; `filename` the object or the store.
    """

    def __init__(self, line: str, name: str) -> None:
        super().__init__(errno.EIO, line, name)

    def __reduce__(self) -> tuple[type[Self], tuple[str, str]]:  # from one process to another
        return type(self), (str(self.strerror), str(self.filename))


class Objects:
    """The objects of the store at `url`. ObjectsError."""

    def __init__(self, url: str, *, is_start: bool = False) -> None:
        self._url = url
        scheme, _, path, _, _ = urlsplit(url)
        self._folder = Path(unquote(path)) if scheme == "file" else None
        if self._folder is not None and not self._folder.is_dir():  # a disk that is not mounted
            raise ObjectsError("the folder is not there", url)
        with _errors(url):
            if self._folder is not None:
                self._disk = self._folder.stat().st_dev
                self._store: Any = from_url(url)
            else:
                self._store = from_url(url, **(_CONFIG_AT_START if is_start else _CONFIG))

    def probe(self) -> None:
        """Whether objects can be written, looked at and deleted."""
        name = f"webcrawl-probe-{os.getpid()}-{os.urandom(4).hex()}"
        with _errors(self._url):
            obstore.put(self._store, name, b"webcrawl")
            try:
                found = obstore.head(self._store, name)
            finally:
                obstore.delete(self._store, name)
        if found["size"] != len(b"webcrawl"):
            raise ObjectsError("an object is not there as it was written", self._url)

    def send(self, path: Path, name: str, *, replaces: bool = False) -> bool:
        """Send a file, and return when the store has it. False: it has it already.

        FileExistsError: it has another one of this name, unless `replaces`. OSError of the file
        here. Reads it once before it is sent: 2 s of CPU for 1 GB, while other threads run.
        """
        self._check_folder(path)
        size_bytes, etag = _size_and_etag(path)
        if (found := self._head(name)) is not None:
            if self._has(found, path, size_bytes, etag):
                return False
            if not replaces:
                raise FileExistsError(errno.EEXIST, "is there already, with other content", name)
        with _errors(name):
            if self._folder is not None:  # what a killed upload left
                (self._folder / f"{name}#1").unlink(missing_ok=True)
            obstore.put(
                self._store, name, path, chunk_size=PART_BYTES, max_concurrency=PARTS_AT_A_TIME
            )
        if self._folder is not None:
            sent = self._folder / name
            with _errors(str(sent)):
                sync(sent)
                sync(sent.parent)
        found = self._head(name)
        if found is None or not self._has(found, path, size_bytes, etag):
            with suppress(ObjectsError), _errors(name):
                obstore.delete(self._store, name)
            raise ObjectsError("it is not there as it was sent", name)
        return True

    def sizes(self, under: str = "") -> dict[str, int]:
        """The size of each object whose name is in the folder `under`, by its whole name."""
        with _errors(self._url):
            found = obstore.list(self._store, under or None)
            return {each["path"]: each["size"] for some in found for each in some}

    def has(self, name: str) -> bool:
        return self._head(name) is not None

    def size_of(self, name: str) -> int:
        found = self._head(name)
        if found is None:
            raise ObjectsError("there is no such object", name)
        return found["size"]

    def open(self, name: str) -> BinaryIO:
        """An object as a file that can seek. It is read in ranges of _READ_BYTES, as asked for."""
        return self._open(name, self.size_of(name))

    def _open(self, name: str, size_bytes: int) -> BinaryIO:
        return BufferedReader(_Reader(self._store, name, size_bytes), _READ_BYTES)

    def fetch(self, name: str, size_bytes: int, path: Path) -> None:
        """Write an object to `path`. OSError of the file here."""
        with self._open(name, size_bytes) as source, path.open("wb") as file:
            copyfileobj(source, file, _READ_BYTES)

    def delete(self, names: list[str]) -> None:
        if names:
            with _errors(self._url):
                obstore.delete(self._store, names)

    def _check_folder(self, path: Path) -> None:
        """obstore would make the folder of a disk that is not mounted any more. A file that is its
        own object would be lost when it is deleted.
        """
        if self._folder is None:
            return
        with _errors(self._url):
            folder = self._folder.stat()
        if folder.st_dev != self._disk:
            raise ObjectsError("the folder is on another disk: is it mounted?", self._url)
        if os.path.samestat(folder, path.parent.stat()):
            raise ObjectsError("the folder has the files themselves", self._url)

    def _head(self, name: str) -> ObjectMeta | None:
        try:
            with _errors(name):
                return obstore.head(self._store, name)
        except _AbsentError:
            return None

    def _has(self, found: ObjectMeta, path: Path, size_bytes: int, etag: str) -> bool:
        """Whether an object has the content of the file at `path`."""
        if found["size"] != size_bytes:
            return False
        if (found["e_tag"] or "").strip('"').lower() == etag:
            return True
        with path.open("rb") as file, self._open(found["path"], size_bytes) as there:
            while (piece := file.read(_READ_BYTES)) == there.read(_READ_BYTES):
                if not piece:
                    return True
        return False


class _Reader(RawIOBase):
    def __init__(self, store: Any, name: str, size_bytes: int) -> None:
        self._store, self._name, self._size_bytes = store, name, size_bytes
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size_bytes}[whence]
        self._at = base + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        end = min(self._at + len(buffer), self._size_bytes)
        if self._at >= end:
            return 0
        with _errors(self._name):
            piece = obstore.get_range(self._store, self._name, start=self._at, end=end)
        if not piece:
            raise ObjectsError("it is cut", self._name)
        buffer[: len(piece)] = memoryview(piece)
        self._at += len(piece)
        return len(piece)


class _AbsentError(ObjectsError):
    pass


@contextmanager
def _errors(name: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise _AbsentError(_line(error), name) from None
    except (BaseError, OSError, ValueError) as error:
        raise ObjectsError(_line(error), name) from None


def _line(error: Exception) -> str:
    """What the store says, in one line. The query of a URL may be a signature (Azure)."""
    text = str(error)
    if said := _OF_SERVER.search(text):
        return ": ".join(filter(None, said.groups())).strip()
    text = _OF_REQUEST.sub(r"\1: ", text.partition("\n")[0])
    text = text.replace(_OF_CLOUD, f"no credentials in the environment, and none at {_OF_CLOUD}")
    return re.sub(r"\?\S*", "", text).strip(" :")[:300] or type(error).__name__


def _size_and_etag(path: Path) -> tuple[int, str]:
    """The size of a file, and the ETag that S3 gives it if it comes in parts of PART_BYTES."""
    with path.open("rb") as file:
        digests = []
        while piece := file.read(PART_BYTES):
            digests.append(hashlib.md5(piece, usedforsecurity=False).digest())
        size_bytes = file.tell()
    if size_bytes <= PART_BYTES:
        return size_bytes, (digests or [hashlib.md5(usedforsecurity=False).digest()])[0].hex()
    whole = hashlib.md5(b"".join(digests), usedforsecurity=False)
    return size_bytes, f"{whole.hexdigest()}-{len(digests)}"
