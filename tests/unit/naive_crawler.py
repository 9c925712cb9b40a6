"""A small crawler that keeps every rule, to test the simulated web.

It opens one connection per request, sends one request at a time to each host and address, and keeps
all state in memory. A test can switch off each of its `Manners`, to check that the ledger finds the
violation.
"""

from __future__ import annotations

import asyncio
import gzip
import re
import socket
import zlib
from collections import defaultdict
from dataclasses import dataclass
from random import randrange
from struct import pack
from urllib.parse import urlsplit

import brotli
from selectolax.lexbor import LexborHTMLParser

from simweb.pagekinds import zstd
from webcrawl.parse.robots import ALLOW_ALL, DISALLOW_ALL, RobotsRules
from webcrawl.parse.urls import canonicalize

LINKS = "a[href], area[href], iframe[src], frame[src], link[rel=next], link[rel=prev], meta"
Answer = tuple[int, dict[str, str], bytes]


@dataclass
class Manners:
    host_delay_s: float
    ip_delay_s: float
    timeout_s: float = 3.0
    scope_suffix: str = ""
    asks_robots: bool = True
    obeys_robots: bool = True
    obeys_nofollow: bool = True


class NaiveCrawler:
    def __init__(self, dns: str, manners: Manners) -> None:
        host, _, port = dns.rpartition(":")
        self.dns = (host, int(port))
        self.manners = manners
        self.fetched: dict[str, int] = {}
        self.clocks: defaultdict[str, Clock] = defaultdict(Clock)
        self.names: dict[str, asyncio.Task[str]] = {}
        self.rules: dict[str, asyncio.Task[RobotsRules]] = {}
        self.tasks: set[asyncio.Task[None]] = set()

    async def crawl(self, seeds: list[str]) -> None:
        for seed in seeds:
            self.put(canonicalize(seed))
        while self.tasks:
            await asyncio.wait(self.tasks, return_when=asyncio.FIRST_COMPLETED)

    def put(self, url: str | None) -> None:
        if url is None or url in self.fetched:
            return
        if not (urlsplit(url).hostname or "").endswith(self.manners.scope_suffix):
            return
        self.fetched[url] = 0
        task = asyncio.create_task(self.visit(url))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def visit(self, url: str) -> None:
        parts = urlsplit(url)
        if self.manners.asks_robots:
            if parts.netloc not in self.rules:
                self.rules[parts.netloc] = asyncio.create_task(self.robots(parts.netloc))
            rules = await self.rules[parts.netloc]
            target = url.partition(parts.netloc)[2]
            if self.manners.obeys_robots and not rules.allows(target):
                return
        status, fields, body = await self.fetch(url)
        self.fetched[url] = status
        if "location" in fields and 300 <= status < 400:
            self.put(canonicalize(fields["location"], url))
        elif status == 200 and "html" in fields.get("content-type", "").lower():
            for link in self.links(url, fields, body):
                self.put(link)

    async def robots(self, netloc: str) -> RobotsRules:
        url: str | None = f"http://{netloc}/robots.txt"
        for _ in range(6):
            if url is None:
                break
            status, fields, body = await self.fetch(url)
            if status == 200:
                rules = RobotsRules.parse(body, "webcrawl")
                clock = self.clocks[netloc.partition(":")[0]]
                clock.delay_s = max(clock.delay_s, rules.crawl_delay_s or 0)
                return rules
            if status == 0 or status >= 500:
                return DISALLOW_ALL
            if not 300 <= status < 400:
                break
            url = canonicalize(fields["location"], url)
        return ALLOW_ALL

    def links(self, url: str, fields: dict[str, str], body: bytes) -> list[str | None]:
        mark = re.search(rb"charset=\W?iso-8859-1", body[:1000], re.IGNORECASE)
        latin = mark or "8859" in fields["content-type"]
        tree = LexborHTMLParser(body.decode("windows-1252" if latin else "utf-8", "replace"))
        found, base, nofollow = [], url, "nofollow" in fields.get("x-robots-tag", "")
        if (node := tree.css_first("base[href]")) is not None:
            base = canonicalize(node.attributes["href"] or "", url) or url
        for node in tree.css(LINKS):
            attributes = node.attributes
            if node.tag == "meta":
                nofollow |= "nofollow" in (attributes.get("content") or "").lower()
                if (attributes.get("http-equiv") or "").lower() == "refresh":
                    found.append((attributes["content"] or "").partition("URL=")[2])
            elif "nofollow" not in (attributes.get("rel") or ""):
                found.append(attributes.get("href") or attributes.get("src") or "")
        if nofollow and self.manners.obeys_nofollow:
            return []
        return [canonicalize(link, base) for link in found]

    async def fetch(self, url: str) -> Answer:
        """Waits for the clocks of the host and of the address. Status 0: no answer."""
        parts = urlsplit(url)
        name = parts.hostname or ""
        if name not in self.names:
            self.names[name] = asyncio.create_task(self.look_up(name))
        address = await self.names[name]
        if not address:
            return 0, {}, b""
        host, ip = self.clocks[name], self.clocks[address]
        host.delay_s = max(host.delay_s, self.manners.host_delay_s)
        ip.delay_s = self.manners.ip_delay_s
        async with host, ip:
            data = await self.exchange(
                address, parts.port or 80, url.partition(name)[2], parts.netloc
            )
            try:
                answer = read(data)
            except (ValueError, KeyError, zlib.error, EOFError, OSError, brotli.error):
                return 0, {}, b""
            later = answer[1].get("retry-after", "")
            host.later_s = float(later) if later.isdigit() else 0.0
            return answer

    async def exchange(self, address: str, port: int, rest: str, netloc: str) -> bytes:
        data = b""
        try:
            async with asyncio.timeout(self.manners.timeout_s):
                reader, writer = await asyncio.open_connection(address, port)
                try:
                    target = "/" + rest.partition("/")[2]
                    writer.write(f"GET {target} HTTP/1.1\r\nHost: {netloc}\r\n".encode())
                    writer.write(b"User-Agent: naive\r\nConnection: close\r\n\r\n")
                    while len(data) < 3 << 20 and (piece := await reader.read(1 << 18)):
                        data += piece
                finally:
                    writer.transport.abort()
        except (OSError, TimeoutError):
            pass
        return data

    async def look_up(self, name: str) -> str:
        labels = b"".join(bytes([len(x)]) + x.encode() for x in name.split("."))
        query = pack(">6H", randrange(65536), 0x100, 1, 0, 0, 0) + labels + b"\0\0\1\0\1"
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.setblocking(False)
            sock.connect(self.dns)
            await loop.sock_sendall(sock, query)
            try:
                reply = await asyncio.wait_for(loop.sock_recv(sock, 4096), self.manners.timeout_s)
            except TimeoutError:
                return ""
        if reply[2] & 2:  # truncated: over TCP
            reader, writer = await asyncio.open_connection(*self.dns)
            writer.write(pack(">H", len(query)) + query)
            reply = (await reader.read(4096))[2:]
            writer.close()
        # The last record, if any, is an address.
        return socket.inet_ntoa(reply[-4:]) if reply[6:8] != b"\0\0" else ""


