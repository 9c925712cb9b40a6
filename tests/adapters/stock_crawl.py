"""A plain Scrapy crawl around one component, in a process of its own.

Run as a program it crawls with the spider class `S` of a Python file; `run` starts it and reads
what came out. Nothing of the project's settings applies: stock scheduler, stock handlers.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from textwrap import dedent
from threading import Thread
from types import ModuleType
from typing import Any

from scrapy.crawler import AsyncCrawlerProcess

from tests.forked import python

ROOT = Path(__file__).parents[2]

QUIET = {"LOG_LEVEL": "INFO", "TELNETCONSOLE_ENABLED": False, "REMOTE_CONTROL_ENABLED": False}


@dataclass
class Run:
    """The output, log and stats of one crawl."""

    out: str
    log: str
    code: int
    stats: dict[str, Any]


def command(folder: Path, spider: str, settings: dict[str, Any]) -> list[str]:
    """Write the spider and its settings to `folder`; return the command that crawls."""
    source, options = folder / "spider.py", folder / "settings.json"
    source.write_text(dedent(spider), encoding="utf-8")
    options.write_text(json.dumps(QUIET | settings), encoding="utf-8")
    return [sys.executable, __file__, str(source), str(options), str(folder / "stats.json")]


def environment() -> dict[str, str]:
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return os.environ | {"PYTHONPATH": path, "SCRAPY_SETTINGS_MODULE": ""}


def run(folder: Path, spider: str, settings: dict[str, Any]) -> Run:
    """Crawl to the end."""
    arguments = command(folder, spider, settings)[1:]
    done = python(*arguments, env=environment())
    return Run(done.stdout, done.stderr, done.returncode, read_stats(folder))


def read_stats(folder: Path) -> dict[str, Any]:
    path = folder / "stats.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


@dataclass
class Site:
    """A server on a loopback address, and its requests in order."""

    address: str
    port: int
    asked: list[str]

    def url(self, path: str = "/", host: str = "") -> str:
        return f"http://{host or self.address}:{self.port}{path}"


@contextmanager
def site(answers: dict[str, tuple[int, str]], address: str = "127.0.0.1") -> Iterator[Site]:
    """Serve `answers`, path to status and body (3xx: the Location); other paths are a 200."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked.append(self.path)
            status, text = answers.get(self.path, (200, "<p>page"))
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", text)
                text = ""
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer((address, 0), Handler) as server:
        server.daemon_threads = True
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield Site(address, server.server_port, asked)
        server.shutdown()


def main(source: str, options: str, results: str) -> None:
    module = sys.modules["spider"] = ModuleType("spider")
    exec(compile(Path(source).read_text(encoding="utf-8"), source, "exec"), module.__dict__)
    process = AsyncCrawlerProcess(json.loads(Path(options).read_text(encoding="utf-8")))
    crawler = process.create_crawler(module.S)
    process.crawl(crawler)
    process.start()
    stats = json.dumps(crawler.stats.get_stats(), default=str)
    Path(results).write_text(stats, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
