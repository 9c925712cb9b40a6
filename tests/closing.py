"""How a test ends a server of asyncio."""

from __future__ import annotations

import asyncio


async def close(server: asyncio.Server) -> None:
    """Accept no further connection, and close.

    Python 3.11 leaks a connection that it has accepted and not yet attached when the server closes
    (`_accept_connection2` ends by an AssertionError): three turns of the loop attach it.
    """
    loop = asyncio.get_running_loop()
    for listener in server.sockets:
        loop.remove_reader(listener)
    for _ in range(3):
        await asyncio.sleep(0)
    server.close()
