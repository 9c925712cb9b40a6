"""A site of known bytes, crawled into an archive once per test module."""

from __future__ import annotations

import gzip
import socket
import threading
import zlib
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.adapters.rawserver import RawServer, path_of, read_request
from tests.crawl.crawling import Result, crawl

PAGE = b"<html><title>A page</title><body>" + b"<p>Some words of a page.</p>\n" * 40
# Settings of a crawl of `served`.
AT_ONCE: dict[str, Any] = {"ALLOW_PRIVATE_ADDRESSES": 1, "DOWNLOAD_DELAY": 0, "IP_DELAY": 0}
MAX_SIZE = 100_000  # DOWNLOAD_MAXSIZE of the crawl
ROBOTS = b"User-agent: *\nDisallow: /private\n"
CLOSE = b"Connection: close"  # on a kept connection pages would come out of order


def answer(
    body: bytes, *fields: bytes, status: bytes = b"200 OK", length: int | None = None
) -> bytes:
    """An answer with `body` and a Content-Length: `length`, or the length of the body."""
    told = len(body) if length is None else length
    lines = [b"Content-Type: text/html", b"Content-Length: %d" % told, CLOSE, *fields]
    return b"HTTP/1.1 %b\r\n%b\r\n\r\n%b" % (status, b"\r\n".join(lines), body)


def chunked(body: bytes, *fields: bytes, size: int = 500) -> bytes:
    """An answer with `body` in chunks of `size`."""
    lines = [b"Content-Type: text/html", b"Transfer-Encoding: chunked", CLOSE, *fields]
    chunks = [body[at : at + size] for at in range(0, len(body), size)]
    framed = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    return b"HTTP/1.1 200 OK\r\n%b\r\n\r\n%b0\r\n\r\n" % (b"\r\n".join(lines), framed)


GZIPPED = b"Content-Encoding: gzip"
OWN = {name: PAGE + name.encode() for name in ("plain", "chunked", "gzip", "both", "old", "odd")}

# Answers that every reader of archives must accept.
SOUND = {
    "/plain": answer(OWN["plain"], b"X-Repeat: 1", b"x-repeat: 2"),
    "/chunked": chunked(OWN["chunked"]),
    "/gzip": answer(gzip.compress(OWN["gzip"], mtime=0), GZIPPED),
    "/both": chunked(gzip.compress(OWN["both"], mtime=0), GZIPPED),
    "/old": b"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n" + OWN["old"],
    "/moved": answer(b"", b"Location: /plain", status=b"302 Found"),
    "/missing": answer(b"<html>no such page", status=b"404 Not Found"),
    "/empty": answer(b""),
    "/copy": answer(OWN["plain"], b"X-Copy: yes"),
    "/copy-gzip": answer(gzip.compress(OWN["plain"], mtime=0), GZIPPED),
    "/caf%C3%A9": answer(PAGE + b"cafe"),
    "/cut": answer(PAGE + b"cut", length=len(PAGE) + 1000),
    "/large": answer(PAGE + b"large" * MAX_SIZE),
}
# Answers that some readers reject, although the archive is right: odd heads, false framing.
ODD = {
    "/lf": b"HTTP/1.1 200 OK\nContent-Type: text/html\n\n" + OWN["odd"],
    "/latin": answer(PAGE + b"latin", b"X-Name: caf\xe9"),
    "/folded": answer(PAGE + b"folded", b"X-Long: one\r\n two"),
    "/no-colon": answer(PAGE + b"no-colon", b"garbage"),
    "/long-head": answer(PAGE + b"long-head", b"X-Long: " + b"a" * 32_000),
    "/interim": answer(PAGE + b"interim"),
    "/liar": b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"
    + b"<html>these are no chunks\n" * 200,
}
_STEP_BYTES = 4096
INTERIM = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"


@dataclass
class Record:
    """One record as it stands in a file, read without the code under test."""

    offset: int
    type: str
    fields: dict[str, str]  # names in lower case
    block: bytes

    @property
    def id(self) -> str:
        return self.fields["warc-record-id"]

    @property
    def url(self) -> str:
        return self.fields.get("warc-target-uri", "")


def records(path: Path) -> list[Record]:
    """All records of a file; each must be a gzip member of its own."""
    data, found, at = path.read_bytes(), [], 0
    while at < len(data):
        member, start, pieces = zlib.decompressobj(31), at, list[bytes]()
        while not member.eof:  # in steps: what is behind a member is copied
            step = data[at : at + _STEP_BYTES]
            assert step
            pieces.append(member.decompress(step))
            at += len(step) - len(member.unused_data)
        head, _, block = b"".join(pieces).partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        assert lines[0] == "WARC/1.1"
        fields = {name.lower(): value.strip() for name, _, value in (
            line.partition(":") for line in lines[1:]
        )}  # fmt: skip
        assert block[int(fields["content-length"]) :] == b"\r\n\r\n"
        found.append(Record(start, fields["warc-type"], fields, block[:-4]))
    return found


@dataclass
class Site:
    """A server of `pages`, with an index of them at `/`; it records the requests.

    It never answers a request for a page that is empty.
    """

    pages: dict[str, bytes]
    requests: defaultdict[str, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    port: int = 0

    def __post_init__(self) -> None:
        links = "".join(f'<a href="{path}">{path}</a>\n' for path in [*self.pages, "/private"])
        self.pages = {
            "/": answer(b"<html>" + links.encode()),
            "/robots.txt": answer(ROBOTS),
            **self.pages,
        }
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def serve(self, connection: socket.socket) -> None:
        request = read_request(connection)
        path = path_of(request)
        with self._lock:
            self.requests[path].append(request)
        sent = self.pages[path]
        if not sent:
            connection.recv(1)  # until the client closes
            return
        if request.startswith(b"HEAD"):
            sent = sent[: sent.index(b"\r\n\r\n") + 4]
        connection.sendall((INTERIM if path == "/interim" else b"") + sent)

    def archived(self, path: str) -> bytes:
        """The bytes that an archive must have for `path`: those sent, up to MAX_SIZE."""
        head, blank, body = self.pages[path].partition(b"\r\n\r\n")
        return head + blank + body[:MAX_SIZE]


@contextmanager
def served(pages: dict[str, bytes]) -> Iterator[Site]:
    """A site that serves until the block ends."""
    site = Site(dict(pages))
    with RawServer(site.serve) as server:
        site.port = server.port
        yield site


def crawled(folder: Path, site: Site, **settings: object) -> Result:
    """Crawl all pages of `site`."""
    chosen = AT_ONCE | {"DOWNLOAD_MAXSIZE": MAX_SIZE}
    return crawl(folder, f"{site.url}/", **chosen | settings)
