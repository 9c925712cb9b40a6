"""Runs `python ARGUMENTS` in a fork of a process that has imported the crawler already.

A start of `scrapy` takes 1 s of CPU, most of it for imports; a fork takes some milliseconds. The
fork is a process as any other, with streams, environment, folder and exit code of its own. What
is about starting itself (imports, memory, several processes) starts `sys.executable`.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from select import select
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[1]

_servers: list[subprocess.Popen[str]] = []  # at most one, for the process of pytest


def python(
    *arguments: str,
    cwd: Path = ROOT,
    stdin: str = "",
    env: Mapping[str, str] | None = None,
    timeout_s: float = 300,
) -> subprocess.CompletedProcess[str]:
    """What `subprocess.run` returns for `python -m MODULE ...` or `python FILE ...`."""
    with TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("in", "out", "err")]
        files[0].write_text(stdin)
        job = {
            "arguments": arguments,
            "cwd": str(cwd),
            "env": dict(os.environ if env is None else env),
            "files": list(map(str, files)),
        }
        code = _exit_code(json.dumps(job), timeout_s)
        return subprocess.CompletedProcess(
            arguments, code, files[1].read_text(), files[2].read_text()
        )


def _exit_code(job: str, timeout_s: float) -> int:
    if not _servers:
        command = [sys.executable, "-m", "tests.forked"]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        _servers.append(
            subprocess.Popen(command, cwd=ROOT, text=True, start_new_session=True, **pipes)
        )
    server = _servers[0]
    assert server.stdin
    assert server.stdout
    server.stdin.write(job + "\n")
    server.stdin.flush()
    try:
        if select([server.stdout], [], [], timeout_s)[0]:
            return int(server.stdout.readline())
    except BaseException:
        end()
        raise
    end()
    raise subprocess.TimeoutExpired(job, timeout_s)


def end() -> None:
    """End the server, and what it runs."""
    while _servers:
        server = _servers.pop()
        os.killpg(server.pid, signal.SIGKILL)
        server.communicate()


def _serve() -> dict[str, Any] | None:
    """Fork for each job on standard input. Returns the job in the fork, None at the end."""
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            job: dict[str, Any] = json.loads(line)
            return job
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
    return None


def _run(job: dict[str, Any]) -> None:
    flags = (os.O_RDONLY, os.O_WRONLY | os.O_CREAT, os.O_WRONLY | os.O_CREAT)
    for number, (path, flag) in enumerate(zip(job["files"], flags, strict=True)):
        os.dup2(os.open(path, flag), number)
    sys.stdin = open(0)  # noqa: SIM115  (the one before has read the job)
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["env"])
    module, *others = job["arguments"]
    if module == "-m":
        module, *others = others
    path = [part for part in job["env"].get("PYTHONPATH", "").split(os.pathsep) if part]
    sys.path[:1] = [job["cwd"], *path]
    sys.argv = [module, *others]
    if module.endswith(".py"):
        runpy.run_path(module, run_name="__main__")
    else:
        runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    from scrapy.utils.misc import walk_modules

    for name in ("commands", "extensions", "middlewares", "pipelines", "scheduler", "spiders"):
        walk_modules(f"webcrawl.{name}")
    assert "twisted.internet.reactor" not in sys.modules
    if (given := _serve()) is not None:
        _run(given)
