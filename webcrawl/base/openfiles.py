"""Divides the files and sockets that this process may open among its parts.

Owns the limit of the system (RLIMIT_NOFILE), and recognises the errors of a reached limit: these
are our fault, not the server's.
"""

from __future__ import annotations

import errno
import resource
from typing import Final, NamedTuple

WANTED: Final = 8192  # pages, admissions, idle connections, the frontier's files
# Standard streams, event loop, logs, WARC files, the frontier's other files, DNS, other processes.
RESERVED: Final = 56
TABLES: Final = (20, 400)  # open files of the frontier's database: at least, at most
IDLE: Final = (512, 128)  # idle connections, without and with TLS: at most
CONNECTIONS_MIN: Final = 8  # a crawl with fewer does not start

_OURS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class TooFewFilesError(ValueError):
    """The limit is too low for a crawl."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"only {limit} open files are allowed (ulimit -n): a crawl needs 128 or more,"
            " better 2048"
        )


class Plan(NamedTuple):
    """The shares of `limit` open files: database tables, idle connections, the rest."""

    limit: int
    tables: int
    idle: tuple[int, int]

    def connections(self, *, disk: bool, keep_alive: bool) -> int:
        """Pages and admissions under way, at most. A crawl needs CONNECTIONS_MIN or more."""
        left = self.limit - RESERVED - self.tables * disk - sum(self.idle) * keep_alive
        return max(left, 0)


def raise_limit() -> int:
    """Raise the soft limit, often 1,024, to WANTED or the hard limit. Returns the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED if hard == resource.RLIM_INFINITY else min(WANTED, hard)
    if 0 <= soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return plan().limit


def plan() -> Plan:
    """The plan for the present soft limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return plan_for(WANTED if soft == resource.RLIM_INFINITY else soft)


def plan_for(limit: int) -> Plan:
    """Tables get an eighth of `limit`, idle connections an eighth, with TLS a 32nd more."""
    tables = min(max(limit // 8, TABLES[0]), TABLES[1])
    return Plan(limit, tables, (min(limit // 8, IDLE[0]), min(limit // 32, IDLE[1])))


def is_ours(error: OSError) -> bool:
    """Whether `error` means that this machine has no socket, buffer or memory left for us."""
    return error.errno in _OURS
