"""Runs `python ARGUMENTS` in a fork of a process that has imported the crawler already.

A start of `scrapy` takes 1 s of CPU, nearly all of it for imports, and one of the simulated web
half a second; a fork takes milliseconds. The fork is a process as any other: streams, environment,
folder, signals and exit code are its own; the workers of its crawl are forks too. Tests of the
start itself run `sys.executable`.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

from simweb import Running
from simweb.launch import started
from tests.forkedworkers import fork_workers

ROOT = Path(__file__).parents[1]
PACKAGES = (
    *("webcrawl.commands", "webcrawl.extensions", "webcrawl.middlewares", "webcrawl.pipelines"),
    *("webcrawl.scheduler", "webcrawl.spiders", "webcrawl.fastpath", "webcrawl.downloader"),
    *("webcrawl.live", "webcrawl.tools.explain", "webcrawl.tools.trace"),
    *("webcrawl.tools.corpus", "webcrawl.tools.report"),  # without a thread until DuckDB connects
    *("webcrawl.tools.warccheck", "scrapy.cmdline", "scrapy.commands", "scrapy.core.engine"),
    *("scrapy.downloadermiddlewares", "scrapy.extensions.telnet", "scrapy.extensions.throttle"),
    *("scrapy.resolver", "simweb.cli", "simweb.server"),
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
        self._end = os.pidfd_open(self.pid)  # readable when the process has ended

    def poll(self) -> int | None:
        return self._code_within(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._code_within(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("python", timeout or 0.0)
        return code

    def _code_within(self, timeout_s: float | None) -> int | None:
        if self.returncode is None and select.select([self._end], [], [], timeout_s)[0]:
            self.returncode = int(_ask({"wait": self.pid}))
            os.close(self._end)
        return self.returncode

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


@contextmanager
def piped(*arguments: str) -> Iterator[tuple[Forked, IO[bytes], IO[bytes]]]:
    """A process, its standard input and its standard output."""
    with TemporaryDirectory() as folder:
        pipes = [Path(folder, name) for name in ("in", "out")]
        for pipe in pipes:
            os.mkfifo(pipe)
        process = Forked(arguments, files=pipes)
        with pipes[0].open("wb") as stdin, pipes[1].open("rb") as stdout:
            yield process, stdin, stdout


@contextmanager
def running(*arguments: str) -> Iterator[Running]:
    """`simweb.running`, in a fork."""
    with piped("-m", "simweb", *arguments) as (process, *pipes):
        with started(process.pid, *pipes) as web:
            yield web
        process.wait(60)


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
    sys.orig_argv = [sys.executable, *job["arguments"]]  # a fetcher may begin again
    first, *others = job["arguments"]
    if others[:1] == ["scrapy"]:
        fork_workers(others)
    if first == "-m":
        sys.argv = others
        sys.path[:1] = [job["cwd"], *path]
        runpy.run_module(others[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = [first, *others]
        sys.path[:1] = [str(Path(first).parent), *path]
        runpy.run_path(first, run_name="__main__")


if __name__ == "__main__":
    from scrapy.utils.misc import walk_modules_iter

    for package in PACKAGES:
        for _ in walk_modules_iter(package):
            pass
    assert "twisted.internet.reactor" not in sys.modules
    gc.collect()
    gc.freeze()  # no fork looks at these objects again, nor copies their memory
    if (given := _serve()) is not None:
        _run(given)
