"""WACZ files, as WACZ 1.1.1 and their readers need them.

py-wacz 0.6 validates such files, and ReplayWeb.page 2.4 replays them; tests/crawl/test_replay.py
has pywb.
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import json
import os
import re
import resource
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import pytest

from tests.cases import each_of
from tests.exchanges import CHUNKED, HTML, STARTED, chunked, exchange, head, write
from webcrawl.tools.stored import NoStoreError, StoredFile
from webcrawl.tools.wacz import index
from webcrawl.tools.wacz.captures import DamagedError
from webcrawl.tools.wacz.index import replayweb_key
from webcrawl.tools.wacz.parts import Result, WaczError, make_wacz, warc_files
from webcrawl.warc.earlierlines import EarlierError
from webcrawl.warc.index import index_path
from webcrawl.warc.records import Capture, Original, payload_digest

GONE = b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\n\r\n"
SEED, FOUND = (("fetchTimeMs", "5"),), (("hopsFromSeed", "LR"), ("fetchTimeMs", "5"))


def page(
    url: str,
    title: str = "",
    at: int = 0,
    original: Capture | None = None,
    answer: tuple[bytes, bytes] | None = None,
) -> Capture:
    """The capture of a page, `at` seconds after the first; `answer`: its head and body."""
    body = f"<title>{title}</title><p>The words of {title}".encode()
    made = exchange(*(answer or (head(HTML), body)), url)
    first = None
    if original is not None:
        was = original.exchange
        made = replace(was, url=url)
        first = Original(was.url, was.started_time, payload_digest(was))
    each = replace(made, started_time=STARTED + at)
    metadata = SEED if url.endswith("/") else FOUND
    return Capture(each, payload_digest(each), first, metadata)


FIRST = page("http://a.test/", "One &amp; all")
SECOND = page("http://a.test/dir/two/", "Two", 1)
CAPTURES = [
    FIRST,
    SECOND,
    page("http://www.b.test/copy", "", 2, original=FIRST),
    page("http://a.test/three?b=2&a=1", "", 3, answer=(head(HTML, CHUNKED), chunked(b"x"))),
    replace(page("http://a.test/robots.txt", "no page"), metadata=()),
    page("http://a.test/gone", "", 4, answer=(GONE, b"<title>gone")),
    page("http://a.test/empty", "", 5, answer=(head(HTML).replace(b"200", b"204"), b"")),
    page("http://a.test/x.pdf", "", 6, answer=(head(b"Content-Type: application/pdf"), b"%PDF-")),
]


def made(
    warcs: Sequence[Path | StoredFile], output: Path, size_max: int = 0, *, has_text: bool = False
) -> Result:
    return make_wacz(warcs, output, size_max, has_text=has_text, progress=lambda size_bytes: None)


@pytest.fixture
def warcs(tmp_path: Path) -> list[Path]:
    return write(tmp_path / "warc", CAPTURES)


def lines_of(path: Path, name: str) -> list[dict[str, Any]]:
    with ZipFile(path) as wacz:
        return [json.loads(line) for line in wacz.read(f"pages/{name}.jsonl").splitlines()]


def index_of(path: Path) -> list[bytes]:
    """All lines, read member by member as the list of members says."""
    with ZipFile(path) as wacz:
        data, (meta, *members) = (
            wacz.read("indexes/index.cdx.gz"),
            wacz.read("indexes/index.idx").splitlines(),
        )
    assert meta == b'!meta 0 {"format": "cdxj-gzip-1.0", "filename": "index.cdx.gz"}'
    lines: list[bytes] = []
    for member in members:
        key, time, fields = member.split(b" ", 2)
        where = json.loads(fields)
        packed = data[where["offset"] : where["offset"] + where["length"]]
        assert where["digest"] == f"sha256:{hashlib.sha256(packed).hexdigest()}"
        block = gzip.decompress(packed).splitlines(keepends=True)
        assert block[0].startswith(key + b" " + time + b" ")
        lines += block
    return lines


def test_it_has_the_files_of_the_specification(tmp_path: Path, warcs: list[Path]) -> None:
    result = made(warcs, tmp_path / "crawl.wacz")
    assert [tuple(part.written) for part in result.parts] == [(8, 4)]
    with ZipFile(tmp_path / "crawl.wacz") as wacz:
        kinds = {entry.filename: entry.compress_type for entry in wacz.infolist()}
        package = json.loads(wacz.read("datapackage.json"))
        assert wacz.read(f"archive/{warcs[0].name}") == warcs[0].read_bytes()
        for each in package["resources"]:
            data = wacz.read(each["path"])
            assert each["hash"] == f"sha256:{hashlib.sha256(data).hexdigest()}"
            assert each["bytes"] == len(data)
            assert re.fullmatch("[a-z0-9._-]+", each["name"])  # Frictionless Data Package
        digest = hashlib.sha256(wacz.read("datapackage.json")).hexdigest()
        signed = json.loads(wacz.read("datapackage-digest.json"))
        assert signed == {"path": "datapackage.json", "hash": f"sha256:{digest}"}
    assert kinds == {
        f"archive/{warcs[0].name}": ZIP_STORED,
        "indexes/index.cdx.gz": ZIP_STORED,
        "indexes/index.idx": ZIP_DEFLATED,
        "pages/pages.jsonl": ZIP_DEFLATED,
        "pages/extraPages.jsonl": ZIP_DEFLATED,
        "datapackage.json": ZIP_DEFLATED,
        "datapackage-digest.json": ZIP_DEFLATED,
    }
    listed = {each["path"] for each in package["resources"]}
    assert listed == kinds.keys() - {"datapackage.json", "datapackage-digest.json"}
    assert (package["profile"], package["wacz_version"]) == ("data-package", "1.1.1")
    assert package["created"] == "2023-11-14T22:13:26Z"  # of the latest capture
    assert sorted(os.listdir(tmp_path)) == ["crawl.wacz", "warc"]


def test_its_pages_are_the_html_of_2xx(tmp_path: Path, warcs: list[Path]) -> None:
    made(warcs, tmp_path / "crawl.wacz")
    header, *seeds = lines_of(tmp_path / "crawl.wacz", "pages")
    assert header == {"format": "json-pages-1.0", "id": "pages", "title": "Seeds"}
    others = lines_of(tmp_path / "crawl.wacz", "extraPages")[1:]
    ids = {each.pop("id") for each in (*seeds, *others)}
    assert len(ids) == 4
    assert seeds == [
        {"url": u, "ts": ts, "title": title, "seed": True}
        for u, ts, title in (
            ("http://a.test/", "2023-11-14T22:13:20Z", "One & all"),
            ("http://a.test/dir/two/", "2023-11-14T22:13:21Z", "Two"),
        )
    ]
    assert others == [
        {"url": "http://www.b.test/copy", "ts": "2023-11-14T22:13:22Z", "title": "One & all"},
        {"url": "http://a.test/three?b=2&a=1", "ts": "2023-11-14T22:13:23Z"},
    ]


def test_text_is_that_of_the_page_or_of_its_original(tmp_path: Path, warcs: list[Path]) -> None:
    made(warcs, tmp_path / "crawl.wacz", has_text=True)
    header, copy, three = lines_of(tmp_path / "crawl.wacz", "extraPages")
    assert header["hasText"] is True
    assert copy["text"] == "One & all The words of One & all"
    assert three["text"] == "x"


def test_the_index_is_that_of_the_crawl_with_second_lines(
    tmp_path: Path, warcs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One under the key of ReplayWeb.page, and one of an original with its time in milliseconds."""
    monkeypatch.setattr(index, "LINES", 3)
    made(warcs, tmp_path / "crawl.wacz")
    lines = index_of(tmp_path / "crawl.wacz")
    ours = index_path(warcs[0]).read_bytes().splitlines(keepends=True)
    (two,) = (line for line in ours if line.startswith(b"test,a)/dir/two "))
    (first,) = (line for line in ours if line.startswith(b"test,a)/ "))
    second = [two.replace(b"test,a)/dir/two ", b"test,a)/dir/two/ ")]
    second.append(first.replace(b" 20231114221320 ", b" 20231114221320123 "))
    assert lines == sorted([*ours, *second])


