"""`check` finds faults in WARC files, among them those that public tools accept."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.exchanges import CHUNKED, EXCHANGES, TEXT, capture, exchange, head
from webcrawl.tools.warccheck import check as checking
from webcrawl.tools.warccheck.check import check
from webcrawl.warc.payload import without_chunks
from webcrawl.warc.records import (
    Capture,
    Original,
    capture_records,
    digest,
    payload_digest,
    warcinfo_record,
)

INFO = "<urn:uuid:00000000-0000-0000-0000-000000000000>"
PLAIN = EXCHANGES["plain"]
ORIGINAL = Original("http://b.test/", 0.0, payload_digest(PLAIN))


def build(each: Capture) -> list[bytes]:
    """Good records: warcinfo, response or revisit, request, metadata."""
    ids = iter(f"<urn:uuid:00000000-0000-0000-0000-00000000000{n}>" for n in range(1, 9))
    info = warcinfo_record(INFO, 0.0, "a.warc.gz", [("software", "x")])
    return [info, *capture_records(each, INFO, lambda: next(ids))]


def problems(folder: Path, records: list[bytes], *, packed: bool = True) -> list[str]:
    """The problems that `check` finds in a file of `records`, without the offsets."""
    path = folder / "a.warc.gz"
    path.write_bytes(b"".join(map(gzip.compress, records) if packed else records))
    return [each.partition(": ")[2] for each in check(path)]


def edit(number: int, old: bytes, new: bytes) -> Callable[[list[bytes]], None]:
    """A fault: `old` in one record becomes `new`."""

    def apply(records: list[bytes]) -> None:
        assert old in records[number]
        records[number] = records[number].replace(old, new, 1)

    return apply


def swap_blocks(records: list[bytes]) -> None:
    """The request record gets the response's block, length and digest."""
    fields = records[1].partition(b"WARC-Block-Digest")
    mine = records[2].partition(b"WARC-Block-Digest")
    records[2] = mine[0] + b"".join(fields[1:])


def drop(*numbers: int) -> Callable[[list[bytes]], None]:
    def apply(records: list[bytes]) -> None:
        for number in sorted(numbers, reverse=True):
            del records[number]

    return apply


def repeat(number: int) -> Callable[[list[bytes]], None]:
    return lambda records: records.append(records[number])


ID = b"WARC-Record-ID: <urn:uuid:00000000-0000-0000-0000-000000000001>\r\n"
FAULTS = [
    (swap_blocks, "a request that begins with b'HTTP/1.1 200 OK"),
    (edit(1, ID, b""), "warc-record-id is missing"),
    (edit(1, ID, ID + ID), "warc-record-id is repeated"),
    (edit(1, b"<urn:uuid:", b"<"), "WARC-Record-ID is '<0000"),
    (edit(1, b"WARC-Type: response", b"WARC-Type: reply"), "WARC-Type is 'reply'"),
    (edit(1, b"http://a.test/page", b""), "warc-target-uri is empty"),
    (edit(1, b"WARC-Target-URI", b"X"), "response without warc-target-uri"),
    (edit(1, b"WARC-IP-Address: 192.0.2.1", b"WARC-Filename: x"), "response with warc-filename"),
    (edit(1, b"13:20.123456Z", b"13:20"), "WARC-Date is '2023-11-14T22:13:20'"),
    (edit(1, b"WARC-IP-Address: 192.0.2.1", b"WARC-Truncated: yes"), "WARC-Truncated is 'yes'"),
    (edit(1, b"Content-Type", b"X"), "content-type is missing"),
    (edit(1, b"Some words", b"Some werds"), "warc-block-digest does not fit the bytes"),
    (edit(1, b"Payload-Digest: sha1:", b"Payload-Digest: rot13:"), "warc-payload-digest is 'rot13"),
    (edit(1, b"HTTP/1.1 200", b"SMTP/1.1 200"), "a response that begins with b'SMTP"),
    (edit(3, b"via: http:", b"via  http "), "not a field: b'via  "),
    (edit(2, b"WARC-Concurrent-To", b"X"), "a request record without warc-concurrent-to"),
    (edit(2, b"Host: a.test\r\n\r\n", b"Host: a.test----"), "a request whose header has no end"),
    (drop(0), "warcinfo is not the first record, or not the only one"),
    (repeat(0), "warcinfo is not the first record, or not the only one"),
    (repeat(2), "<urn:uuid:00000000-0000-0000-0000-000000000002> is not unique"),
    (drop(1), "concurrent to the unknown <urn:uuid:00000000-0000-0000-0000-000000000001>"),
    (edit(0, INFO.encode(), b"<urn:x>"), "its warcinfo record is not in this file"),
    (edit(0, b"application/warc-fields", b"text/plain"), "a warcinfo record of text/plain"),
]
UNREADABLE = [
    (edit(1, b"WARC/1.1", b"WARC/2.0"), "begins with 'WARC/2.0'"),
    (edit(1, b"Content-Length: ", b"Content-Length: -"), "Content-Length is '-"),
    (edit(1, b"WARC-IP-Address: ", b"WARC-IP-Address  "), "not a field: 'WARC-IP"),
    (edit(1, b"Content-Length: ", b"Content-Length: 9"), "Content-Length 9"),
]


