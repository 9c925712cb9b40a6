"""The index beside a WARC file has, byte for byte, the lines that `cdxj-indexer --sort` prints."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from warcio.recordloader import ArcWarcRecordLoader
from warcio.statusandheaders import StatusAndHeaders

from tests.exchanges import EXCHANGES, HTML, LENGTH, ODD_HEADS, TEXT, capture, exchange, head, write
from webcrawl.items import Original
from webcrawl.warc.cdxj import http_head
from webcrawl.warc.check import check
from webcrawl.warc.index import index_path
from webcrawl.warc.records import Capture, payload_digest, recorded_digest
from webcrawl.warc.recovery import recover

OK = b"HTTP/1.1 200 OK\r\n"
# Heads in which warcio may find something else than our parser.
HEADS = {
    "no type": head(LENGTH),
    "empty type": head(b"Content-Type:", LENGTH),
    "empty type, then another": head(b"Content-Type:", HTML),
    "two types": head(b"Content-Type: text/plain; charset=x", HTML),
    "upper case": head(b"CONTENT-TYPE:TEXT/HTML;CHARSET=X"),
    "space before the colon": head(b"Content-Type : text/plain", HTML),
    "spaces": head(b"Content-Type:  \t text/html  ; a"),
    "comma": head(b"Content-Type: text/html,text/plain"),
    "quote and backslash": head(b'Content-Type: "te\\xt"/html'),
    "bytes in the type": head(b"Content-Type: text/h\xe9\xff; a"),
    "UTF-8 in the type": head("Content-Type: text/hé\u3000x".encode()),
    "folded type": head(b"Content-Type:\r\n text/html"),
    "type goes on": head(b"Content-Type: text/\r\n\thtml; a"),
    "folded other line": head(b"X: y\r\n Content-Type: text/plain", HTML),
    "fold first": head(b" X: y", HTML),
    "no colon": head(b"Content-Type text/plain", HTML),
    "vertical tab": head(b"Content-Type: \x0btext/html"),
    "blank line of a space": OK + b"X: y\r\n \r\n" + HTML + b"\r\n\r\n",
    "blank line of a control": OK + b"X: y\r\n\x1c\r\n" + HTML + b"\r\n\r\n",
    "blank line of a no-break space": OK + b"X: y\r\n\xa0\r\n" + HTML + b"\r\n\r\n",
    "CR alone": OK + b"X: y\rContent-Type: text/plain\r\n" + HTML + b"\r\n\r\n",
    "two spaces": b"HTTP/1.1  404  Not Found\r\n" + HTML + b"\r\n\r\n",
    "no reason": b"HTTP/1.0 204\r\n\r\n",
    "tab": b"HTTP/1.1\t200 OK\r\n" + HTML + b"\r\n\r\n",
    "other version": b"HTTP/2 200 \r\n" + HTML + b"\r\n\r\n",
    "lower case": b"http/1.1 200 ok\n" + HTML + b"\n\n",
    "no blank line": OK + HTML + b"\r\n",
}
URLS = (
    *("http://a.test/", "https://WWW.A.test:443/B/?z=1&y=2#f", "http://www.a.test:8080/b//c/../d/"),
    *("http://[2001:db8::1]:8080/x", "http://192.0.2.1/", "http://xn--mnchen-3ya.de/%C3%BC"),
    *("http://münchen.de/ü?q=日本", "http://a.test/a b\tc\r\nd<e>", 'http://a.test/"\\{}|^`'),
    *("http://a.test/?sid=" + "ab" * 16 + "&x=1", "http://a.test:99999/", "http://a.test/\udc80"),
    *("http://a.test/" + "long/" * 400, "ftp://a.test/x", "data:text/html,x", "HTTP://a.test/x"),
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
        yield capture(exchange(OK + b"\r\n", url=f"http://c.test/{name}"))
        yield capture(replace(exchange(OK + b"\r\n", url=f"http://a.test/{name}"), head=raw))
        yield capture(replace(exchange(OK + b"\r\n", TEXT[:7] + b"\n: x\n\n\n"), head=raw))
    for url in URLS:
        yield capture(exchange(url=url))
        yield capture(exchange(url=url), original)


@pytest.mark.parametrize("over", ["wire", "payload", "none"])
def test_an_index_has_the_lines_of_cdxj_indexer(tmp_path: Path, over: str) -> None:
    chosen = [replace(each, recorded_digest=recorded_digest(each, over)) for each in captures()]
    (path,) = write(tmp_path, chosen, has_index=True)
    written = index_path(path).read_bytes()
    assert written.splitlines() == indexed(path).splitlines()
    assert written.endswith(b"\n")
    assert written.count(b"\n") == len(chosen)
    assert [problem for problem in check(path) if "index" in problem] == []


@pytest.mark.parametrize("over", ["wire", "none"])
def test_recovery_makes_the_same_index(tmp_path: Path, over: str) -> None:
    chosen = [replace(each, recorded_digest=recorded_digest(each, over)) for each in captures()]
    (path,) = write(tmp_path, chosen, has_index=True)
    written = index_path(path).read_bytes()
    index_path(path).write_bytes(b"torn")
    path.rename(f"{path}.open")
    recover(tmp_path, has_index=True)
    assert index_path(path).read_bytes() == written


LINES = (
    *(b"Content-Type: text/html", b"content-type:", b"X: y", b" fold; z", b"\t", b"no colon", b""),
    *(b"\x0b", b"\xa0", b"\xc2\x85", b"\x1f", b"\xff: \xfe", b"C: d", b"Content-Type:\xc2\xa0a b"),
)
FIRST = (b"HTTP/1.1 200 OK", b"HTTP/1.0 404", b"HTTP/1.1", b"x")


@example([], b"\n", b"HTTP/1.1")
@given(
    st.lists(st.sampled_from(LINES), max_size=6),
    st.sampled_from([b"\r\n", b"\n", b"\r\r\n"]),
    st.one_of(
        st.sampled_from([b"HTTP/1.1 200 OK", b"HTTP/1.0 404", b"HTTP/1.1", b"x"]), st.binary()
    ),
)
def test_a_head_is_read_as_warcio_reads_it(lines: list[bytes], end: bytes, first: bytes) -> None:
    block = end.join([first, *lines]) + b"\r\n"
    stream = io.BytesIO(block)
    loader = ArcWarcRecordLoader(verify_http=False)
    found: StatusAndHeaders = loader.load_http_headers("response", "http://a/", stream, len(block))
    mime = found.get_header("content-type") if found else None
    mine = http_head("http://a/", block)
    assert mine.status == (found.get_statuscode() if found else None)
    assert (mine.mime is None) == (mime is None)
    if mime is not None:
        assert mime.startswith(mine.mime or "")
    assert mine.size_bytes == stream.tell()
