"""Foreign bytes are read in linear time: four times as many take about four times as long.

Each row of READERS feeds one reader its worst input in two sizes. The least CPU time of some tries
counts, only as a ratio: 4 if the cost is linear, 16 if it is quadratic. A new reader is a new row:
a name, the larger size, a function that makes an input of a size, and the call.
"""

from __future__ import annotations

import gc
import gzip
import struct
import time
import zlib
from array import array
from collections.abc import Callable
from functools import cache
from io import BytesIO
from typing import Any, NamedTuple

import brotli
import pytest

from tests.cases import each_of
from webcrawl.admission.dnswire import question, read_answer
from webcrawl.admission.guard import AddressGuard
from webcrawl.downloader.handler import _response
from webcrawl.fetch.conditions import Validators
from webcrawl.fetch.decode import decode
from webcrawl.fetch.exchange import Exchange, FetchFailed
from webcrawl.fetch.http1 import (
    Headers,
    ResponseReader,
    content_length,
    parse_headers,
    transfer_codings,
)
from webcrawl.fetch.retryafter import retry_after_s
from webcrawl.fetch.walls import wall_of
from webcrawl.parse.charset import sniff
from webcrawl.parse.detection import Detector
from webcrawl.parse.domains import registered_domain
from webcrawl.parse.links import read_html
from webcrawl.parse.maintext import blocks_of, text_hash
from webcrawl.parse.markup import crowded_by_regex, scan_by_regex
from webcrawl.parse.ownersignals import header_directives, header_signals, robots_signals
from webcrawl.parse.page import read_page, read_xml
from webcrawl.parse.pdf import read_pdf
from webcrawl.parse.robots import RobotsRules
from webcrawl.parse.sitemaps import SitemapReader
from webcrawl.parse.sketch import page_sketch
from webcrawl.parse.urls import canonicalize, canonicalize_each, redirect_target
from webcrawl.scope.rules import Scope
from webcrawl.scope.traps import PathLimits, is_numbered
from webcrawl.spiders.seeds import _COMMENT, line_url
from webcrawl.warc.cdxj import answer_of_record
from webcrawl.warc.payload import unchunked
from webcrawl.warc.reader import read_records
from webcrawl.warc.records import warc_fields

pytestmark = pytest.mark.slow  # ten seconds of work, and the one test that measures time

PDF_STREAM = b"obj/ObjStm/FlateDecode stream\n"
TIMES = 4
WORST_RATIO = 9.0  # between 4 and 16
FLOOR_S = 0.002  # a shorter time counts as this: it is harmless, and mostly noise
SURE_S = 0.5  # a longer time is not measured again
TRIES = 5

Line = bytes | Callable[[int], bytes]


class Reader(NamedTuple):
    name: str
    size: int  # of the larger input
    build: Callable[[int], Any]
    call: Callable[[Any], Any]


def filled(line: Line, head: bytes = b"", tail: bytes = b"") -> Callable[[int], bytes]:
    """Makes an input: `head`, then as many of `line` as fit. A function `line` gets the number."""

    def build(size: int) -> bytes:
        left = size - len(head) - len(tail)
        if isinstance(line, bytes):
            return head + left // len(line) * line + tail
        pieces = [head]
        while (left := left - len(piece := line(len(pieces) - 1))) >= 0:
            pieces.append(piece)
        return b"".join((*pieces, tail))

    return build


def numbered(pattern: bytes) -> Callable[[int], bytes]:
    return lambda number: pattern % number


def text(build: Callable[[int], bytes]) -> Callable[[int], str]:
    return lambda size: build(size).decode("latin-1")


# robots.txt


def parse_robots(body: bytes) -> RobotsRules:
    return RobotsRules.parse(body, "webcrawl")


def read_signals(body: bytes) -> tuple[str, ...]:
    return robots_signals(body, "webcrawl,ccbot")


