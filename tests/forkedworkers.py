"""The workers of a crawl, as forks of a process that knows nothing of the crawl.

A worker that starts as `python -c` takes 0.8 s of CPU, nearly all of it for imports. A fork differs
in nothing else: arguments, environment, folder, group and its one open socket are its own.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any


class Workers:
    """A process that forks itself for each worker, and the socket to ask it."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        if not os.fork():
            self._ours.close()
            _serve(theirs)
        theirs.close()

    def ask(self, message: dict[str, Any], *descriptors: int) -> int:
        with self._lock:
            socket.send_fds(self._ours, [json.dumps(message).encode()], descriptors)
            return int(self._ours.recv(100))


class Worker:
    """The methods of `subprocess.Popen` that a crawl uses."""

    def __init__(self, workers: Workers, arguments: Sequence[str], descriptor: int) -> None:
        job = {
            "arguments": arguments,
            "descriptor": descriptor,
            "env": dict(os.environ),
            "cwd": os.getcwd(),
            "files": resource.getrlimit(resource.RLIMIT_NOFILE),
        }
        self.pid = workers.ask(job, descriptor)
        self._workers = workers
        self._end = os.pidfd_open(self.pid)  # readable when the process has ended
        self._code: int | None = None

    def poll(self) -> int | None:
        return self.wait() if select.select([self._end], [], [], 0)[0] else None

    def wait(self) -> int:
        if self._code is None:
            select.select([self._end], [], [])
            self._code = self._workers.ask({"wait": self.pid})
        return self._code

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


def fork_workers(arguments: Sequence[str]) -> None:
    """Fork what this process starts as a worker, if `scrapy` has some.

    Not the process of large bodies, which ends when its parent is not the crawl.
    """
    if not any(each.startswith("CRAWL_PROCESSES=") for each in arguments):
        return
    workers = Workers()

    class Popen(subprocess.Popen[Any]):
        def __new__(cls, command: Sequence[str], **options: Any) -> Any:
            if command[1:2] == ["-c"] and "webcrawl.extensions.worker" in command[2]:
                return Worker(workers, command[1:], *options["pass_fds"])
            return super().__new__(cls)

    subprocess.Popen = Popen  # type: ignore[misc]


def _serve(theirs: socket.socket) -> None:
    """Fork until the crawl has ended, or the worker has."""
    while True:
        given, received, *_ = socket.recv_fds(theirs, 1 << 18, 1)
        if not given:
            os._exit(0)
        message = json.loads(given)
        if pid := message.get("wait"):
            answer = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        elif answer := os.fork():
            os.close(*received)
        else:
            os.close(theirs.detach())
            _run(message, *received)
        theirs.send(str(answer).encode())


def _run(job: dict[str, Any], received: int) -> None:
    os.setpgid(0, 0)
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(received, job["descriptor"])
    if received != job["descriptor"]:
        os.close(received)
    resource.setrlimit(resource.RLIMIT_NOFILE, job["files"])
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["env"])
    option, code, *others = job["arguments"]
    sys.argv = [option, *others]
    exec(code, {"__name__": "__main__"})
    sys.exit()
