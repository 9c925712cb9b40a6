"""The lock of a crawl's folder: a file that the process of the crawl has locked with flock(2).

Whoever can open the file can lock it, so only its owner can.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from webcrawl.frontier.store import StoreError

LOCK = "frontier.lock"  # in JOBDIR: its text is the number of the process

_LOCKS = Path("/proc/locks")  # Linux: one line for each lock of the machine


class InUseError(StoreError):
    """Another process has locked the folder."""


def hold(folder: Path) -> int:
    """Lock `folder`; the system unlocks it when this process ends or dies. InUseError, OSError."""
    path = folder / LOCK
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        with suppress(PermissionError):  # a file system without rights
            os.fchmod(lock, 0o600)  # earlier versions made it readable for all
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(lock, 0)
        os.pwrite(lock, b"%d\n" % os.getpid(), 0)
    except BlockingIOError:
        number = os.read(lock, 32).decode("ascii", "replace").strip()
        os.close(lock)
        raise InUseError(_use_of(path, number)) from None
    except OSError:
        os.close(lock)
        raise
    return lock


def _use_of(path: Path, number: str) -> str:
    """Who has locked the file at `path`, which has the number of a process."""
    if number in map(str, holders(path)):
        return f"{path.parent} is in use by another crawl, process {number}"
    return f"{path.parent} is in use: another process has locked {path.name}"


def holders(path: Path) -> list[int]:
    """The living processes that hold or share the lock of a file; none where Linux is not."""
    try:
        inode = path.stat().st_ino
        lines = [line.split() for line in _LOCKS.read_text().splitlines()]
    except OSError:
        return []
    # 1: FLOCK ADVISORY WRITE 4711 fd:00:2253266 0 EOF
    found = [line[4] for line in lines if line[1] == "FLOCK" and line[5].endswith(f":{inode}")]
    return [number for number in map(int, found) if number > 0 and Path(f"/proc/{number}").exists()]
