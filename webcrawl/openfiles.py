"""How many files and sockets this process may have open, and what each part of it gets of them.

Owns the limit of the system (RLIMIT_NOFILE) and the errors that say it is reached: these are ours,
not the fault of whoever was to be asked.
"""

from __future__ import annotations

import errno
import resource
from typing import Final, NamedTuple

WANTED: Final = 8192  # pages, admissions, idle connections, the frontier's files
# Standard streams, event loop, logs, WARC files, the frontier's other files, DNS, other processes.
RESERVED: Final = 56
TABLES: Final = (20, 400)  # files that the frontier's database has open: at least, at most
IDLE: Final = (512, 128)  # connections that wait, without and with TLS: at most
CONNECTIONS_MIN: Final = 8  # a crawl with fewer is none

_OURS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class TooFewFilesError(ValueError):
    """The limit is too low for a crawl."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"only {limit} open files are allowed (ulimit -n): a crawl needs 128 or more,"
            " better 2048"
        )


class Plan(NamedTuple):
    """What a process may have open within `limit`."""

    limit: int
    tables: int
    idle: tuple[int, int]

    def connections(self, *, disk: bool, keep_alive: bool) -> int:
        """Pages and admissions under way at most; below CONNECTIONS_MIN there can be no crawl."""
        left = self.limit - RESERVED - self.tables * disk - sum(self.idle) * keep_alive
        return max(left, 0)


def raise_limit() -> int:
    """Raise the soft limit, 1,024 in most places, as far as WANTED and the hard one let us; it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED if hard == resource.RLIM_INFINITY else min(WANTED, hard)
    if 0 <= soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return plan().limit


def plan() -> Plan:
    """For the soft limit as it is."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return plan_for(WANTED if soft == resource.RLIM_INFINITY else soft)


def plan_for(limit: int) -> Plan:
    """An eighth for the tables, and one and a quarter of an eighth for what waits."""
    tables = min(max(limit // 8, TABLES[0]), TABLES[1])
    return Plan(limit, tables, (min(limit // 8, IDLE[0]), min(limit // 32, IDLE[1])))


def is_ours(error: OSError) -> bool:
    """Whether `error` says that there is no socket, no buffer or no memory left for us."""
    return error.errno in _OURS
