"""The index beside a WARC file has, byte for byte, the lines that `cdxj-indexer --sort` prints, but
for broken heads.
"""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from warcio.recordloader import ArcWarcRecordLoader
from warcio.statusandheaders import StatusAndHeaders

from tests.exchanges import EXCHANGES, HTML, LENGTH, ODD_HEADS, TEXT, capture, exchange, head, write
from webcrawl.tools.warccheck.check import check
from webcrawl.warc.cdxj import Answer, answer_of_record
from webcrawl.warc.index import index_path
from webcrawl.warc.records import Capture, Original, digest, payload_digest, recorded_digest
from webcrawl.warc.recovery import recover

OK = b"HTTP/1.1 200 OK\r\n"
# Heads that servers send, and that warcio reads as we do.
HEADS = {
    "no type": head(LENGTH),
    "two types": head(b"Content-Type: text/plain; charset=x", HTML),
    "upper case": head(b"CONTENT-TYPE:TEXT/HTML;CHARSET=X"),
    "space before the colon": head(b"Content-Type : text/plain", HTML),
    "spaces": head(b"Content-Type:  \t text/html  ; a"),
    "comma": head(b"Content-Type: text/html,text/plain"),
    "quote and backslash": head(b'Content-Type: "te\\xt"/html'),
    "bytes in the type": head(b"Content-Type: text/h\xe9\xff; a"),
    "type goes on": head(b"Content-Type: text/\r\n\thtml; a"),
    "folded other line": head(b"X: y\r\n Content-Type: text/plain", HTML),
    "no colon": head(b"Content-Type text/plain", HTML),
    "vertical tab": head(b"Content-Type: \x0btext/html"),
    "CR alone": OK + b"X: y\rContent-Type: text/plain\r\n" + HTML + b"\r\n\r\n",
    "fold first": head(b" X: y", HTML),
    "two spaces": b"HTTP/1.1  404  Not Found\r\n" + HTML + b"\r\n\r\n",
    "no reason": b"HTTP/1.0 204\r\n\r\n",
    "other version": b"HTTP/2 200 \r\n" + HTML + b"\r\n\r\n",
    "lower case": b"http/1.1 200 ok\n" + HTML + b"\n\n",
}
# Broken heads, of which cdxj-indexer has another line: type and status that the crawl has read.
BROKEN = {
    "empty type": (head(b"Content-Type:", LENGTH), "", "200"),
    "empty type, then another": (head(b"Content-Type:", HTML), "", "200"),
    "folded type": (head(b"Content-Type:\r\n text/html"), "text/html", "200"),
    "UTF-8 in the type": (head("Content-Type: text/é\u3000x".encode()), "text/Ã©ã\x80\x80x", "200"),
    "line of a space": (OK + b"X: y\r\n \r\n" + HTML + b"\r\n\r\n", "text/html", "200"),
    "line of a control": (OK + b"X: y\r\n\x1c\r\n" + HTML + b"\r\n\r\n", "text/html", "200"),
    "tab": (b"HTTP/1.1\t200 OK\r\n" + HTML + b"\r\n\r\n", "text/html", "200"),
}
URLS = (
    *("http://a.test/", "https://WWW.A.test:443/B/?z=1&y=2#f", "http://www.a.test:8080/b//c/../d/"),
    *("http://[2001:db8::1]:8080/x", "http://192.0.2.1/", "http://xn--mnchen-3ya.de/%C3%BC"),
    *("http://münchen.de/ü?q=日本", "http://a.test/a b\tc\r\nd<e>", 'http://a.test/"\\{}|^`'),
    *("http://a.test/?sid=" + "ab" * 16 + "&x=1", "http://a.test:99999/", "http://a.test/\udc80"),
    *("http://a.test/" + "long/" * 400,),
    *("http://a.test/robots.txt", "http://a.test/%2525/%41", "http://a.test/\x85", "http://a/%"),
)


def indexed(path: Path) -> bytes:
    """The output of `cdxj-indexer --sort`."""
    command = [sys.executable, "-W", "ignore", "-m", "cdxj_indexer.main", "--sort", path]
    done = subprocess.run(command, capture_output=True, check=True, env={"PYTHONUTF8": "1"})
    return done.stdout