KEYS = {
    "http://www.example.com/a/": "com,example)/a/",
    "https://www2.example.com:443": "com,example)/",
    "http://example.com:8080/A%2Cb/?Z=1&b&a=%C3%A9": "com,example:8080)/a%2cb/?a=%c3%a9&b&z=1",
    "http://example.com/?": "com,example)/",
    "http://127.0.0.1/x#y": "1,0,0,127)/x",
    "http://[::1]:80/": "[::1])/",
    "dns:example.com": "dns:example.com",
}


@each_of(("url", "key"), KEYS.items())
def test_the_key_of_replayweb_page(url: str, key: str) -> None:
    """As `getSurt` of warcio.js 2.4.11 returns it."""
    assert replayweb_key(url) == key


def test_without_an_index_it_makes_the_same_wacz(tmp_path: Path, warcs: list[Path]) -> None:
    made(warcs, tmp_path / "crawl.wacz")
    index_path(warcs[0]).unlink()
    made(warcs, tmp_path / "again.wacz")
    assert (tmp_path / "again.wacz").read_bytes() == (tmp_path / "crawl.wacz").read_bytes()


@pytest.mark.parametrize("has_index", [True, False])
def test_of_files_in_a_store_it_is_the_same(
    tmp_path: Path, warcs: list[Path], has_index: bool
) -> None:
    if not has_index:
        index_path(warcs[0]).unlink()
    made(warcs, tmp_path / "crawl.wacz")
    stored, _ = warc_files([f"file://{warcs[0].parent}", f"file://{warcs[0]}"])
    assert [type(each) for each in stored] == [StoredFile]
    made(stored, tmp_path / "stored.wacz")
    assert (tmp_path / "stored.wacz").read_bytes() == (tmp_path / "crawl.wacz").read_bytes()
    with pytest.raises(WaczError, match="have one name"):
        warc_files([f"file://{warcs[0].parent}", str(warcs[0])])
    with pytest.raises(NoStoreError, match="has no files"):
        warc_files([f"file://{tmp_path}"])


