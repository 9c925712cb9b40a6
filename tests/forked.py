"""Runs `python ARGUMENTS` in a fork of a process that has imported the crawler already.

A start of `scrapy` takes 1 s of CPU, nearly all of it for imports; a fork takes milliseconds. The
fork is a process as any other: streams, environment, folder, signals and exit code are its own.
Tests of the start itself, and the processes that a crawl starts, run `sys.executable`.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[1]
PRELOADED = (
    *("commands", "extensions", "middlewares", "pipelines", "scheduler", "spiders"),
    *("tools.explain", "tools.trace", "tools.warccheck"),
)

_servers: list[subprocess.Popen[str]] = []  # at most one, for the process of pytest


class Forked:
    """`python ARGUMENTS`, with the methods of `subprocess.Popen` that tests use."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        files: Sequence[Path | str],  # standard input, output and error
        cwd: Path = ROOT,
        env: Mapping[str, str] | None = None,
    ) -> None:
        for file in files[1:]:
            Path(file).touch()  # a test may read it before the fork opens it
        env = dict(os.environ if env is None else env)
        job = {"arguments": arguments, "cwd": str(cwd), "env": env, "files": list(map(str, files))}
        self.returncode: int | None = None
        self.pid = int(_ask(job))

    def poll(self) -> int | None:
        if self.returncode is None and (code := _ask({"wait": self.pid})):
            self.returncode = int(code)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("python", timeout or 0.0)
            time.sleep(0.005)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def python(
    *arguments: str,
    cwd: Path = ROOT,
    stdin: str = "",
    env: Mapping[str, str] | None = None,
    timeout_s: float = 280,  # less than that of a test
) -> subprocess.CompletedProcess[str]:
    """What `subprocess.run` returns for `python -m MODULE ...` or `python FILE ...`."""
    with TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("in", "out", "err")]
        files[0].write_text(stdin)
        process = Forked(arguments, files=files, cwd=cwd, env=env)
        try:
            code = process.wait(timeout_s)
        except BaseException:
            process.kill()
            raise
        return subprocess.CompletedProcess(
            arguments, code, files[1].read_text(), files[2].read_text()
        )


def end() -> None:
    """End the server, and what it runs."""
    while _servers:
        server = _servers.pop()
        os.killpg(server.pid, signal.SIGKILL)
        server.communicate()


def _ask(message: dict[str, Any]) -> str:
    """The server's answer, one line."""
    if not _servers:
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        pipes["env"] = os.environ | {"PYTHONUNBUFFERED": "1"}
        command = [sys.executable, "-m", "tests.forked"]
        _servers.append(subprocess.Popen(command, cwd=ROOT, start_new_session=True, **pipes))
    server = _servers[0]
    assert server.stdin
    assert server.stdout
    server.stdin.write(json.dumps(message) + "\n")
    server.stdin.flush()
    return server.stdout.readline().strip()


def _serve() -> dict[str, Any] | None:
    """Fork for each job on standard input. Returns the job in the fork, None at the end."""
    for line in sys.stdin:
        message: dict[str, Any] = json.loads(line)
        if pid := message.get("wait"):
            ended, status = os.waitpid(pid, os.WNOHANG)
            print(os.waitstatus_to_exitcode(status) if ended else "")
        elif pid := os.fork():
            print(pid)
        else:
            return message
    return None


def _run(job: dict[str, Any]) -> None:
    for number, file in enumerate(job["files"]):
        opened = os.open(file, os.O_WRONLY if number else os.O_RDONLY)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = open(0)  # noqa: SIM115  (the one before has read the job)
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["env"])
    path = filter(None, job["env"].get("PYTHONPATH", "").split(os.pathsep))
    first, *others = job["arguments"]
    if first == "-m":
        sys.argv = others
        sys.path[:1] = [job["cwd"], *path]
        runpy.run_module(others[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = [first, *others]
        sys.path[:1] = [str(Path(first).parent), *path]
        runpy.run_path(first, run_name="__main__")


if __name__ == "__main__":
    from scrapy.utils.misc import walk_modules

    for package in PRELOADED:
        walk_modules(f"webcrawl.{package}")
    assert "twisted.internet.reactor" not in sys.modules
    if (given := _serve()) is not None:
        _run(given)
