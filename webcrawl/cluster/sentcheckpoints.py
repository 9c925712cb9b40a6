"""The checkpoints of a hub in an object store (ARCHIVE_STORE), beside those on another disk.

| object, below `checkpoints/ID-hub-K/` | what |
| --- | --- |
| `files/SIZE-TIME/NAME` | a file of one checkpoint or of several: sent once |
| `000001.json`, `000002.json` ... | `checkpoint.json` with a list of its files, sent when the store has them all. The highest number counts |

What only older checkpoints have is deleted then. So after a kill at any step the last checkpoint
that is there is whole.
"""  # noqa: E501  # the rows of a table

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from webcrawl.cluster.checkpoints import (
    NAME,
    STATE,
    Checkpoint,
    Found,
    files_of,
    folder_of,
    read_checkpoint,
    version_of,
)
from webcrawl.cluster.claims import Claim
from webcrawl.frontier.disk.frontier import FOLDER as FRONTIER
from webcrawl.frontier.store import StoreError

if TYPE_CHECKING:  # only a hub with ARCHIVE_STORE loads obstore
    from webcrawl.warc.objects import Objects

FOLDER: Final = "checkpoints"
_HEADER = re.compile(r"(?:(.*)/)?(\d{6,})\.json")
_OBJECT = re.compile(r"files/(\d+)-\d+/([A-Za-z0-9][A-Za-z0-9._-]*)", re.ASCII)


def send_checkpoint(url: str, found: Found) -> None:
    """Send a checkpoint. StoreError."""
    from webcrawl.warc.objects import Objects  # noqa: PLC0415  (it loads obstore)

    try:
        _send(Objects(url), *found)
    except OSError as error:
        raise StoreError(f"ARCHIVE_STORE: {error.filename}: {error.strerror}") from None


def _send(store: Objects, folder: Path, checkpoint: Checkpoint) -> None:
    home = str(folder_of(Path(FOLDER), checkpoint.claim))
    there = store.sizes(home)
    numbers = [int(found[2]) for name in there if (found := _HEADER.fullmatch(name))]
    header = f"{home}/{max(numbers, default=0) + 1:06d}.json"
    files = {_object(path): path for path in files_of(folder / FRONTIER, folder).values()}
    for name, path in files.items():
        if there.get(f"{home}/{name}") != path.stat().st_size:
            store.send(path, f"{home}/{name}")
    with TemporaryDirectory(prefix="webcrawl-") as made:
        path = Path(made, NAME)
        path.write_bytes(msgspec.json.encode(replace(checkpoint, objects=tuple(files))))
        store.send(path, header)
    needed = {header, *(f"{home}/{name}" for name in files)}
    others = there.keys() - needed
    headers = {name for name in others if _HEADER.fullmatch(name)}
    for names in (headers, others - headers):
        store.delete(sorted(names))


def _object(path: Path) -> str:
    size_bytes, time_ns = version_of(path)
    return f"files/{size_bytes}-{time_ns}/{path.name}"


def fetch_checkpoint(url: str, folder: Path, allow: Callable[[Claim], object]) -> Found:
    """Fetch the last checkpoint of the only hub below `url` into an empty folder; its files only
    after `allow`, which may refuse the hub by an exception. StoreError, OSError.
    """
    from webcrawl.warc.objects import Objects  # noqa: PLC0415  (it loads obstore)

    store = Objects(url)
    sizes = store.sizes()
    found = [match for name in sizes if (match := _HEADER.fullmatch(name))]
    homes = sorted({str(each[1] or "") for each in found})
    if len(homes) > 1:
        raise StoreError(f"give one of {', '.join(f'{url}/{home}' for home in homes)}")
    if not homes:
        raise StoreError(f"{url} has no checkpoint")
    last = max(found, key=lambda each: int(each[2]))[0]
    store.fetch(last, sizes[last], folder / NAME)
    checkpoint = read_checkpoint(folder)
    allow(checkpoint.claim)
    (folder / FRONTIER).mkdir()
    for name in checkpoint.objects:
        if (match := _OBJECT.fullmatch(name)) is None:
            raise StoreError(f"{url}/{last} is damaged, or of another version")
        path = folder / match[2] if match[2] == STATE else folder / FRONTIER / match[2]
        store.fetch(f"{homes[0]}/{name}".lstrip("/"), int(match[1]), path)
    return folder, checkpoint
