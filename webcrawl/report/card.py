"""JOBDIR/crawl.json, by which commands find what belongs to a crawl: its folders and its ID."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from webcrawl.base.synced import replace_file

FILE: Final = "crawl.json"


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """The content, as of the start of the last run. Folders are absolute."""

    crawl: str  # its ID
    spider: str
    started: str  # UTC
    pid: int
    warc_dir: str
    report_dir: str
    version: str
    store: str = ""  # ARCHIVE_STORE


def write_card(jobdir: Path, card: Card) -> None:
    """Replace the file. OSError."""
    replace_file(jobdir / FILE, msgspec.json.format(msgspec.json.encode(card), indent=2) + b"\n")


def read_card(folder: Path) -> Card | None:
    """The card in `folder`; None without one that can be read."""
    try:
        return msgspec.json.decode((folder / FILE).read_bytes(), type=Card)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
