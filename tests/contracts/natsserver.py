"""A real nats-server for tests (on Debian: apt-get install nats-server)."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Self

import pytest

from tests.freeport import free_port


def binary() -> str:
    """The program, or a skip with the reason."""
    path = shutil.which("nats-server", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
    if path is None:
        pytest.skip("there is no nats-server (on Debian: apt-get install nats-server)")
    return path


class NatsServer:
    """A server with JetStream on a free port of loopback, to be killed and started again."""

    def __init__(self, folder: Path, *arguments: str, jetstream: bool = True) -> None:
        self.port = free_port()
        self.store = folder / "jetstream"
        self.log = folder / "nats-server.log"
        folder.mkdir(parents=True, exist_ok=True)
        self._command = [binary(), "-a", "127.0.0.1", "-p", str(self.port), "-l", str(self.log)]
        if jetstream:
            self._command += ["-js", "-sd", str(self.store)]
        self._command += arguments
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> Self:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 10).close()
                return self
            except ConnectionRefusedError:
                assert self._process.poll() is None, self.log.read_text()
                time.sleep(0.01)

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def wipe(self) -> None:
        shutil.rmtree(self.store, ignore_errors=True)