def test_it_has_no_line_of_an_answer_not_modified(tmp_path: Path, warcs: list[Path]) -> None:
    """cdxj-indexer makes such lines."""
    path = index_path(warcs[0])
    line = path.read_bytes().splitlines(keepends=True)[0]
    assert b'"mime": "text/html", "status": "200"' in line
    path.write_bytes(line + line.replace(b"text/html", b"warc/revisit").replace(b'"200"', b'"304"'))
    made(warcs, tmp_path / "crawl.wacz")
    assert [each for each in index_of(tmp_path / "crawl.wacz") if b'"304"' in each] == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [(lambda data: data[:-9], "no CDXJ"), (lambda data: data.replace(b"test-", b"x-"), "not of")],
)
def test_a_wrong_index_is_named(
    tmp_path: Path, warcs: list[Path], change: Any, problem: str
) -> None:
    path = index_path(warcs[0])
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(EarlierError, match=rf"{path}, line \d: .*{problem}"):
        made(warcs, tmp_path / "crawl.wacz")
    assert os.listdir(tmp_path) == ["warc"]


@pytest.mark.parametrize("date", ["", "1700000000", "9" * 30])
def test_source_date_epoch_is_the_time_of_a_wacz(
    tmp_path: Path, warcs: list[Path], monkeypatch: pytest.MonkeyPatch, date: str
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", date)
    made(warcs, tmp_path / "crawl.wacz")
    second = 20 if date == "1700000000" else 26
    with ZipFile(tmp_path / "crawl.wacz") as wacz:
        assert {each.date_time for each in wacz.infolist()} == {(2023, 11, 14, 22, 13, second)}
        created = json.loads(wacz.read("datapackage.json"))["created"]
    assert created == f"2023-11-14T22:13:{second}Z"


@pytest.mark.parametrize("is_large", [True, False])
def test_only_a_large_entry_has_the_fields_of_zip64_in_its_own_header(
    tmp_path: Path, warcs: list[Path], monkeypatch: pytest.MonkeyPatch, is_large: bool
) -> None:
    """ReplayWeb.page reads the entry's own header only if the list of entries has such fields."""
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", warcs[0].stat().st_size - is_large)
    made(warcs, tmp_path / "crawl.wacz")
    data = (tmp_path / "crawl.wacz").read_bytes()
    with ZipFile(BytesIO(data)) as wacz:
        assert wacz.testzip() is None
        for entry in wacz.infolist():
            at = entry.header_offset + 28
            has_own = data[at : at + 2] != b"\0\0"
            assert has_own == (is_large and entry.filename.startswith("archive/"))
            assert entry.extra or not has_own


def test_parts_are_smaller_than_the_maximum_and_name_those_that_they_need(tmp_path: Path) -> None:
    noise = [Random(n).randbytes(30_000).hex().encode() for n in range(12)]
    pages = [
        page(f"http://a.test/{n}", "", n, answer=(head(HTML), body)) for n, body in enumerate(noise)
    ]
    copies = [page(f"http://a.test/copy-{n}", "", 50 + n, original=pages[n]) for n in (0, 1, 5)]
    # Revisits of the third group go into a file of their own.
    warcs = [*write(tmp_path / "warc", pages, 35_000), *write(tmp_path / "more", copies)]
    result = made(warcs, tmp_path / "crawl.wacz", 240_000)
    names = [part.path.name for part in result.parts]
    assert names == [f"crawl-{n:03}.wacz" for n in range(1, len(names) + 1)]
    assert len(names) > 2
    assert max(part.path.stat().st_size for part in result.parts) <= 240_000
    archived = []
    for name in names:
        with ZipFile(tmp_path / name) as wacz:
            archived += [each for each in wacz.namelist() if each.startswith("archive/")]
            relation = json.loads(wacz.read("datapackage.json")).get("relation")
        if name != names[-1]:
            assert relation is None
    assert archived == [f"archive/{warc.name}" for warc in warcs]
    needed = [each["filename"] for each in relation["requires"]]
    assert needed[0] == names[0]  # has two of the originals
    assert len(needed) == 2
    collection = json.loads((tmp_path / "crawl.json").read_text())
    assert collection["profile"] == "multi-wacz-package"
    assert [each["path"] for each in collection["resources"]] == names
    assert (result.collection, result.lost) == (tmp_path / "crawl.json", 0)


def test_revisits_without_their_originals_are_counted(tmp_path: Path) -> None:
    copies = [page(f"http://a.test/copy-{n}", "", n, original=FIRST) for n in range(1, 6)]
    result = made(write(tmp_path / "warc", copies), tmp_path / "crawl.wacz")
    assert result.lost == 5
    assert [each.url for each in result.some_lost] == [
        f"http://a.test/copy-{n}" for n in range(1, 4)
    ]
    assert result.some_lost[0].original_url == "http://a.test/"
    assert result.some_lost[0].original_time == "2023-11-14T22:13:20Z"


OTHER = (
    b"WARC/1.0\r\nWARC-Record-ID: <urn:uuid:%d>\r\nWARC-Type: response\r\n"
    b"WARC-Date: 2020-02-02T02:02:02Z\r\nWARC-Target-URI: <http://c.test/>\r\n"
    b"Content-Type: application/http; msgtype=response\r\nContent-Length: 65\r\n\r\n"
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<title>Page %d</title>\r\n\r\n"
)


def test_pages_of_another_crawler_are_all_listed(tmp_path: Path) -> None:
    path = tmp_path / "other.warc.gz"
    path.write_bytes(b"".join(gzip.compress(OTHER % (n, n)) for n in range(2)))
    result = made([path], tmp_path / "crawl.wacz")
    assert tuple(result.parts[0].written) == (2, 2)
    pages = lines_of(tmp_path / "crawl.wacz", "pages")[1:]
    assert [(each["url"], each["title"]) for each in pages] == [
        ("http://c.test/", "Page 0"),
        ("http://c.test/", "Page 1"),
    ]
    assert b'"url": "http://c.test/"' in index_of(tmp_path / "crawl.wacz")[0]


def test_each_damaged_file_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    warcs = write(tmp_path / "warc", CAPTURES, 1)
    os.truncate(warcs[0], warcs[0].stat().st_size - 5)
    warcs[1].write_bytes(gzip.compress(gzip.decompress(warcs[1].read_bytes())))
    warcs[2].write_bytes(b"")
    with pytest.raises(DamagedError) as raised:
        made(warcs, tmp_path / "crawl.wacz")
    lines = str(raised.value).splitlines()
    assert [line.partition(": ")[0] for line in lines] == list(map(str, warcs[:3]))
    assert "the last record is cut; see scrapy warccheck" in lines[0]
    assert "more than one record in a gzip member" in lines[1]
    assert os.listdir(tmp_path) == ["warc"]


def test_a_full_disk_leaves_no_file(tmp_path: Path, warcs: list[Path]) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (warcs[0].stat().st_size + 500, limits[1]))
    try:
        with pytest.raises(Exception, match=r"File too large|disk is full|disk I/O"):
            made(warcs, tmp_path / "crawl.wacz")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert os.listdir(tmp_path) == ["warc"]


