"""Ports for servers that cannot choose one, or that are killed and started again."""

from __future__ import annotations

import secrets
import socket
from contextlib import suppress


def free_port() -> int:
    """A port below those that Linux gives to others, who might take one before its server has it,
    or while the server is killed.
    """
    while True:
        port = 10_000 + secrets.randbelow(20_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