def test_a_good_file_has_no_problem(tmp_path: Path) -> None:
    assert problems(tmp_path, build(capture(PLAIN))) == []
    assert problems(tmp_path, build(capture(PLAIN, ORIGINAL))) == []


NOTHING = b"sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ"


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        (b"WARC-Profile", b"WARC-Payload-Digest: " + NOTHING + b"\r\nWARC-Profile", "nothing"),
        (b"HTTP/1.1 304", b"HTTP/1.1 200", "not modified, with the status 200"),
        (b"WARC-Refers-To-Date", b"X-Date", "belong together"),
    ],
)
def test_check_finds_a_fault_of_a_304(
    before: bytes, after: bytes, problem: str, tmp_path: Path
) -> None:
    asked = replace(EXCHANGES["not modified"], is_conditional=True)
    records = build(capture(asked, ORIGINAL._replace(started_time=1.0)))
    assert problems(tmp_path, records) == []
    edit(1, before, after)(records)
    assert any(problem in each for each in problems(tmp_path, records))


@pytest.mark.parametrize(
    ("fault", "problem"), [pytest.param(*each, id=each[1]) for each in [*FAULTS, *UNREADABLE]]
)
def test_check_finds_a_fault(
    fault: Callable[[list[bytes]], None], problem: str, tmp_path: Path
) -> None:
    records = build(capture(PLAIN))
    fault(records)
    assert any(each.startswith(problem) for each in problems(tmp_path, records))


@pytest.mark.parametrize("trailer", [b"", b"\r\n", b"\r\n\r\n\r\n"])
def test_check_finds_a_wrong_trailer(trailer: bytes, tmp_path: Path) -> None:
    records = build(capture(PLAIN))
    records[2] = records[2].removesuffix(b"\r\n\r\n") + trailer
    assert problems(tmp_path, records) == [f"the record ends with {trailer!r}"]


@pytest.mark.parametrize("name", ["Profile", "Refers-To-Target-URI", "Refers-To-Date", "Truncated"])
def test_check_finds_a_revisit_without_a_mandatory_field(name: str, tmp_path: Path) -> None:
    records = build(capture(PLAIN, ORIGINAL))
    edit(1, b"WARC-" + name.encode(), b"X")(records)
    assert any(f"warc-{name}".lower() in each.lower() for each in problems(tmp_path, records))


@pytest.mark.parametrize(
    ("start", "body", "problem"),
    [
        (head(CHUNKED), TEXT, "chunked over a plain body"),
        (head(CHUNKED), b"5\r\nhello\r\n", "chunked over a plain body"),
        (head(CHUNKED), b"", "chunked over a plain body, which is empty"),
        (head(b"Content-Length: 4"), b"hello", "Content-Length is 4, the body has 5 bytes"),
        (head(b"content-length:6"), b"hello", "Content-Length is 6, the body has 5 bytes"),
        (head(b"Content-Length: 4"), b"", "Content-Length is 4, the body is empty"),
    ],
)
def test_check_finds_framing_that_does_not_fit(
    start: bytes, body: bytes, problem: str, tmp_path: Path
) -> None:
    each = exchange(start, body)
    assert problems(tmp_path, build(capture(each))) == [problem]
    assert problems(tmp_path, build(capture(replace(each, truncated="time")))) == []


