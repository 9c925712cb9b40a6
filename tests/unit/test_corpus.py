"""`scrapy corpus` on hand-made WARC files. Judges: pyarrow and DuckDB."""

from __future__ import annotations

import gzip
import json
import re
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import UUID

import brotli
import duckdb
import pytest

from tests import corpus_page
from tests.cases import each_of
from webcrawl.crawllog.files import compress
from webcrawl.tools.corpus import parts
from webcrawl.tools.corpus.columns import tables
from webcrawl.tools.corpus.corpus import Summary, make_corpus, plan_of
from webcrawl.tools.corpus.outputs import Filters, Texts, write_lines

DATE = "2026-11-27T01:02:03.456789Z"
TIME = datetime(2026, 11, 27, 1, 2, 3, 456789, UTC)
WORDS = "A casa da praia tem uma janela para o mar, e de manhã o vento traz o cheiro do sal. " * 6
PAGE = f"<!doctype html><html lang='pt-br'><title>A casa</title><p>{WORDS}</p>".encode()
UNDECLARED = PAGE.replace(b" lang='pt-br'", b"")
OTHER = PAGE.replace(b"casa", b"escola").replace(b"vento", b"trem")
HTML = "Content-Type: text/html; charset=utf-8"
Row = dict[str, Any]


def record(kind: str, url: str, block: bytes, **more: str) -> bytes:
    """A record as other writers make it. `more`: fields, with _ for the hyphen."""
    fields = {
        "WARC-Type": kind,
        "WARC-Record-ID": f"<urn:uuid:{UUID(int=abs(hash_of(kind + url)))}>",
        "WARC-Target-URI": url,
        "WARC-Date": DATE,
        "Content-Type": "application/http; msgtype=response",
        "Content-Length": str(len(block)),
        **{name.replace("_", "-"): value for name, value in more.items()},
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value)
    return b"WARC/1.0\r\n" + lines.encode() + b"\r\n" + block + b"\r\n\r\n"


def hash_of(text: str) -> int:
    return int.from_bytes(text.encode()[-12:])


def answer(status: int, body: bytes = b"", *headers: str) -> bytes:
    head = "\r\n".join([f"HTTP/1.1 {status} x", *headers, "", ""])
    return head.encode() + body


def response(path: str, status: int, body: bytes = b"", *headers: str, **more: str) -> bytes:
    return record("response", f"http://a.test{path}", answer(status, body, *headers), **more)


CHUNKED = b"%x\r\n%b\r\n0\r\n\r\n" % (len(gzip.compress(PAGE)), gzip.compress(PAGE))
ROBOTS = b"User-agent: *\nAllow: /\nContent-Signal: ai-train=no\nContent-Usage: train-ai=n\n"
SIGNALS = PAGE.replace(
    b"<p>",
    b"<meta name=robots content='NoIndex, max-snippet:3'><meta name=tdm-reservation content=1>"
    b"<link rel=license href=/terms><p>",
)
METADATA = b"via: http://a.test/\r\nwall: akamai\r\nownerSignal: X-Robots-Tag: noarchive\r\n"
REVISIT = {"WARC_Profile": "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"}

