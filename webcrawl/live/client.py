"""Asks a running crawl over its control socket: for `scrapy ctl`, `scrapy top` and `explain`.

Needs neither Scrapy nor Twisted, so a command that only asks starts fast. The server shares the
address of the socket. That of a Unix socket has 108 bytes, and the last is zero (unix(7)): a longer
path is reached through the file descriptor of its folder.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Final

SOCKET: Final = "control.sock"  # in JOBDIR
ADDRESS_MAX: Final = 107  # bytes
TIMEOUT_S: Final = 60.0  # a crawl on a busy machine may take seconds to answer


class NotRunning(Exception):  # noqa: N818  (a state of the crawl)
    """No crawl listens in this JOBDIR, or it ended before it answered: one line for the user."""


class Refused(Exception):  # noqa: N818  (an answer of the crawl)
    """The crawl refused what was asked: one line for the user."""


def ask(jobdir: Path, method: str, path: str, body: object = None) -> object:
    """The answer of the crawl in `jobdir`: JSON is decoded, other types are text.

    `path` is quoted, with its query. `body` is sent as JSON. NotRunning without an answer, Refused
    if the status is not 200.
    """
    connection = _Connection(jobdir)
    headers = {} if body is None else {"Content-Type": "application/json"}
    try:
        sent = None if body is None else json.dumps(body).encode()
        connection.request(method, path, sent, headers)
        answer = connection.getresponse()
        text = answer.read().decode("utf-8", "replace")
        media_type = answer.headers.get_content_type()
        value = json.loads(text) if media_type == "application/json" else text
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
        raise NotRunning(f"no crawl is running in {jobdir}") from None
    except TimeoutError:
        raise NotRunning(f"the crawl in {jobdir} gave no answer in {TIMEOUT_S:.0f} s") from None
    except PermissionError:
        raise NotRunning(f"the crawl in {jobdir} belongs to another user") from None
    except (OSError, HTTPException, ValueError) as error:
        raise NotRunning(f"the crawl in {jobdir} ended before it answered: {error!r}") from None
    finally:
        connection.close()
    if answer.status == 200:
        return value
    reason = value.get("error") if isinstance(value, dict) else None
    raise Refused(str(reason or f"the crawl answered {answer.status} {answer.reason}"))


def ask_for(jobdir: Path, path: str, order: object) -> str:
    """Send `order` to the crawl in `jobdir`; its message. Raises what `ask` raises."""
    answer = ask(jobdir, "POST", path, order)
    return str(answer["message"] if isinstance(answer, dict) else answer)


class _Connection(HTTPConnection):
    """HTTP over the socket in `jobdir`."""

    def __init__(self, jobdir: Path) -> None:
        super().__init__("localhost", timeout=TIMEOUT_S)
        self._jobdir = jobdir

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        with address_of(self._jobdir) as address:
            self.sock.connect(address)


@contextmanager
def address_of(jobdir: Path) -> Iterator[str]:
    """An address of the socket in `jobdir` that `bind` and `connect` take.

    It is valid inside of the `with` block only. OSError if `jobdir` cannot be opened.
    """
    path = str(jobdir / SOCKET)
    if len(os.fsencode(path)) <= ADDRESS_MAX:
        yield path
        return
    folder = os.open(jobdir, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{SOCKET}"
    finally:
        os.close(folder)
