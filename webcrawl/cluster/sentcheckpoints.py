"""The checkpoints of a hub in an object store (ARCHIVE_STORE), beside those on another disk.

| object, below `checkpoints/ID-hub-K/` | what |
| --- | --- |
| `files/DIGEST-SIZE/NAME` | a file of one checkpoint or of several: sent once |
| `000001.json`, `000002.json` ... | `checkpoint.json`, sent when the store has all its files. The highest number counts |

What only older checkpoints have is deleted then. So after a kill at any step the last checkpoint
that is there is whole.
"""  # noqa: E501  # the rows of a table

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from webcrawl.cluster.checkpoints import NAME, Checkpoint, File, Found, folder_of, read_checkpoint
from webcrawl.frontier.store import StoreError

if TYPE_CHECKING:  # only a hub with ARCHIVE_STORE loads obstore
    from webcrawl.warc.objects import Objects

FOLDER: Final = "checkpoints"
_HEADER = re.compile(r"(?:(.*)/)?(\d{6,})\.json")


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
    needed = {header}
    for name, file in checkpoint.files.items():
        needed.add(placed := _place(home, name, file))
        if there.get(placed) != file.size_bytes:
            store.send(folder / name, placed)
    store.send(folder / NAME, header)
    others = there.keys() - needed
    headers = {name for name in others if _HEADER.fullmatch(name)}
    for names in (headers, others - headers):
        store.delete(sorted(names))


def _place(home: str, name: str, file: File) -> str:
    return f"{home}/files/{file.digest}-{file.size_bytes}/{Path(name).name}"


def fetch_checkpoint(url: str, folder: Path) -> Found:
    """Fetch the last checkpoint of the only hub below `url` into an empty folder. StoreError,
    OSError.
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
    for name, file in checkpoint.files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        store.fetch(_place(homes[0], name, file).lstrip("/"), file.size_bytes, folder / name)
    return folder, checkpoint