FIRST = [
    record(
        *("warcinfo", "", b"software: x\r\nisPartOf: all\r\nisPartOf: crawl-7\r\n"),
        Content_Type="application/warc-fields",
    ),
    response("/plain", 200, PAGE, HTML, WARC_Payload_Digest="sha1:ABC"),
    record("request", "http://a.test/plain", b"GET /plain HTTP/1.1\r\n\r\n"),
    response(
        *("/chunked", 200, CHUNKED, HTML, "Transfer-Encoding: chunked", "Content-Encoding: gzip")
    ),
    response("/br", 200, brotli.compress(PAGE), HTML, "Content-Encoding: br"),
    response(
        "/decoded",
        200,
        UNDECLARED,
        HTML,
        "Content-Language: pt-BR",
        "Transfer-Encoding: chunked",
        "Content-Encoding: gzip",
    ),
    response("/charset", 200, PAGE.decode().encode("latin-1"), HTML),
    response(
        *("/label", 200, PAGE, "Content-Type: text/html; charset=nonsense"),
        WARC_Identified_Payload_Type="text/xml",
    ),
    response("/robots.txt", 200, ROBOTS, "Content-Type: text/plain"),
    response("/sitemap.xml", 200, b"<urlset/>", "Content-Type: application/xml"),
    response("/a.png", 200, b"\x89PNG", "Content-Type: image/png"),
    response("/moved", 301, b"", "Location: ../plain?x=1"),
    response("/missing", 404, PAGE, HTML),
    response("/empty", 200, b"", HTML),
    response("/untyped", 200, PAGE),
    response("/cut", 200, PAGE[: len(PAGE) // 2], HTML, WARC_Truncated="length"),
    response(
        *("/signals", 200, SIGNALS, HTML, "X-Robots-Tag: other: none"),
        *("Content-Usage: train-ai=n", 'Link: </l.xml>; rel="license"'),
    ),
    response("/utf-16", 200, SIGNALS.decode().encode("utf-16"), HTML),
    response("/wall", 403, b"x", "cf-mitigated: challenge", "Server: cloudflare"),
    response("/told", 200, OTHER, HTML, WARC_Record_ID="<urn:x:told>"),
    record("request", "http://a.test/told", b"GET /told HTTP/1.1\r\n\r\n"),
    record(
        *("metadata", "http://a.test/told", METADATA),
        WARC_Concurrent_To="<urn:x:told>",
        Content_Type="application/warc-fields",
    ),
    response("/headless", 200, PAGE, HTML).replace(b"HTTP/1.1 200 x", b"ICY what 200 x"),
    response("/again", 503, b"", HTML),
    record("response", "dns:a.test", b"1.2.3.4", Content_Type="text/dns"),
    record("resource", "urn:screenshot", b"x", Content_Type="image/png"),
    response("/undated", 200, PAGE, HTML, WARC_Date="yesterday"),
]
SECOND = [  # plain, after the first
    record(
        *("revisit", "http://b.test/plain", answer(200, b"", HTML, "X-Robots-Tag: nofollow")),
        WARC_Refers_To_Target_URI="http://a.test/plain",
        WARC_Refers_To_Date="2026-11-27T01:02:03Z",
        **REVISIT,
    ),
    record(
        *("revisit", "http://b.test/by-id", b""),
        WARC_Refers_To=f"<urn:uuid:{UUID(int=hash_of('responsehttp://a.test/br'))}>",
        **REVISIT,
    ),
    record(
        *("revisit", "http://b.test/cut", b""),
        WARC_Refers_To=f"<urn:uuid:{UUID(int=hash_of('responsehttp://a.test/cut'))}>",
        **REVISIT,
    ),
    record(
        *("revisit", "http://b.test/not-modified", answer(304)),
        WARC_Refers_To_Target_URI="http://a.test/plain",
        WARC_Refers_To_Date=DATE,
        WARC_Profile="http://netpreserve.org/warc/1.1/revisit/server-not-modified",
    ),
    record(  # the capture that it names is a revisit
        *("revisit", "http://b.test/copy-not-modified", answer(304)),
        WARC_Refers_To_Target_URI="http://b.test/plain",
        WARC_Refers_To_Date=DATE,
        WARC_Profile="http://netpreserve.org/warc/1.1/revisit/server-not-modified",
    ),
    record(
        *("revisit", "http://b.test/lost", answer(200, b"", HTML)),
        WARC_Refers_To_Target_URI="http://c.test/",
        WARC_Refers_To_Date=DATE,
        **REVISIT,
    ),
    record("response", "https://192.0.2.7:8443/p?q=1#f", answer(200, OTHER, HTML)),
    record("response", "http://[2001:db8::1]/", answer(200)),
    record("response", "http://www.x.com.br", answer(200), WARC_Payload_Digest="sha256:12"),
]
PORTUGUESE = {
    "title": "A casa",
    "declared_language": "pt-br",
    "detected_language": "por",
    "content_languages": "por",
    "content_charset": "UTF-8",
    "words": 120,
}
NO_TEXT = dict.fromkeys(("title", "detected_language", "words", "simhash", "text"))
EXPECTED: dict[str, Row] = {
    "http://a.test/plain": {
        **PORTUGUESE,
        "url_surtkey": "test,a)/plain",
        "url_host_name": "a.test",
        "url_host_tld": "test",
        "url_host_registered_domain": "a.test",
        "url_host_name_reversed": "test.a",
        "url_protocol": "http",
        "url_port": None,
        "url_path": "/plain",
        "url_query": None,
        "fetch_time": TIME,
        "fetch_status": 200,
        "fetch_redirect": None,
        "content_digest": "ABC",
        "content_mime_type": "text/html",
        "content_mime_detected": None,
        "content_truncated": None,
        "warc_record_id": UUID(int=hash_of("responsehttp://a.test/plain")).bytes,
        "warc_filename": "first.warc.gz",
        "crawl": "crawl-7",
        "subset": "warc",
        "is_superseded": False,
        "is_revisit": False,
        "refers_to_file": None,
        "near_duplicate_of": None,
        "noindex": False,
        "content_usage": None,
        "robots_usage": "Content-Signal: ai-train=no\nContent-Usage: train-ai=n",
        "wall": None,
    },
    "http://a.test/chunked": PORTUGUESE,
    "http://a.test/br": PORTUGUESE,
    "http://a.test/decoded": PORTUGUESE,
    "http://a.test/charset": {"detected_language": "por", "content_charset": "UTF-8"},
    "http://a.test/label": {**PORTUGUESE, "content_mime_detected": "text/xml"},  # as XHTML begins
    "http://a.test/robots.txt": {
        **NO_TEXT,
        "subset": "robotstxt",
        "content_usage": "Content-Signal: ai-train=no\nContent-Usage: train-ai=n",
    },
    "http://a.test/sitemap.xml": {**NO_TEXT, "content_mime_type": "application/xml"},
    "http://a.test/a.png": {**NO_TEXT, "content_charset": None},
    "http://a.test/moved": {
        **NO_TEXT,
        "fetch_redirect": "http://a.test/plain?x=1",
        "subset": "crawldiagnostics",
    },
    "http://a.test/missing": {
        **NO_TEXT,
        "content_charset": "UTF-8",
        "subset": "crawldiagnostics",
    },
    "http://a.test/empty": {**NO_TEXT, "content_digest": "3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ"},
    "http://a.test/untyped": {**PORTUGUESE, "content_mime_type": None},
    "http://a.test/cut": {"content_truncated": "length", "title": "A casa"},
    "http://a.test/signals": {
        "noindex": True,
        "noarchive": False,
        "nofollow": False,
        "content_usage": "train-ai=n",
        "tdm_reservation": "1",
        "license": '</l.xml>; rel="license"\n/terms',
    },
    "http://a.test/utf-16": {"noindex": True, "tdm_reservation": "1", "license": "/terms"},
    "http://a.test/wall": {**NO_TEXT, "wall": "cloudflare"},
    "http://a.test/told": {
        **NO_TEXT,
        "wall": "akamai",
        "noarchive": True,
        "warc_record_id": b"urn:x:told",
    },
    "http://a.test/headless": {**NO_TEXT, "fetch_status": -1, "subset": "crawldiagnostics"},
    "http://a.test/again": {"is_superseded": True},
    "http://b.test/plain": {
        **PORTUGUESE,
        "is_revisit": True,
        "is_superseded": None,
        "refers_to_file": "first.warc.gz",
        "nofollow": True,
        "noindex": False,
        "robots_usage": None,
        "crawl": "",
    },
    "http://b.test/by-id": {**PORTUGUESE, "fetch_status": 200, "subset": "warc"},
    "http://b.test/cut": {"content_truncated": "length", "title": "A casa"},
    "http://b.test/not-modified": {
        **PORTUGUESE,
        "fetch_status": 304,
        "subset": "crawldiagnostics",
    },
    "http://b.test/copy-not-modified": {**PORTUGUESE, "refers_to_file": "first.warc.gz"},
    "http://b.test/lost": {**NO_TEXT, "is_revisit": True, "refers_to_file": None},
    "https://192.0.2.7:8443/p?q=1#f": {
        "url_host_name": "192.0.2.7",
        "url_host_tld": None,
        "url_host_registered_domain": None,
        "url_host_name_reversed": None,
        "url_port": 8443,
        "url_path": "/p",
        "url_query": "q=1",
    },
    "http://[2001:db8::1]/": {"url_host_name": "[2001:db8::1]", "url_host_name_reversed": None},
    "http://www.x.com.br": {
        "url_path": "",
        "url_host_registered_domain": "x.com.br",
        "content_digest": "sha256:12",
    },
}


def parquet() -> Any:
    """pyarrow's reader, which only the worker that runs these tests loads."""
    return import_module("pyarrow.parquet")


class Made:
    """The files, the corpus, and its rows by URL."""

    def __init__(self, folder: Path) -> None:
        packed = list(map(gzip.compress, FIRST))
        damaged = b"\x1f\x8b\x08 no gzip member "
        self.first = folder / "first.warc.gz"
        self.first.write_bytes(b"".join([*packed[:9], damaged, *packed[9:], packed[1][:-5]]))
        self.second = folder / "second.warc"
        self.second.write_bytes(b"".join(SECOND))
        again = next(n for n, each in enumerate(FIRST) if b"a.test/again" in each)
        offset = sum(map(len, packed[:again])) + len(damaged)
        line = {"end": "retried", "warc": "first.warc.gz", "offset": offset}
        (folder / "crawl-20261127010203-abcdef-00001.jsonl").write_text(json.dumps(line) + "\nx\n")
        self.folder = folder / "corpus"
        plan = plan_of(
            [self.second, self.first],
            [],
            "",
            Texts(("text", "main_text"), "parquet"),
            Filters(with_superseded=True),
        )
        self.summary: Summary = make_corpus(plan, self.folder, lambda read_bytes: None, processes=1)
        self.tables = [parquet().read_table(self.folder / f"{name}.parquet") for name in NAMES]
        self.rows: dict[str, Row] = {
            row["url"]: row for table in self.tables for row in table.to_pylist()
        }


NAMES = ("first", "second")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("corpus"))


@each_of("url", EXPECTED)
def test_a_capture_has_its_columns(made: Made, url: str) -> None:
    row = made.rows[url]
    assert {name: row[name] for name in EXPECTED[url]} == EXPECTED[url]


def test_each_capture_has_a_row_and_all_else_is_counted(made: Made) -> None:
    assert set(made.rows) == set(EXPECTED)
    counts = made.summary.counts
    assert (counts.captures, counts.others, counts.broken) == (len(EXPECTED), 2, 3)
    assert made.summary.unresolved == 1
    assert sorted(line.rpartition(": ")[2] for line in made.summary.problems) == [
        "WARC-Date is 'yesterday'",
        "damaged",
        "the last record is cut",
    ]


@each_of("url", EXPECTED)
def test_a_record_is_where_its_row_says(made: Made, url: str) -> None:
    row = made.rows[url]
    path = made.first.parent / row["warc_filename"]
    data = path.read_bytes()[row["warc_record_offset"] :][: row["warc_record_length"]]
    record = gzip.decompress(data) if path.suffix == ".gz" else data
    assert f"WARC-Target-URI: {url}\r\n".encode() in record
    assert record.endswith(b"\r\n\r\n")


def test_texts_are_those_of_the_pages(made: Made) -> None:
    row = made.rows["http://a.test/chunked"]
    assert WORDS.strip() in row["text"]
    assert (row["text_length"], row["main_text_length"]) == (
        len(row["text"]),
        len(row["main_text"]),
    )
    assert made.rows["http://b.test/plain"]["text"] == row["text"]
    assert len(made.rows["http://a.test/cut"]["text"]) < len(row["text"])


def test_a_revisit_and_the_copy_of_a_page_name_the_first_one(made: Made) -> None:
    first = made.rows["http://a.test/plain"]
    named = f"first.warc.gz:{first['warc_record_offset']}"
    for url in ("http://a.test/br", "http://b.test/plain", "http://b.test/by-id"):
        assert made.rows[url]["near_duplicate_of"] == named
    by_id, original = made.rows["http://b.test/by-id"], made.rows["http://a.test/br"]
    assert by_id["refers_to_offset"] == original["warc_record_offset"]
    assert made.rows["https://192.0.2.7:8443/p?q=1#f"]["near_duplicate_of"] is None


def test_rows_are_sorted_by_the_key_of_their_url(made: Made) -> None:
    for table in made.tables:
        keys = table["url_surtkey"].to_pylist()
        assert keys == sorted(keys)


ARROW = {
    "string": "string",
    "short": "int16",
    "integer": "int32",
    "long": "int64",
    "unsigned long": "uint64",
    "double": "double",
    "boolean": "bool",
    "timestamp": "timestamp[us, tz=UTC]",
    "binary": "binary",
    "map": "map<string, int64>",
}


@each_of("name", ["captures", "hosts"])
def test_the_tables_have_the_columns_of_the_schema(made: Made, name: str) -> None:
    wanted = list(tables()[name])
    file = "hosts" if name == "hosts" else "first"
    if name == "captures":
        wanted += tables()["texts"]
    schema = parquet().read_schema(made.folder / f"{file}.parquet")
    assert schema.names == [each.name for each in wanted]
    kinds = [re.sub(r" \('\w+'\)", "", str(each)) for each in schema.types]  # names in a map
    assert kinds == [ARROW[each.type] for each in wanted]
    rows = parquet().read_table(made.folder / f"{file}.parquet")
    filled = [each.name for each in wanted if not each.nullable]
    assert [name for name in filled if rows[name].null_count] == []


def test_a_host_has_its_counts(made: Made) -> None:
    hosts = {
        row["url_host_name"]: row
        for row in parquet().read_table(made.folder / "hosts.parquet").to_pylist()
    }
    assert set(hosts) == {row["url_host_name"] for row in made.rows.values()}
    a = hosts["a.test"]
    counted = {name: a[name] for name in a if name.startswith(("fetch_", "robots_")) and a[name]}
    assert counted == {
        "fetch_200": 14,
        "fetch_redirPerm": 1,
        "fetch_gone": 1,
        "fetch_4xx": 1,
        "fetch_other": 1,
        "robots_200": 1,
        "fetch_200_lote": 10,
        "fetch_200_lote_pct": 71,
    }
    assert dict(a["walls"]) == {"akamai": 1, "cloudflare": 1}
    assert dict(a["content_languages"]) == {"por": 10}
    assert a["surt_host_name"] == "test,a"
    assert dict(hosts["b.test"]["content_languages"]) == {"por": 3}


SAID = ("http://a.test/signals", "http://a.test/utf-16")  # noindex, and tdm-reservation: 1


@each_of(
    ("filters", "left_out"),
    [
        (Filters(), ("http://a.test/again",)),
        (Filters(True), ()),
        (Filters(True, without=("noindex",)), SAID),
        (Filters(True, without=("tdm-reservation", "nofollow")), (*SAID, "http://b.test/plain")),
        (Filters(True, without=("train-ai=n",)), ("http://a.test/",)),  # by its robots.txt
        (Filters(True, without=("AI-Train=NO",)), ("http://a.test/",)),
        (Filters(True, without=("train-ai=no", "ai=n")), ()),
    ],
)
def test_a_filter_leaves_out(made: Made, filters: Filters, left_out: tuple[str, ...]) -> None:
    files = [str(made.folder / f"{name}.parquet") for name in NAMES]
    query = f"SELECT url FROM read_parquet(?) WHERE {filters.condition()}"
    found = {url for (url,) in duckdb.execute(query, [files]).fetchall()}
    assert EXPECTED.keys() - found == {url for url in EXPECTED if url.startswith(left_out)}


def test_the_page_of_the_docs_has_the_tables_of_the_columns() -> None:
    page = corpus_page.PAGE.read_text(encoding="utf-8")
    assert page.count("<!-- columns: ") == len(tables())
    assert corpus_page.page_with_tables(page) == page


def test_lines_of_no_page_are_a_file_that_gzip_and_duckdb_read(tmp_path: Path) -> None:
    write_lines([(b"{}", b"")], tmp_path / "none.jsonl.gz")
    write_lines([(b'{"a":1}', b'{"text":"b"}')], tmp_path / "one.jsonl.gz")
    found = duckdb.execute("SELECT a, text FROM read_json(?)", [str(tmp_path / "*.jsonl.gz")])
    assert found.fetchall() == [(1, "b")]


def test_a_page_whose_language_takes_too_much_memory_is_a_broken_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        def detect(self, text: str) -> None:
            raise MemoryError

    warc = tmp_path / "a.warc"
    warc.write_bytes(response("/page", 200, PAGE, HTML) + response("/moved", 301))
    monkeypatch.setattr(parts, "_detector", lambda model: Full())
    (part,) = parts.parts_of(warc)
    counts = parts.write_part(part, tmp_path, parts.Options(with_main=True, texts=(), crawl=""))
    assert (counts.captures, counts.noted) == (1, ["0: too little memory"])


def test_rows_with_long_urls_need_no_more_memory(tmp_path: Path) -> None:
    """A group of 122,880 rows with URLs of 2 kB in four columns was more than DuckDB may have."""
    rows, path = tmp_path / "rows.json", tmp_path / "part"
    columns = ("url", "url_surtkey", "url_path", "url_query")
    with rows.open("w") as file:
        for number in range(20_000):
            file.write(json.dumps(dict.fromkeys(columns, f"{number}{'a/' * 900}")) + "\n")
    parts._convert(rows, path, "a.warc.gz", parts.Counts())
    assert duckdb.sql(f"SELECT count(*) FROM read_parquet('{path}')").fetchall() == [(20_000,)]


def test_a_page_of_nested_lists_has_its_texts_to_a_bound(tmp_path: Path) -> None:
    """Each line of a list is indented: these 64 kB have texts of 24 MB, more than a row may."""
    (tmp_path / "a.warc").write_bytes(response("/", 200, b"<ol>" * 1000 + b"<li>x" * 12_000, HTML))
    texts = Texts(("text", "main_text"), "parquet")
    plan = plan_of([tmp_path / "a.warc"], [], "", texts, Filters())
    make_corpus(plan, tmp_path / "corpus", lambda read_bytes: None, processes=1)
    (row,) = parquet().read_table(tmp_path / "corpus" / "a.parquet").to_pylist()
    assert row["text_length"] == len(row["text"]) == len(row["main_text"]) == 1 << 20


def test_a_log_that_the_running_crawl_has_compressed_meanwhile_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.warc").write_bytes(response("/", 200, PAGE, HTML))
    log = tmp_path / "crawl-20261127010203-abcdef-00001.jsonl"
    log.write_text(json.dumps({"end": "retried", "warc": "a.warc"}) + "\n")
    plan = plan_of([tmp_path / "a.warc"], [], "", Texts((), "parquet"), Filters())
    compress(log)
    summary = make_corpus(plan, tmp_path / "corpus", lambda read_bytes: None, processes=1)
    assert (summary.counts.captures, summary.written) == (1, 0)