def test_an_answer_to_head_may_lack_its_body(tmp_path: Path) -> None:
    each = exchange(head(b"Content-Length: 4"), b"", method="HEAD")
    assert problems(tmp_path, build(capture(each))) == []


@pytest.mark.parametrize("label", ["sha1:{hex}", "SHA1:{hex}", "md5:{md5}", "sha-256:{sha256}"])
def test_check_reads_digests_of_other_algorithms(label: str, tmp_path: Path) -> None:
    values = {
        "hex": hashlib.sha1(TEXT).hexdigest(),
        "md5": hashlib.md5(TEXT).hexdigest(),
        "sha256": hashlib.sha256(TEXT).hexdigest().upper(),
    }
    right = Capture(PLAIN, label.format(**values))
    assert problems(tmp_path, build(right)) == []
    wrong = Capture(exchange(PLAIN.head, TEXT[::-1]), label.format(**values))
    assert problems(tmp_path, build(wrong)) == ["warc-payload-digest does not fit the bytes"]


@pytest.mark.parametrize(
    "date",
    [b"2023", b"2023-11", b"2023-11-14", b"2023-11-14T22:13Z", b"2023-11-14T22:13:20Z",
     b"2023-11-14T22:13:20.123456789Z"],
)  # fmt: skip
def test_a_date_may_be_less_precise(date: bytes, tmp_path: Path) -> None:
    """WARC 1.1, 5.4."""
    records = build(capture(PLAIN))
    for number in (1, 2, 3):
        edit(number, b"2023-11-14T22:13:20.123456Z", date)(records)
    assert problems(tmp_path, records) == []


@pytest.mark.parametrize("date", [b"2023-11-14T22Z", b"20231114", b"2023-11-14T", b"2023-", b"23"])
def test_check_finds_a_malformed_date(date: bytes, tmp_path: Path) -> None:
    records = build(capture(PLAIN))
    edit(1, b"2023-11-14T22:13:20.123456Z", date)(records)
    assert problems(tmp_path, records) == [f"WARC-Date is {date.decode()!r}"]


def test_warc_protocol_may_be_repeated(tmp_path: Path) -> None:
    records = build(capture(PLAIN))
    protocols = b"WARC-Protocol: http/1.1\r\nWARC-Protocol: tls/1.3\r\n"
    edit(1, b"WARC-Type: response\r\n", b"WARC-Type: response\r\n" + protocols)(records)
    assert problems(tmp_path, records) == []


@pytest.mark.parametrize("name", ["plain", "chunked", "gzip", "gzip, chunked"])
def test_a_payload_digest_may_follow_any_definition_of_payload(name: str, tmp_path: Path) -> None:
    each = EXCHANGES[name]
    for payload in (each.body, without_chunks(each), TEXT):
        assert problems(tmp_path, build(Capture(each, digest(payload)))) == []
    wrong = problems(tmp_path, build(Capture(each, digest(TEXT + b"x"))))
    assert wrong == ["warc-payload-digest does not fit the bytes"]


def test_check_reads_an_uncompressed_file(tmp_path: Path) -> None:
    records = build(capture(PLAIN))
    assert problems(tmp_path, records, packed=False) == []
    edit(1, b"Some words", b"Some werds")(records)
    assert problems(tmp_path, records, packed=False)


def test_a_compression_bomb_is_not_decompressed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "MAX_RECORD", 1 << 20)
    records = build(capture(exchange(head(), bytes(3 << 20))))
    assert problems(tmp_path, records) == ["larger than 1048576 bytes"]
    assert problems(tmp_path, records, packed=False) == ["larger than 1048576 bytes"]
