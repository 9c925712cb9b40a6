"""WARC records to the byte, and input that must not damage them."""

from __future__ import annotations

import hashlib
from base64 import b32encode
from dataclasses import replace
from itertools import count

from tests.cases import each_of
from tests.exchanges import DATE, EXCHANGES, STARTED, TEXT, TLS, capture, exchange, head
from webcrawl.items import Page
from webcrawl.pipelines.metadata import page_metadata
from webcrawl.warc.records import (
    MAX_HEAD,
    Capture,
    Original,
    capture_records,
    digest,
    payload_digest,
    raw_digest,
    warc_date,
    warc_fields,
)

PLAIN = EXCHANGES["plain"]
ORIGINAL = Original("http://b.test/", STARTED - 60, payload_digest(PLAIN))


def records(each: Capture) -> list[bytes]:
    numbers = count(1)
    return list(capture_records(each, "<urn:info>", lambda: f"<urn:{next(numbers)}>"))


def fields(record: bytes) -> list[str]:
    return record.partition(b"\r\n\r\n")[0].decode().split("\r\n")


def field(record: bytes, name: str) -> str | None:
    found = [line for line in fields(record) if line.startswith(name + ": ")]
    assert len(found) <= 1
    return found[0].partition(": ")[2] if found else None


def test_a_response_record_to_the_byte() -> None:
    small = exchange(b"HTTP/1.1 200 OK\r\n\r\n", b"hello")
    assert records(Capture(small, payload_digest(small)))[0] == (
        b"WARC/1.1\r\n"
        b"WARC-Type: response\r\n"
        b"WARC-Record-ID: <urn:1>\r\n"
        b"WARC-Target-URI: http://a.test/page\r\n"
        b"WARC-Date: 2023-11-14T22:13:20.123456Z\r\n"
        b"WARC-Warcinfo-ID: <urn:info>\r\n"
        b"WARC-IP-Address: 192.0.2.1\r\n"
        b"WARC-Protocol: http/1.1\r\n"
        b"WARC-Payload-Digest: sha1:VL2MMHO4YXUKFWV63YHTWSBM3GXKSQ2N\r\n"
        b"Content-Type: application/http;msgtype=response\r\n"
        b"WARC-Block-Digest: sha1:IORUMWLIBUO53GZZJS7FEOU3IDD3AFBH\r\n"
        b"Content-Length: 24\r\n"
        b"\r\n"
        b"HTTP/1.1 200 OK\r\n\r\nhello\r\n\r\n"
    )


def test_a_capture_without_its_answer_has_two_records_that_name_each_other() -> None:
    each = replace(capture(PLAIN), metadata=(("notArchived", "noarchive"),), has_answer=False)
    assert (each.is_revisit, each.is_packed) == (False, False)
    request, metadata = records(each)
    assert field(request, "WARC-Type") == "request"
    assert field(metadata, "WARC-Type") == "metadata"
    assert field(request, "WARC-Concurrent-To") == field(metadata, "WARC-Record-ID")
    assert field(metadata, "WARC-Concurrent-To") == field(request, "WARC-Record-ID")
    assert each.exchange.body not in request + metadata


@each_of(
    "original", [None, ORIGINAL._replace(payload_digest=""), ORIGINAL._replace(payload_digest="x")]
)
def test_other_bytes_on_the_wire_make_no_revisit(original: Original | None) -> None:
    each = capture(PLAIN, original)
    assert not each.is_revisit
    assert field(records(each)[0], "WARC-Type") == "response"


@each_of(
    ("start", "has_one"),
    [
        (head(), True),
        (head(end=b"\n"), False),
        (head()[:-2] + b"\n", False),
        (head(b"X: " + b"y" * (MAX_HEAD - len(head(b"X: ")))), True),
        (head(b"X: " + b"y" * (MAX_HEAD - len(head(b"X: ")) + 1)), False),
    ],
)
def test_odd_heads_get_no_payload_digest(start: bytes, has_one: bool) -> None:
    each = exchange(start)
    assert payload_digest(each) == (digest(TEXT) if has_one else "")
    assert (field(records(capture(each))[0], "WARC-Payload-Digest") is not None) is has_one


