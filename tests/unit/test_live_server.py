"""How long the control server waits for a request. Whole requests: tests/crawl."""

from __future__ import annotations

import subprocess
import sys


def test_a_byte_now_and_then_does_not_hold_a_connection() -> None:
    """In a process of its own, since it installs a reactor: other tests expect none."""
    subprocess.run([sys.executable, "-c", _SLOW], check=True, timeout=120)


_SLOW = r"""
import socket

from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport

from webcrawl.live.server import IDLE_S, Server

clock, transport, handle = Clock(), StringTransport(), socket.socket()
transport.getHandle = lambda: handle  # it is asked for its error
connection = Server(None, None).factory.buildProtocol(None)
connection.wrappedProtocol.callLater = clock.callLater
connection.makeConnection(transport)
connection.dataReceived(b"GET /snapshot HTTP/1.1\r\nX: ")
for _ in range(3):
    clock.advance(IDLE_S / 4)
    connection.dataReceived(b"a")
assert not transport.disconnecting
clock.advance(IDLE_S / 4)
assert transport.disconnecting
"""
