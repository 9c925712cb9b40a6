"""Asks a control server as other programs do: raw requests over TCP, and its events."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPResponse
from typing import Any, NamedTuple, Self

from tests.crawl.crawling import Crawl, until
from tests.forked import piped

LIVE_URL = re.compile(r"Live page: (http://127\.0\.0\.1:(\d+)/\?token=([\w-]{43}))\n")
TIMEOUT_S = 60  # of a busy machine


class Port(NamedTuple):
    """The port of a live page, and its token."""

    url: str
    number: int
    token: str

    @classmethod
    def of(cls, crawl: Crawl) -> Self:
        """The port in the first line of `crawl`."""
        crawl.until("Live page: ")
        until(lambda: "\n" in crawl.output())  # the line is written in two pieces
        found = LIVE_URL.match(crawl.output())
        assert found, crawl.output()
        return cls(found[1], int(found[2]), found[3])

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def head(self, line: str) -> str:
        """`line` and the headers that a request needs, without the empty line."""
        bearer = f"Authorization: Bearer {self.token}"
        return f"{line}\r\nHost: 127.0.0.1:{self.number}\r\n{bearer}\r\n"

    def ask(
        self, path: str, method: str = "GET", body: bytes | None = None, **headers: Any
    ) -> HTTPResponse:
        """The answer; its body has been read as `answer.text`."""
        connection = HTTPConnection("127.0.0.1", self.number, timeout=TIMEOUT_S)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, named)
        answer = connection.getresponse()
        answer.text = answer.read().decode()  # type: ignore[attr-defined]
        connection.close()
        return answer

    def status(
        self, path: str, method: str = "GET", body: bytes | None = None, **headers: Any
    ) -> int:
        return self.ask(path, method, body, **headers).status

    def raw(self, request: bytes) -> bytes:
        """What the server sends until it closes."""
        with socket.create_connection(("127.0.0.1", self.number), timeout=TIMEOUT_S) as asking:
            answer = b""
            with suppress(ConnectionError):  # it has closed before the end of the request
                asking.sendall(request)
            with suppress(ConnectionError):
                while piece := asking.recv(65536):
                    answer += piece
        return answer

    def events(self, receive_buffer: int = 0) -> Reader:
        return Reader(self, receive_buffer)


class Reader:
    """Reads server-sent events, only when it is asked for the next."""

    def __init__(self, port: Port, receive_buffer: int = 0) -> None:
        self._socket = socket.socket()
        self._socket.settimeout(TIMEOUT_S)
        if receive_buffer:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._socket.connect(("127.0.0.1", port.number))
        self._socket.sendall(f"{port.head('GET /events HTTP/1.0')}\r\n".encode())
        self._file = self._socket.makefile("rb")
        self.status = int(self._file.readline().split()[1])

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """(name, data) of each event."""
        name = ""
        for line in self._file:
            field, _, value = line.decode().rstrip("\r\n").partition(": ")
            if field == "event":
                name = value
            elif field == "data":
                yield name, json.loads(value)

    def next(self, name: str) -> Any:
        """The data of the next event `name`."""
        return next(data for each, data in self if each == name)

    def close(self) -> None:
        self._file.close()
        self._socket.close()


@contextmanager
def made_up(*arguments: str) -> Iterator[Port]:
    """The control server of `tests.crawl.madeuplive`. It ends with the block."""
    with piped("-m", "tests.crawl.madeuplive", *arguments) as (process, stdin, stdout):
        found = LIVE_URL.match(f"Live page: {stdout.readline().decode()}")
        assert found
        yield Port(found[1], int(found[2]), found[3])
        stdin.close()
        assert process.wait(TIMEOUT_S) == 0, "the made-up server failed"
