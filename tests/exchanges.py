"""Exchanges for the tests of the archive: what servers send, and what was made of it."""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from webcrawl.fetch.exchange import Exchange, Tls
from webcrawl.fetch.http1 import parse_headers
from webcrawl.warc.files import WarcFiles
from webcrawl.warc.reader import Record, read_records
from webcrawl.warc.records import Capture, Original, payload_digest

STARTED = 1_700_000_000.123456
DATE = "2023-11-14T22:13:20.123456Z"
TEXT = b"<!DOCTYPE html><title>A page</title><p>" + b"Some words of it. " * 40
METADATA = (("via", "http://a.test/"), ("hopsFromSeed", "L"))
TLS = Tls("TLSv1.3", "TLS_AES_256_GCM_SHA384", "ab" * 32, "expired")


def exchange(
    head: bytes = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n",
    body: bytes = TEXT,
    url: str = "http://a.test/page",
    method: str = "GET",
    truncated: str = "",
    payload: bytes | None = None,
) -> Exchange:
    return Exchange(
        method=method,
        url=url,
        request=f"{method} /page HTTP/1.1\r\nHost: a.test\r\n\r\n".encode(),
        head=head,
        status=int(head.split(None, 2)[1]),
        http_version="1.1",
        headers=parse_headers(head),
        ip="192.0.2.1",
        body=body,
        payload=body if payload is None else payload,
        truncated=truncated,
        started_time=STARTED,
    )


def capture(each: Exchange, original: Original | None = None) -> Capture:
    return Capture(each, payload_digest(each), original, METADATA)


def chunked(*chunks: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in (*chunks, b""))


def head(*lines: bytes, end: bytes = b"\r\n") -> bytes:
    return end.join([b"HTTP/1.1 200 OK", *lines, b"", b""])


HTML = b"Content-Type: text/html"
LENGTH = b"Content-Length: %d" % len(TEXT)
CHUNKED = b"Transfer-Encoding: chunked"
GZIPPED = gzip.compress(TEXT, mtime=0)
NOISE = random.Random(0).randbytes(80_000).hex().encode()  # 90 KB as gzip

# What a crawl meets, each under a name of its own.
EXCHANGES = {
    "plain": exchange(head(HTML, LENGTH)),
    "to eof": exchange(head(HTML)),
    "chunked": exchange(head(HTML, CHUNKED), chunked(TEXT[:100], TEXT[100:])),
    "chunked with a trailer": exchange(
        head(HTML, CHUNKED), chunked(TEXT)[:-2] + b"Expires: 0\r\n\r\n"
    ),
    "gzip": exchange(head(HTML, b"Content-Encoding: gzip"), GZIPPED, payload=TEXT),
    "gzip, chunked": exchange(
        head(HTML, b"Content-Encoding: gzip", CHUNKED),
        chunked(GZIPPED[:50], GZIPPED[50:]),
        payload=TEXT,
    ),
    "gzip, large": exchange(
        head(HTML, b"Content-Encoding: gzip"), gzip.compress(NOISE, mtime=0), payload=NOISE
    ),
    "chunked, cut": exchange(head(HTML, CHUNKED), chunked(TEXT)[:200], truncated="length"),
    "length, cut": exchange(head(HTML, LENGTH), TEXT[:10], truncated="disconnect"),
    "no body": exchange(head(HTML, b"Content-Length: 0"), b""),
    "redirect": exchange(b"HTTP/1.1 301 Moved\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", b""),
    "not modified": exchange(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 50\r\n\r\n", b""),
    "HEAD": exchange(head(HTML, LENGTH), b"", method="HEAD"),
    "repeated headers": exchange(head(b"set-COOKIE: a=1", b"X:y", b"Set-Cookie: b=2", LENGTH)),
    "folded header": exchange(head(b"X: y\r\n  folded", LENGTH)),
    "no headers": exchange(b"HTTP/1.1 200 OK\r\n\r\n"),
    "no reason": exchange(b"HTTP/1.1 200\r\n" + HTML + b"\r\n\r\n"),
    "bytes in a header": exchange(head(b"X: \xe9\xff\x00", LENGTH)),
    "body begins with blank lines": exchange(head(HTML), b"\r\n\r\n" + TEXT),
    "zeros": exchange(head(b"Content-Type: application/octet-stream"), bytes(100_000)),
    "long header": exchange(head(b"X: " + b"y" * 40_000, LENGTH)),
    "robots.txt": exchange(
        head(b"Content-Type: text/plain"), b"User-agent: *\nDisallow:\n", "http://a.test/robots.txt"
    ),
}
# Heads that Warcat cannot read, and of which FastWARC finds no payload.
ODD_HEADS = {
    "LF": exchange(head(HTML, end=b"\n")),
    "LF at the end": exchange(head(HTML, end=b"\r\n")[:-2] + b"\n"),
    "no colon": exchange(head(HTML, b"no header at all")),
}


def encrypted(each: Exchange) -> Exchange:
    return replace(each, url=each.url.replace("http:", "https:"), tls=TLS)


def write(
    folder: Path,
    captures: Iterable[Capture],
    max_size_bytes: int = 1 << 30,
) -> list[Path]:
    """Files with `captures`, written as a crawl does."""
    info = [("software", "webcrawl/0")]
    files = WarcFiles(folder, "test", max_size_bytes, info)
    files.open()
    for each in captures:
        files.write(each)
    files.close()
    return sorted(folder.glob("*.warc.gz"))


def read(path: Path) -> list[Record]:
    """The records of a whole WARC file."""
    with path.open("rb") as file:
        records = list(read_records(file, 1 << 30))
    return [each for each in records if isinstance(each, Record) or pytest.fail(each.why)]