class Clock(asyncio.Lock):
    """A lock, held during a request. The next holder waits for the delay after that request."""

    def __init__(self) -> None:
        super().__init__()
        self.delay_s = 0.0
        self.later_s = 0.0  # an additional delay, from Retry-After
        self.ended_at = 0.0

    async def __aenter__(self) -> None:
        await self.acquire()
        await asyncio.sleep(self.ended_at + self.delay_s - asyncio.get_running_loop().time())

    async def __aexit__(self, *error: object) -> None:
        self.ended_at = asyncio.get_running_loop().time() + self.later_s
        self.later_s = 0.0
        self.release()


def read(data: bytes) -> Answer:
    """Status, fields in lower case, and the body without framing and coding."""
    head, _, body = data.partition(b"\r\n\r\n")
    if head.startswith(b"HTTP/1.1 1"):
        return read(body)
    line, *rest = head.decode("latin-1").split("\r\n")
    if not line.startswith("HTTP/1."):
        raise ValueError(line)
    fields = {k.strip().lower(): v.strip() for k, _, v in (x.partition(":") for x in rest)}
    if "chunked" in fields.get("transfer-encoding", "").lower():
        body = dechunk(body)
    match fields.get("content-encoding", ""):
        case "gzip" | "x-gzip":
            body = gzip.decompress(body) if len(body) < 1 << 19 else b""
        case "deflate":
            body = zlib.decompress(body, 15 if body[:1] == b"\x78" else -15)
        case "br":
            body = brotli.decompress(body)
        case "zstd":
            body = zstd.decompress(body)
    return int(line.split(" ")[1]), fields, body


def dechunk(data: bytes) -> bytes:
    body = b""
    while True:
        line, _, data = data.partition(b"\r\n")
        size = int(line.partition(b";")[0], 16)
        if size == 0:
            return body
        body, data = body + data[:size], data[size + 2 :]
