"""The identity of a crawl on disk: checked before anything in the folder is changed.

Owns the row of the crawl's identity (`rows.IDENTITY`), and reads its numbers (`rows.NUMBERS`). A
folder with foreign files, another format, another order or damaged files is refused with a
StoreError and left unchanged.
"""

from __future__ import annotations

import json
import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from xxhash import xxh3_64_intdigest

from webcrawl.frontier.disk import rows
from webcrawl.frontier.disk.database import Database, is_begun, refuse_lost_files
from webcrawl.frontier.store import StoreError

Identity = dict[str, Any]  # settings that distinguish this crawl from others, by name
Row = dict[str, Any]  # the JSON of the identity, or of the numbers


def check_folder(folder: Path | None, settings: Identity) -> tuple[Row, list[str]]:
    """The identity of the crawl in `folder`, or of a new crawl, and warnings for the log.

    `folder` is None for a crawl in memory, which is new. Opens all files once, reads their ends and
    the log: about a second for 100 GB.
    """
    if folder is None or not is_begun(folder):
        return _new(settings), []
    refuse_lost_files(folder)
    warnings = []
    try:
        db = Database(folder, read_only=True, damaged_log=False)
    except StoreError:
        db = Database(folder, read_only=True)
        warnings = [f"The log of {folder} is damaged: it resumes from the last commit before"]
    try:
        before = read_identity(db)
        read_numbers(db)
        if before is None and next(db.rows(b""), None) is not None:
            raise StoreError(f"{folder} is no frontier: it is another program's database")
    finally:
        db.close()
    if before is None:
        if any(folder.glob("*.sst")):
            raise StoreError(f"{folder} cannot be used: it has files, but no rows")
        return _new(settings), warnings
    known = before["settings"]
    order = known.get("FRONTIER_ORDER")
    if order != settings.get("FRONTIER_ORDER"):
        raise StoreError(
            f"{folder} was begun with FRONTIER_ORDER = {order!r}, and resumes only with that"
        )
    if known.get("PROXY") == "set" and "PROXY" not in settings:
        raise StoreError(
            f"{folder} was begun with PROXY, and resumes only with it; PROXY=direct asks the hosts"
            " directly from now on"
        )
    warnings += [
        f"{name} is {value!r}, and was {known.get(name)!r} in the last run of this crawl"
        for name, value in settings.items()
        if value != known.get(name)
    ]
    return before | {"settings": settings}, warnings


def read_identity(db: Database) -> Row | None:
    """The identity of the crawl in `db`, None before the first commit. StoreError."""
    row = _read(db, rows.IDENTITY)
    if row is None:
        return None
    if row.get("format") != rows.FORMAT:
        raise StoreError(
            f"{db.folder} has format {row.get('format')}, this version reads {rows.FORMAT}"
        )
    if not isinstance(row.get("seen_key"), int) or not isinstance(row.get("settings"), dict):
        raise _damaged(db, rows.IDENTITY)
    return row


def read_numbers(db: Database) -> Row | None:
    """The numbers of the last commit, None before the first. StoreError."""
    row = _read(db, rows.NUMBERS)
    if row is not None and not row.keys() >= {"hosts", "queued", "arrivals", "counters"}:
        raise _damaged(db, rows.NUMBERS)
    return row


def crawl_id(identity: Row) -> str:
    """The ID of the crawl with `identity`: its UTC start in 14 digits, and 6 hex digits."""
    digits = "".join(filter(str.isdigit, str(identity.get("created"))))[:14]
    return f"{digits:0<14}-{xxh3_64_intdigest(b'%d' % identity['seen_key']) & 0xFFFFFF:06x}"


def new_crawl_id() -> str:
    """An ID for a crawl that begins now: its UTC time in 14 digits, and 6 random hex digits."""
    return f"{datetime.now(UTC):%Y%m%d%H%M%S}-{secrets.token_hex(3)}"


def _new(settings: Identity) -> Row:
    created = datetime.now(UTC).isoformat(timespec="seconds")
    return {
        "format": rows.FORMAT,
        "created": created,
        "seen_key": secrets.randbits(64),
        "settings": settings,
    }


def _read(db: Database, key: bytes) -> Row | None:
    row = db.get(key)
    if row is None:
        return None
    try:
        value = json.loads(row)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise _damaged(db, key)
    return value


def _damaged(db: Database, key: bytes) -> StoreError:
    return StoreError(f"{db.folder} cannot be used: its row {key.decode()!r} is damaged")
