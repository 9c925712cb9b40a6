"""A real S3 server (moto's, in a process of its own), and what may lie between it and a crawl."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Self
from urllib.request import Request, urlopen

from tests.freeport import free_port

BUCKET = "crawls"
SECRET = "s3cret-of-the-test"


@contextmanager
def s3_server() -> Iterator[int]:
    """A server with an empty bucket; its port. It takes any key."""
    port = free_port()
    arguments = ["-c", "from moto.server import main; main()", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(
        [sys.executable, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while True:
            assert process.poll() is None
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.05)
        urlopen(Request(f"http://127.0.0.1:{port}/{BUCKET}", method="PUT")).close()
        yield port
    finally:
        process.kill()
        process.wait()


def environment(port: int) -> dict[str, str]:
    """The variables by which obstore finds the server at `port`."""
    return {
        "AWS_ACCESS_KEY_ID": "key-of-the-test",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_REGION": "us-east-1",
    }


class Between:
    """A forwarder to `port`, in a thread of its own.

    is_away -- it answers no request
    asked, answered -- bytes to be replaced in requests and in answers, and by what
    bytes_max -- of a connection's requests: then it stands still, and `stopped` is set
    """

    def __init__(self, port: int) -> None:
        self.is_away = False
        self.asked = self.answered = (b"\0never\0", b"")
        self.bytes_max = 1 << 62
        self.stopped = threading.Event()
        self.port = 0
        self._to = port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._tasks: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        serve = asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._server = asyncio.run_coroutine_threadsafe(serve, self._loop).result()
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *exc: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        writers = [writer]
        try:
            theirs, ours = await asyncio.open_connection("127.0.0.1", self._to)
            writers.append(ours)
            await asyncio.gather(
                self._pass(reader, ours, is_answer=False),
                self._pass(theirs, writer, is_answer=True),
            )
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            for each in writers:
                each.transport.abort()

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool
    ) -> None:
        passed = 0
        while data := await reader.read(1 << 16):
            passed += len(data)
            if self.is_away:
                raise ConnectionResetError
            if not is_answer and passed > self.bytes_max:
                self.stopped.set()
                await asyncio.sleep(3600)
            writer.write(data.replace(*(self.answered if is_answer else self.asked)))
            await writer.drain()
        writer.write_eof()
