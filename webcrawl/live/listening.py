"""Where the control server listens: the Unix socket in JOBDIR, and a port of 127.0.0.1."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from twisted.internet import unix
from twisted.internet.error import CannotListenError

from webcrawl.live.client import SOCKET, address_of


def listen_unix(jobdir: Path, factory: Any, opened: ExitStack) -> Any:
    """Listen on the socket of `jobdir`; only our own user may connect.

    A socket that no process listens on is replaced. `opened` is to be closed after the port.
    Returns Twisted's port. OSError if another process listens, or the socket cannot be made.
    """
    from twisted.internet import reactor  # noqa: PLC0415  (its import installs it)

    address = opened.enter_context(address_of(jobdir))
    if _is_live(address):
        raise OSError(f"another process listens on {jobdir / SOCKET}")
    with suppress(FileNotFoundError):
        os.unlink(address)
    port: Any = _PrivatePort(os.fsencode(address), factory, mode=0o600, reactor=reactor)
    try:
        port.startListening()
    except CannotListenError as error:
        raise OSError(f"{jobdir / SOCKET} cannot be made: {error.socketError}") from None
    return port


class _PrivatePort(unix.Port):
    """Its file has its mode from the first moment. Twisted sets the mode after `bind`."""

    def createInternetSocket(self) -> socket.socket:  # noqa: N802  (Twisted's name)
        made: socket.socket = super().createInternetSocket()  # type: ignore[no-untyped-call]
        with suppress(OSError):  # not on Linux: the mode is then as Twisted sets it
            os.fchmod(made.fileno(), self.mode)  # bind(2) takes the mode of the socket
        return made


def _is_live(address: str) -> bool:
    """Whether a process listens on the Unix socket `address`."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(1.0)
        try:
            asking.connect(address)
        except (BlockingIOError, TimeoutError):  # its queue is full
            return True
        except OSError:
            return False
    return True


def bind_loopback(port: int) -> socket.socket:
    """A socket on `port` of 127.0.0.1 that does not listen yet; 0 is a free port. OSError."""
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections in TIME_WAIT
        made.bind(("127.0.0.1", port))
        made.listen()  # two sockets may be bound to one port, but not listen
        made.setblocking(False)
    except OSError:
        made.close()
        raise
    return made


def listen_loopback(bound: socket.socket, factory: Any) -> Any:
    """Answer connections to `bound`, which is closed: the port has a copy of it."""
    from twisted.internet import reactor  # noqa: PLC0415  (its import installs it)

    with bound:
        return reactor.adoptStreamPort(bound.fileno(), socket.AF_INET, factory)
