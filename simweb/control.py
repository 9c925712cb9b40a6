"""The control port on loopback: looks at the simulated web, and steers it. One GET a page."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

Page = Callable[[str], bytes | None]  # of the query; None: done, and nothing to show


class Control:
    """Serves pages by path. One request per connection."""

    def __init__(self, pages: Mapping[str, Page]) -> None:
        self._pages = pages
        self.port = 0

    async def start(self, host: str, port: int) -> None:
        self._server = await asyncio.start_server(self._serve, host, port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            path = head.split(b" ", 2)[1].decode("latin-1")
            path, _, query = path.partition("?")
            page = self._pages.get(path)
            try:
                status, body = (
                    (b"200 OK", page(query) or b"{}\n") if page else (b"404 Not Found", b"")
                )
            except ValueError:  # in the query
                status, body = b"400 Bad Request", b""
            writer.write(
                b"HTTP/1.1 %b\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
                % (status, len(body))
            )
            writer.write(body)
            await writer.drain()
        except (
            asyncio.IncompleteReadError,
            asyncio.LimitOverrunError,
            ConnectionError,
            IndexError,
        ):
            pass
        finally:
            writer.close()

    def close(self) -> None:
        self._server.close()