def test_the_rest_of_a_killed_run_is_replaced(tmp_path: Path, warcs: list[Path]) -> None:
    (tmp_path / "crawl.wacz.part").mkdir()
    (tmp_path / "crawl.wacz.part" / "captures.db").write_bytes(b"torn")
    made(warcs, tmp_path / "crawl.wacz")
    assert sorted(os.listdir(tmp_path)) == ["crawl.wacz", "warc"]


@pytest.fixture
def open_file(warcs: list[Path]) -> Path:
    """A file that is not finished."""
    path = warcs[0].with_name("test-20231114221320-00001-host-1.warc.gz.open")
    path.write_bytes(warcs[0].read_bytes())
    return path


def test_files_of_a_killed_crawl_must_be_recovered_first(
    warcs: list[Path], open_file: Path
) -> None:
    with pytest.raises(WaczError, match=f"run scrapy warcrecover {open_file.parent} first"):
        warc_files([str(open_file.parent)])


def test_the_file_of_a_running_crawl_is_left_out(warcs: list[Path], open_file: Path) -> None:
    with open_file.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert warc_files([str(open_file.parent), str(warcs[0])]) == (warcs, [open_file])
        warcs[0].unlink()
        with pytest.raises(WaczError, match="has finished no file"):
            warc_files([str(open_file.parent)])