def agents_before_rules(size: int) -> bytes:
    return filled(b"useragent:webcrawl\n")(size // 2) + filled(numbered(b"allow:/%x\n"))(size // 2)


def rules_and_target(rule: bytes, head: bytes = b"") -> Callable[[int], tuple[RobotsRules, str]]:
    """Rules and target grow."""

    def build(size: int) -> tuple[RobotsRules, str]:
        lines = filled(numbered(rule + b"\n"), b"user-agent:*\n")(size)
        return parse_robots(lines), (head + b"a" * (size // 16)).decode()

    return build


def check_robots(case: tuple[RobotsRules, str]) -> None:
    rules, target = case
    RobotsRules.from_bytes(rules.to_bytes()).allows(target)


EVERYONE = b"user-agent:*\n"
ROBOTS = [
    Reader("Crawl-delay", 60_000, filled(b"1", b"user-agent:*\ncrawl-delay:", b"x"), parse_robots),
    Reader("Crawl-delays", 200_000, filled(b"crawl-delay:1\n", EVERYONE), parse_robots),
    Reader("agents before rules", 250_000, agents_before_rules, parse_robots),
    Reader("blank lines", 500_000, filled(b"\n"), parse_robots),
    Reader("lines without a colon", 500_000, filled(b"a b\n"), parse_robots),
    Reader("one line", 500_000, filled(b"a ", b"useragent:"), parse_robots),
    Reader("blanks", 500_000, filled(b" "), parse_robots),
    Reader("NULs", 500_000, filled(b"\0"), parse_robots),
    Reader("rules", 500_000, filled(numbered(b"allow:/%x\n"), EVERYONE), parse_robots),
    Reader(
        "rules alike", 500_000, filled(numbered(b"allow:/" + b"a" * 300 + b"%x\n"), EVERYONE),
        parse_robots,
    ),
    Reader(
        "index pages", 500_000, filled(b"/index.htm" * 1600 + b"/\n", EVERYONE + b"allow:"),
        parse_robots,
    ),
    Reader("bytes", 500_000, filled(b"allow:/" + b"\xe9" * 5000 + b"\n", EVERYONE), parse_robots),
    Reader("signals", 500_000, filled(b"content-usage: a\n", EVERYONE), read_signals),
    Reader("sitemaps", 500_000, filled(b"sitemap:a\n"), parse_robots),
    Reader("literals", 120_000, rules_and_target(b"allow:/%x"), check_robots),
    Reader("wildcards", 120_000, rules_and_target(b"allow:*" + b"a" * 80 + b"%xaaa"), check_robots),
    Reader("short wildcards", 40_000, rules_and_target(b"allow:*a%xa"), check_robots),
    Reader(
        "wildcards in a query", 40_000,
        rules_and_target(b"allow:*" + b"a" * 80 + b"%xa", b"/?/%2F"), check_robots,
    ),
    Reader("stars", 120_000, rules_and_target(b"allow:" + b"*a" * 500 + b"%x"), check_robots),
]  # fmt: skip


# HTTP

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


def feed(data: bytes, piece: int = 256 * 1024) -> None:
    reader = ResponseReader("GET", 1 << 20, 10 << 20)
    try:
        for at in range(0, len(data), piece):
            reader.feed(data[at : at + piece])
        reader.end("eof")
    except FetchFailed:
        pass


def drip(data: bytes) -> None:
    feed(data, 1)


def read_lists(head: bytes) -> None:
    headers = parse_headers(head)
    content_length(headers)
    transfer_codings(headers)


def answer(head: bytes) -> None:
    """All that reads the headers of an answer, except framing."""
    headers = parse_headers(head)
    body = b"\0" * 5000
    exchange = Exchange(
        "GET", "http://h/a", b"", head, 200, "1.1", headers, "192.0.2.1", body, body
    )
    response = _response(exchange, None)
    response.headers.getlist("Set-Cookie")
    sniff(b"\xff", (response.headers.get("Content-Type") or b"").decode("latin-1"))
    x_robots_tag = b"\n".join(response.headers.getlist("X-Robots-Tag")).decode("latin-1")
    header_directives(x_robots_tag, ("robots", "webcrawl"))
    header_signals(headers)
    redirect_target(response.headers.get("Location") or b"", "http://h/")
    refresh = (response.headers.get("Refresh") or b"").decode("latin-1")
    read_page(b"", "", "http://h/", refresh=refresh)


def wait_of(value: bytes) -> None:
    retry_after_s(value, 0.0)


END = b"\r\n\r\n"
HTTP = [
    Reader("chunks of a byte", 1_000_000, filled(b"1\r\na\r\n", CHUNKED), feed),
    Reader("chunks of 16 bytes", 1_000_000, filled(b"10\n" + b"a" * 16 + b"\n", CHUNKED), feed),
    Reader("chunks byte by byte", 100_000, filled(b"1\r\na\r\n", CHUNKED), drip),
    Reader("one chunk byte by byte", 100_000, filled(b"a", CHUNKED + b"fffffff\r\n"), drip),
    Reader("chunk extensions", 40_000, filled(b"1;" + b"x" * 999 + b"\r\na\r\n", CHUNKED), drip),
    Reader("trailers", 1_000_000, filled(b"a\n", CHUNKED + b"0\r\n"), feed),
    Reader("trailers byte by byte", 60_000, filled(b"a\n", CHUNKED + b"0\r\n"), drip),
    Reader("headers", 1_000_000, filled(b"A:b\r\n", OK, END), feed),
    Reader("headers byte by byte", 200_000, filled(b"A:b\r\n", OK, END), drip),
    Reader("a header byte by byte", 200_000, filled(b"a", OK, END), drip),
    Reader("folded lines", 1_000_000, filled(b" \n", OK + b"A:b\r\n", END), feed),
    Reader("one folded line", 1_000_000, filled(b" ", OK + b"A:b\r\n", b"x" + END), feed),
    Reader("carriage returns", 1_000_000, filled(b"\r", OK + b"A:b", b" x" + END), feed),
    Reader("blank lines before", 1_000_000, filled(b"\r\n"), feed),
    Reader("blank lines byte by byte", 100_000, filled(b"\r\n"), drip),
    Reader("blanks in the status line", 1_000_000, filled(b" ", b"HTTP/1.1 ", b"2" + END), feed),
    Reader("lists", 1_000_000, filled(b"1,", OK + b"Content-Length:", END), read_lists),
    Reader("lengths", 1_000_000, filled(b"Content-Length:1\r\n", OK, END), read_lists),
    Reader("codings", 1_000_000, filled(b"a,", OK + b"Transfer-Encoding:", END), read_lists),
    Reader(
        "blanks in a list", 1_000_000, filled(b" \v", OK + b"Content-Length:1", END), read_lists
    ),
    Reader("words without a colon", 1_000_000, filled(b"a ", OK, END), read_lists),
    Reader("blanks before a name", 1_000_000, filled(b"\v", OK, b"a" + END), read_lists),
    Reader("blanks behind a name", 1_000_000, filled(b"\v", OK + b"a", END), read_lists),
    *(
        Reader(f"answer: {name.decode()!r} {unit!r}", 256_000, filled(unit, OK + name, END), answer)
        for name, unit in (
            (b"", b"A:b\r\n"),
            (b"", b"Set-Cookie:a=b\r\n"),
            (b"Content-Type:x/y", b";"),
            (b"Content-Type:x/y;", b"charset\t"),
            (b'Content-Type:text/html;charset="', b"charset='"),
            (b"Content-Type:text/html;charset=", b" "),
            (b"Content-Type:x/y\r\nContent-Disposition:", b"filename="),
            (b"Content-Encoding:", b"a,"),
            (b"X-Robots-Tag:", b"a:a,"),
            (b"X-Robots-Tag:", b"a "),
            (b"X-Robots-Tag:", b"a"),
            (b"Link:", b"<license>,"),
            (b"Link:license", b"<"),
            (b"Link:license<>", b'"'),
            (b"Link:<license>", b";rel "),
            (b"Link:<license>", b';a="'),
            (b"Refresh:0;", b"url="),
            (b"Refresh:0;url=", b"../"),
            (b"Refresh:", b" 0"),
            (b"Location:", b"../"),
            (b"Location:", b"\xff"),
        )
    ),
    *(
        Reader(f"Retry-After: {unit!r}", 256_000, filled(unit, head, b"x"), wait_of)
        for head, unit in (
            (b"", b"1"),
            (b"", b" "),
            (b"Sun, ", b"1"),
            (b"Sun, 06 Nov 1994 ", b"1:"),
            (b"", b"("),
            (b"", b'"'),
            (b"", b"Sun, 06 Nov 1994 08:49:37 GMT"),
        )
    ),
]


# Content codings

LIMIT = 10 << 20
NOISE = array("I", range(0, 1 << 32, 16_381)).tobytes()  # 1 MB


def coded(coding: str, pack: Callable[[int], bytes]) -> Callable[[int], tuple[bytes, Headers]]:
    return lambda size: (pack(size), [(b"Content-Encoding", coding.encode())])


def decode_it(case: tuple[bytes, Headers]) -> None:
    decode(*case, LIMIT)


def four_times_gzip(size: int) -> bytes:
    body = NOISE[:size]
    for _ in range(4):
        body = gzip.compress(body, 1)
    return body


CODINGS = [
    Reader("gzip", 1_000_000, coded("gzip", lambda n: gzip.compress(NOISE[:n])), decode_it),
    Reader(
        "gzip, damaged", 1_000_000,
        coded("gzip", lambda n: gzip.compress(NOISE[:n])[:-8] + bytes(8)), decode_it,
    ),
    Reader("empty gzips", 1_000_000, coded("gzip", filled(gzip.compress(b""))), decode_it),
    Reader("gzips in gzips", 1_000_000, coded("gzip,gzip,gzip,gzip", four_times_gzip), decode_it),
    Reader(
        "empty blocks", 2_000_000, coded("deflate", filled(b"\0\0\0\xff\xff")), decode_it
    ),
    Reader(
        "deflate, damaged", 1_000_000,
        coded("deflate", lambda n: zlib.compress(NOISE[:n])[:-8] + bytes(8)), decode_it,
    ),
    Reader(
        "brotli, damaged", 1_000_000,
        coded("br", lambda n: brotli.compress(NOISE[:n], quality=1)[:-3] + b"xxx"), decode_it,
    ),
]  # fmt: skip


# Pages


def read(page: bytes) -> None:
    read_page(page, "text/html", "http://h.example/a/b")


def shown(media_type: str) -> Callable[[bytes], object]:
    return lambda page: read_page(page, media_type, "http://h.example/", finds_requisites=True)


def main_text(page: bytes) -> None:
    blocks = blocks_of(page, "utf-8")
    text_hash(page, blocks)
    page_sketch(blocks)


def language(page: bytes) -> None:
    _detector().detect_page(page, "utf-8")


_detector = cache(Detector)


def validators(etag: bytes) -> None:
    Validators.of([(b"ETag", etag)])


def scan(page: bytes) -> None:
    at = 0
    while at < len(page):
        *_, at = scan_by_regex(page, at)


def numbers(size: int) -> list[str]:
    return [f"{number:x}" for number in range(size)]


LONG_BASE = b'<base href="/' + b"%aa/" * 1000 + b'">'
TAGS = [
    b"<a>", b"<a b>", b"<a/", b"<a href=a>", b"<base a>", b"<meta>", b"<meta a>", b"<link a b c>",
    b"<svg>", b"</svg>", b"<math>", b"<template>", b"</template>", b"<title></title>", b"<title>",
    b"<script>", b"<script></script>", b"<script><!--", b"<script><!--</script>", b"<xmp>",
    b"<!--", b"<!---", b"--!", b"<!", b"</", b"<", b"<p ", b"<p a=", b'<p a="', b"<p a='>", b"\0",
    b"<meta charset=x>", b"<meta name=robots content=x>", b"<plaintext", b"<iframe></iframe>",
]  # fmt: skip
LINKS = (
    *(b"<a href=%x>", b'<a href="%x">', b"<a href=../%x>", b"<a href=//%x.a>", b"<a href=?%x>"),
    *(b"<a href=\xc3\xa9%x>", b"<a href=&amp;%x>", b"<a href=%%41%x>", b"<a rel=x href=%x>"),
    *(b'<a href="//\xc3\xa9%x.a">', b"<a href=?sid=%x>", b"<a href=;jsessionid=%x/..>"),
    b"<meta http-equiv=refresh content=0;%x>",
)
IN_ONE_VALUE = (
    *(b"a", b" ", b"&", b"&amp;", b"&#1", b"1", b".", b"../", b"%", b"%41", b"//", b"\\\t", b"@"),
    *(b";jsessionid=a", b"phpsessid=a&", b"\xc3\xa9", b"\xc3\xa9.", b"'", b"="),
)
SHOWN = [
    b"<img ", b"<img src=a>", b"<img srcset='a (,'>", b"<p style", b"<p style='url(",
    b"<p style=a>", b"<style>url(a)</style>",
]  # fmt: skip
CSS = [
    b"url(", b'url("\\', b"u\\72l(a b", b"/*/", b"'", b"\\", b"(", b"@import/*", b"@namespace'",
    b"image-set('a'",
]  # fmt: skip
PAGES = [
    *(Reader(f"shown by {unit!r}", 128_000, filled(unit), shown("text/html")) for unit in SHOWN),
    *(Reader(f"shown by CSS {unit!r}", 128_000, filled(unit), shown("text/css")) for unit in CSS),
    *(Reader(f"page of {unit!r}", 256_000, filled(unit), read) for unit in TAGS),
    *(Reader(f"scan of {unit!r}", 256_000, filled(unit), scan) for unit in TAGS),
    *(
        Reader(
            f"crowded {unit!r}", 64_000, filled(unit), lambda page: crowded_by_regex(page, 99, 9)
        )
        for unit in (b"<a", b"<a ", b"<a b='")
    ),
    *(Reader(f"page of {unit!r}", 256_000, filled(numbered(unit)), read) for unit in LINKS),
    *(
        Reader(f"main text of {unit!r}", 512_000, filled(unit), main_text)
        for unit in (b"<", b"<p>a", b"<div class=ad>", b"class=", b"ab ", b"\xe3", b"<a x>b c")
    ),
    *(
        Reader(f"language of {unit!r}", 1_000_000, filled(unit, b"<p>"), language)
        for unit in (b"<p>a", b"a", b"\xff", b"&amp", b"a b ")
    ),
    Reader("attributes of main text", 512_000, filled(b"class=", b"<div ", b">x"), main_text),
    *(
        Reader(f"{unit!r} in {tag!r}", 256_000, filled(unit, tag, b'">'), read)
        for unit in IN_ONE_VALUE
        for tag in (b'<a href="', b'<meta http-equiv=refresh content="1;url=', b"<link ")
    ),
    *(
        Reader(f"long hrefs of {unit!r}", 256_000, filled(b'<a href="/?' + unit + b'">'), read)
        for unit in (b"jsessionid=a&" * 500, b"&" * 8000, b"%" * 8000, b"a" * 8000)
    ),
    Reader("long base", 128_000, filled(numbered(b"<a href=./%x>"), LONG_BASE), read),
    Reader("UTF-16", 256_000, filled(b"<\0a\0 \0", b"\xff\xfe"), read),
    Reader("hrefs", 100_000, numbers, lambda hrefs: canonicalize_each(hrefs, "http://h/")),
    Reader("an href", 4_000_000, text(filled(b" ")), lambda href: canonicalize(href, "http://h/")),
    Reader("lines", 4_000_000, text(filled(b"\n")), lambda href: canonicalize_each([href], "a:")),
]


# URLs, DNS, seeds, archive


def often(call: Callable[[Any], Any]) -> Callable[[Any], None]:
    def repeat(case: Any) -> None:
        for _ in range(50):
            call(case)

    return repeat


def dns_answer(size: int) -> bytes:
    asked = question("h.example", 1)
    record = b"\0" + struct.pack("!HHIH", 1, 1, 60, 4)
    count = size // (len(record) + 4)
    head = struct.pack("!HHHHHH", 1, 0x8180, 1, count, 0, 0)
    return head + asked + b"".join(record + struct.pack("!I", n * 7919) for n in range(count))


def resolve(message: bytes) -> None:
    addresses = read_answer(message, question("h.example", 1)).addresses
    AddressGuard().admitted("h.example", addresses)


SCOPE = Scope(suffixes=["pt"], deny=["x.example"], max_length=1 << 20)
URL = "http://h.example/"
OTHERS = [
    Reader(
        "scope", 16_000, text(filled(b"a.")), often(lambda host: SCOPE.refuses("http://", host))
    ),
    Reader(
        "registered domain", 16_000, text(filled(b"a.", b"", b"br")),
        often(registered_domain.__wrapped__),
    ),
    Reader("path", 8000, text(filled(b"a/")), often(lambda p: PathLimits(9, 3)(URL + p, "h"))),
    Reader("numbers", 8000, text(filled(b"%3")), often(lambda path: is_numbered(URL + path))),
    Reader("DNS answer", 64_000, dns_answer, resolve),
    *(
        Reader(f"wall: {unit!r}", 64_000, filled(unit), often(lambda x: wall_of(307, x, x)))
        for unit in (b"\nlocation:", b"\nlocation:/.within", b"\nserver:  ", b"\nx-cdn: ")
    ),
    Reader("seed", 16_000, text(filled(b"a.")), often(line_url)),
    Reader("seed with dashes", 16_000, text(filled(b"a-")), often(line_url)),
    Reader(
        "seed's comment", 16_000, text(filled(b" ", b"", b"x")),
        often(lambda line: _COMMENT.sub("", line)),
    ),
    Reader(
        "metadata", 1_000_000, text(filled(b"\n")), lambda value: warc_fields([("outlink", value)])
    ),
    *(
        Reader(f"etag of {unit!r}", 64_000, filled(unit), validators)
        for unit in (b"a", b'"', b"W/")
    ),
    Reader(
        "folded type", 512_000, filled(b" b\n", b"HTTP/1.1 200 OK\nContent-Type: a\n", b"\n"),
        lambda head: answer_of_record(
            {"warc-type": "response", "content-type": "application/http"}, head, str
        ),
    ),
]  # fmt: skip


def read_entries(data: bytes) -> None:
    reader = SitemapReader()
    for at in range(0, len(data), 1 << 16):
        reader.feed(data[at : at + (1 << 16)])
    reader.end()


MAP = b"<urlset><url>"
FILES = [
    *(
        Reader(f"sitemap: {unit!r}", size, filled(unit, MAP), read_entries)
        for unit, size in (
            (b"<url><loc>http://a/", 200_000),
            (b"<", 1_000_000),
            (b"<![CDATA[", 1_000_000),
            (b"<!--", 1_000_000),
            (b"<a:", 500_000),
            (b"<loc>&", 500_000),
            (b"<link a='b=\"", 500_000),
        )
    ),
    Reader("sitemap: a name", 2_000_000, filled(b"a", MAP + b"<"), read_entries),
    Reader("sitemap: an attribute", 2_000_000, filled(b"a", MAP + b"<link "), read_entries),
    Reader("sitemap: attributes", 60_000, filled(b"a ", MAP + b"<link ", b"/>"), read_entries),
    Reader("sitemap: text", 2_000_000, filled(b" ", MAP), read_entries),
    *(
        Reader(f"feed: {unit!r}", 300_000, filled(unit, head), lambda data: read_xml(data, ""))
        for head, unit in (
            (b"<rss>", b"<item><link>http://a/</link></item>"),
            (b"<feed>", b"<link href='a' rel='"),
        )
    ),
    Reader("XHTML", 300_000, filled(b"<a href='b'>"), lambda data: read_html(data, "", xml=True)),
    *(
        Reader(f"PDF: {unit!r}", 500_000, filled(unit), lambda data: read_pdf(data, ""))
        for unit in (b"/URI(", b"/URI(" + b"a" * 8_000, b"/URI ((((a)", b"/URI<a", b"/URI(\\")
    ),
    Reader(
        "PDF: streams", 300_000, filled(b"obj/ObjStm/FlateDecode stream\n"),
        lambda data: read_pdf(data, ""),
    ),
    *(
        Reader(f"PDF: {name} streams", 400_000, filled(unit), lambda data: read_pdf(data, ""))
        for name, unit in (
            ("damaged", PDF_STREAM + zlib.compress(b"x" * 100_000)[:-8] + b"\xff\xff\n"),
            ("empty", PDF_STREAM + b"\x78\x9c" + b"\x00\x00\x00\xff\xff" * 1000),
        )
    ),
]  # fmt: skip


def read_warc(data: bytes) -> None:
    for _ in read_records(BytesIO(data)):
        pass


ARCHIVES = [
    *(
        Reader(f"WARC: {unit!r}", 400_000, filled(unit), read_warc)
        for unit in (
            b"\x1f\x8b\x08",
            # A member of stored blocks, each of which has all members behind it.
            b"\x1f\x8b\x08\0\0\0\0\0\0\xff\0\xff\xff\0\0WARC/1.0\r\n",
            b"WARC/1.0\n",
            b"WARC/1.0\nContent-Length: 99\n\n",
        )
    ),
    Reader("chunk size without end", 40_000, filled(b"a"), unchunked),
]

READERS = [*ROBOTS, *HTTP, *CODINGS, *PAGES, *FILES, *ARCHIVES, *OTHERS]


def cost_s(reader: Reader, case: Any) -> float:
    """CPU seconds of one call."""
    began_s = time.thread_time()
    reader.call(case)
    return max(time.thread_time() - began_s, FLOOR_S)


def ratio(reader: Reader) -> float:
    """The cost of TIMES the size, divided by that of the size; the least of TRIES if it is high."""
    small, large = reader.build(reader.size // TIMES), reader.build(reader.size)
    least = float("inf")
    gc.disable()  # its runs would add the cost of all objects of a page
    try:
        for _ in range(TRIES):
            large_s = cost_s(reader, large)
            if large_s <= WORST_RATIO * FLOOR_S:
                return large_s / FLOOR_S
            # The least of two, since a disturbed one would hide that the larger input costs more.
            least = min(least, large_s / min(cost_s(reader, small), cost_s(reader, small)))
            if least <= WORST_RATIO or large_s > SURE_S:
                break
    finally:
        gc.enable()
    return least


@each_of("reader", READERS, [reader.name for reader in READERS])
def test_the_cost_is_linear(reader: Reader) -> None:
    assert ratio(reader) <= WORST_RATIO


def test_a_quadratic_reader_is_detected() -> None:
    quadratic = Reader("", 2000, range, lambda steps: [1 for _ in steps for _ in steps])
    assert ratio(quadratic) > WORST_RATIO
