"""`hub.json` in JOBDIR: which hub of which crawl it is. In a crawl with one hub there is none.

Written before the frontier is begun, and never changed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from webcrawl.frontier.store import StoreError

NAME: Final = "hub.json"


class HubNumber(Struct, frozen=True):
    """`hub` of `hubs`.

    crawl -- the ID, the same for all hubs
    mail_after -- the mail of a new frontier has higher numbers: an earlier hub had the others
    """

    crawl: str
    hubs: int
    hub: int
    mail_after: int = 0


def read_number(jobdir: Path) -> HubNumber | None:
    """None without the file. StoreError."""
    path = jobdir / NAME
    try:
        return msgspec.json.decode(path.read_bytes(), type=HubNumber)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise StoreError(f"{path} cannot be read: {error}") from None


def write_number(jobdir: Path, number: HubNumber) -> None:
    """Write the file, which is on the disk then. OSError."""
    part = jobdir / f"{NAME}.part"
    with part.open("wb") as file:
        file.write(msgspec.json.encode(number))
        file.flush()
        os.fsync(file.fileno())
    part.rename(jobdir / NAME)