@each_of("parts", [(), (b"hello",), (b"1",), (b"2", b"3")])
def test_a_digest_is_sha1_in_base32_and_can_be_decoded(parts: tuple[bytes, ...]) -> None:
    raw = hashlib.sha1(b"".join(parts), usedforsecurity=False).digest()
    assert digest(*parts) == "sha1:" + b32encode(raw).decode()
    assert raw_digest(digest(*parts)) == raw


def test_an_unknown_address_gets_no_field() -> None:
    response, request, _ = records(capture(replace(PLAIN, ip="")))
    assert field(response, "WARC-IP-Address") is None
    assert field(request, "WARC-IP-Address") is None


def test_a_url_cannot_add_a_field() -> None:
    response, *_ = records(capture(replace(PLAIN, url="http://a.test/\r\nX: y <\u20ac>")))
    assert field(response, "WARC-Target-URI") == "http://a.test/%0D%0AX:%20y%20%3C\u20ac%3E"
    assert field(response, "X") is None


def test_a_value_of_a_peer_cannot_add_a_line() -> None:
    block = warc_fields([("tlsProblem", "bad\r\nseed: \0x\n"), ("via", "\udcff")])
    assert block == b"tlsProblem: bad seed:  x \r\nvia: ?\r\n\r\n"


@each_of(
    ("time", "date"),
    [
        (0.0, "1970-01-01T00:00:00.000000Z"),
        (1_700_000_000.9999999, "2023-11-14T22:13:21.000000Z"),
        (STARTED, DATE),
    ],
)
def test_warc_date_has_microseconds(time: float, date: str) -> None:
    assert warc_date(time) == date


def test_a_seed_has_no_via_and_no_hops() -> None:
    names = dict(page_metadata(Page("http://a.test/", 200), PLAIN)).keys()
    assert names.isdisjoint({"via", "hopsFromSeed"})


def test_page_metadata_has_all_lines() -> None:
    page = Page(
        "http://a.test/", 200, charset="utf-8", depth=2, redirects=1, via="http://a.test/via",
        duplicate_of="http://b.test/", redirect_to="http://c.test/", links=["http://d.test/"],
    )  # fmt: skip
    times = {"total_s": 0.0126, "dns_s": 0.001, "connect_s": 0.002, "first_byte_s": 0.003}
    odd = {"decode_problem": "bad gzip", "body_replaced": True}
    assert page_metadata(page, replace(PLAIN, **times, **odd, tls=TLS)) == (
        ("via", "http://a.test/via"),
        ("hopsFromSeed", "LLR"),
        ("fetchTimeMs", "13"),
        ("dnsTimeMs", "1"),
        ("connectTimeMs", "2"),
        ("firstByteTimeMs", "3"),
        ("tlsVersion", "TLSv1.3"),
        ("tlsCipherSuite", "TLS_AES_256_GCM_SHA384"),
        ("tlsCertificateSha256", "ab" * 32),
        ("tlsProblem", "expired"),
        ("bodyReplaced", "true"),
        ("charsetForLinkExtraction", "utf-8"),
        ("decodeProblem", "bad gzip"),
        ("duplicateOf", "http://b.test/"),
        ("outlink", "http://c.test/"),
        ("outlink", "http://d.test/"),
    )


def test_a_capture_without_metadata_has_no_metadata_record() -> None:
    assert len(records(Capture(PLAIN, payload_digest(PLAIN)))) == 2


def test_a_capture_without_a_digest_is_no_revisit() -> None:
    odd = exchange(head(end=b"\n"))
    assert not capture(odd, ORIGINAL._replace(payload_digest="")).is_revisit


def test_page_metadata_omits_problems_that_did_not_occur() -> None:
    page = Page("http://a.test/", 200)
    found = dict(page_metadata(page, replace(PLAIN, tls=replace(TLS, problem=""))))
    assert found.keys().isdisjoint({"tlsProblem", "decodeProblem", "charsetForLinkExtraction"})