def captures() -> Iterable[Capture]:
    for number, each in enumerate((*EXCHANGES.values(), *ODD_HEADS.values())):
        if each.method != "HEAD":
            yield capture(replace(each, started_time=each.started_time + number / 3))
    plain = EXCHANGES["plain"]
    original = Original(plain.url, plain.started_time, payload_digest(plain))
    yield capture(replace(plain, url="http://b.test/copy"), original)
    for name, raw in HEADS.items():
        yield capture(exchange(raw, TEXT[:7] + b"\n: x\n\n\n", url=f"http://c.test/{name}"))
    for url in URLS:
        yield capture(exchange(url=url))
        yield capture(exchange(url=url), original)


@pytest.mark.parametrize("over", ["wire", "payload", "none"])
def test_an_index_has_the_lines_of_cdxj_indexer(tmp_path: Path, over: str) -> None:
    chosen = [replace(each, recorded_digest=recorded_digest(each, over)) for each in captures()]
    (path,) = write(tmp_path, chosen)
    written = index_path(path).read_bytes()
    assert written.splitlines() == indexed(path).splitlines()
    assert written.endswith(b"\n")
    assert written.count(b"\n") == len(chosen)
    assert [problem for problem in check(path) if "index" in problem] == []
    if over != "payload":  # recovery does not know the payloads
        assert recovered(path) == written


def recovered(path: Path) -> bytes:
    """The index that recovery makes of a WARC file."""
    index_path(path).write_bytes(b"torn")
    path.rename(f"{path}.open")
    recover(path.parent)
    return index_path(path).read_bytes()


def broken() -> list[Capture]:
    urls = [f"http://a.test/{number}" for number in range(len(BROKEN))]
    return [
        capture(exchange(raw, url=url))
        for url, (raw, _, _) in zip(urls, BROKEN.values(), strict=True)
    ]


@pytest.mark.parametrize("over", ["wire", "none"])
def test_of_a_broken_head_the_index_has_what_the_crawl_has_read(tmp_path: Path, over: str) -> None:
    chosen = [replace(each, recorded_digest=recorded_digest(each, over)) for each in broken()]
    (path,) = write(tmp_path, chosen)
    lines = index_path(path).read_bytes()
    found = [json.loads(line.split(b" ", 2)[2]) for line in lines.splitlines()]
    assert [(line.get("mime", ""), line["status"], line["digest"]) for line in found] == [
        (mime, status, digest(TEXT)) for _, mime, status in BROKEN.values()
    ]
    assert not set(lines.splitlines()) & set(indexed(path).splitlines())
    assert [problem for problem in check(path) if "index" in problem] == []
    assert recovered(path) == lines


FIELDS = {
    "warc-type": "response",
    "warc-target-uri": "http://a/",
    "content-type": "application/http;msgtype=response",
}


def test_a_record_of_another_protocol_has_no_head() -> None:
    """As the answers of name servers in the files of other crawlers."""
    block = b"20260301120041\n\na.test. 300 IN A 192.0.2.1\n"
    fields = FIELDS | {"content-type": "text/dns", "warc-target-uri": "dns:a.test"}
    assert answer_of_record(fields, block, str) == Answer("dns:a.test", "", "", "", "0")


TYPES = (b"text/html", b"TEXT/plain;charset=x", b"a b", b"image/png ; q", b"/", b'"x\\"')
OTHERS = (b"X: y", b"Content-Type2: z", b"no colon", b":", b"Content : w", b"\xff: \xfe")


@given(
    st.sampled_from([b"HTTP/1.1 200 OK", b"HTTP/1.0 404", b"http/1.1 301 ", b"HTTP/1.1 999 a b"]),
    st.lists(st.sampled_from(OTHERS), max_size=3),
    st.lists(st.sampled_from([b"Content-Type: ", b"content-type:", b"CONTENT-TYPE \t:\t"])),
    st.sampled_from(TYPES),
    st.sampled_from([b"\r\n", b"\n"]),
)
def test_a_head_is_read_as_warcio_reads_it(
    first: bytes, others: list[bytes], names: list[bytes], content_type: bytes, end: bytes
) -> None:
    types = [name + content_type for name in names]
    block = end.join([first, *others, *types, *others, b"", b"body"])
    stream = io.BytesIO(block)
    loader = ArcWarcRecordLoader(verify_http=False)
    head: StatusAndHeaders = loader.load_http_headers("response", "http://a/", stream, len(block))
    mine = answer_of_record(FIELDS, block, str)
    assert mine is not None
    assert mine.status == head.get_statuscode()
    assert mine.mime == re.split("[; ]", head.get_header("content-type", ""))[0]
    assert mine.digest == str(stream.tell())
