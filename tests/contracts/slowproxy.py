"""A TCP proxy that delays what it carries, in a thread of its own."""

from __future__ import annotations

import asyncio
from threading import Thread
from typing import Self

from tests.closing import close


class SlowProxy:
    """Carries connections to `port` of loopback, each way `delay_s` late and in order."""

    def __init__(self, port: int, delay_s: float) -> None:
        self.port = 0
        self._to = port
        self._delay_s = delay_s
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        serving = asyncio.start_server(self._carry, "127.0.0.1", 0)
        self._server = asyncio.run_coroutine_threadsafe(serving, self._loop).result(10)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _end(self) -> None:
        await close(self._server)
        while rest := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in rest:
                task.cancel()
            await asyncio.gather(*rest, return_exceptions=True)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers = [writer]
        try:
            to_reader, to_writer = await asyncio.open_connection("127.0.0.1", self._to)
            writers.append(to_writer)
            await asyncio.gather(self._delay(reader, to_writer), self._delay(to_reader, writer))
        except OSError:
            pass  # one end is gone, and so the other is closed
        finally:
            for each in writers:
                each.transport.abort()

    async def _delay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        def write(data: bytes) -> None:
            writer.write(data) if data else writer.close()

        data = b"-"
        while data:
            data = await reader.read(1 << 16)
            self._loop.call_later(self._delay_s, write, data)
