"""WARC 1.1 (ISO 28500:2017): each test cites its section, or is named a deviation."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
from foreign import SHARED, needs_shared

from tests.cases import each_of
from tests.exchanges import EXCHANGES, ODD_HEADS, TEXT, capture, encrypted, exchange, read, write
from webcrawl.tools.warccheck.check import FORBIDDEN, MANDATORY, REQUIRED, check
from webcrawl.warc.reader import Record
from webcrawl.warc.records import REVISIT_PROFILE, Original, digest, payload_digest

POLICY = SHARED / "warc_field_policy.json"
SAMPLES = SHARED / "warc_samples"

PLAIN = EXCHANGES["plain"]
ORIGINAL = Original(PLAIN.url, PLAIN.started_time, payload_digest(PLAIN))
REVISIT = capture(exchange(PLAIN.head, url="http://b.test/copy"), ORIGINAL)


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    """The records of a file that has every kind of record a crawl writes."""
    every = [capture(each) for each in (*EXCHANGES.values(), *ODD_HEADS.values())]
    folder = tmp_path_factory.mktemp("warc")
    (path,) = write(folder, [*every, REVISIT, capture(encrypted(PLAIN))])
    return read(path)


def rules() -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(POLICY.read_text()) if POLICY.exists() else []
    return found


def of_type(records: list[Record], *kinds: str) -> list[Record]:
    found = [record for record in records if record.type in kinds]
    assert found
    return found


# 4: file and record model


def test_4_a_file_begins_with_a_warcinfo_record(records: list[Record]) -> None:
    assert [record.type for record in records].index("warcinfo") == 0
    assert len(of_type(records, "warcinfo")) == 1


def test_4_a_record_ends_with_two_line_ends(records: list[Record]) -> None:
    assert {record.trailer for record in records} == {b"\r\n\r\n"}


def test_4_warc_fields_end_with_an_empty_line(records: list[Record]) -> None:
    for record in of_type(records, "warcinfo", "metadata"):
        assert re.fullmatch(rb"([A-Za-z0-9-]+: [^\r\n]*\r\n)+\r\n", record.block)


# 5: named fields


@needs_shared("warc_field_policy.json", "JWAT")
@pytest.mark.parametrize("rule", rules(), ids=lambda rule: f"{rule['type']}, {rule['field']}")
def test_5_the_field_policy_holds(rule: dict[str, str], records: list[Record]) -> None:
    """In our records, and in the table that `check` uses."""
    kind, name = rule["type"], rule["field"].lower()
    ours = [record.fields for record in records if record.type == kind]
    if rule["rule"] in ("MANDATORY", "SHALL"):
        assert name in MANDATORY | REQUIRED[kind]
        assert all(name in fields for fields in ours)
    elif rule["rule"] in ("SHALL_NOT", "MAY_NOT"):
        assert name in FORBIDDEN[kind]
        assert not any(name in fields for fields in ours)
    else:
        assert name not in MANDATORY | REQUIRED[kind] | FORBIDDEN[kind]


def test_5_no_field_is_repeated(records: list[Record]) -> None:
    """Except one that is of an extension: a field for each layer."""
    for record in records:
        names = [line.partition(b":")[0] for line in record.head.split(b"\r\n")[1:-2]]
        assert {name for name in names if names.count(name) > 1} <= {b"WARC-Protocol"}


def test_5_2_record_ids_are_unique_uris_in_angle_brackets(records: list[Record]) -> None:
    ids = [record.id for record in records]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"<urn:uuid:[0-9a-f-]{36}>", each) for each in ids)


def test_5_4_dates_are_utc(records: list[Record]) -> None:
    for record in records:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", record.fields["warc-date"])


@each_of(
    ("kind", "media_type"),
    [
        ("warcinfo", "application/warc-fields"),
        ("response", "application/http;msgtype=response"),
        ("revisit", "application/http;msgtype=response"),
        ("request", "application/http;msgtype=request"),
        ("metadata", "application/warc-fields"),
    ],
)
def test_5_6_content_types(kind: str, media_type: str, records: list[Record]) -> None:
    assert {record.fields["content-type"] for record in of_type(records, kind)} == {media_type}


def test_5_7_request_and_metadata_are_concurrent_to_the_answer(records: list[Record]) -> None:
    answers = {record.id for record in of_type(records, "response", "revisit")}
    others = of_type(records, "request", "metadata")
    assert {record.fields["warc-concurrent-to"] for record in others} == answers


def test_5_7_concurrent_records_have_one_date(records: list[Record]) -> None:
    dates = {record.id: record.fields["warc-date"] for record in records}
    for record in of_type(records, "request", "metadata"):
        assert record.fields["warc-date"] == dates[record.fields["warc-concurrent-to"]]


def test_5_8_every_block_has_its_digest(records: list[Record]) -> None:
    for record in records:
        assert record.fields["warc-block-digest"] == digest(record.block)


def test_5_9_deviation_the_payload_is_the_body_as_sent(records: list[Record]) -> None:
    """With chunk framing. No digest after a head whose end tools do not find."""
    answers = of_type(records, "response")
    ours = (*EXCHANGES.values(), *ODD_HEADS.values(), encrypted(PLAIN))
    for record, each in zip(answers, ours, strict=True):
        assert record.fields.get("warc-payload-digest", "") == payload_digest(each)
        assert payload_digest(each) in ("", digest(each.body))


def test_5_10_the_address(records: list[Record]) -> None:
    for record in of_type(records, "response", "revisit", "request"):
        assert record.fields["warc-ip-address"] == "192.0.2.1"


def test_5_13_a_truncated_record_has_its_reason(records: list[Record]) -> None:
    reasons = [record.fields.get("warc-truncated", "") for record in of_type(records, "response")]
    ours = (*EXCHANGES.values(), *ODD_HEADS.values(), PLAIN)
    assert reasons == [each.truncated for each in ours]
    assert set(reasons) == {"", "length", "disconnect"}


def test_5_14_records_name_their_warcinfo(records: list[Record]) -> None:
    first, *others = records
    assert {record.fields["warc-warcinfo-id"] for record in others} == {first.id}


# 6: record types


def test_6_2_the_fields_of_the_warcinfo(records: list[Record]) -> None:
    block = records[0].block.decode()
    assert "software: webcrawl/0\r\n" in block
    assert "format: WARC File Format 1.1\r\n" in block
    assert "conformsTo: http" in block


def test_6_3_a_response_has_the_bytes_received(records: list[Record]) -> None:
    ours = (*EXCHANGES.values(), *ODD_HEADS.values(), PLAIN)
    blocks = [record.block for record in of_type(records, "response")]
    assert blocks == [each.head + each.body for each in ours]


def test_6_5_a_request_has_the_bytes_sent(records: list[Record]) -> None:
    for record in of_type(records, "request"):
        assert re.match(rb"(GET|HEAD) /page HTTP/1\.1\r\nHost: a\.test\r\n\r\n$", record.block)


def test_6_7_2_a_revisit_of_an_identical_payload(records: list[Record]) -> None:
    (record,) = of_type(records, "revisit")
    assert record.fields["warc-profile"] == REVISIT_PROFILE
    assert record.fields["warc-payload-digest"] == ORIGINAL.payload_digest == digest(TEXT)
    assert record.block == PLAIN.head
    assert record.fields["warc-truncated"] == "length"
    original = next(
        each
        for each in of_type(records, "response")
        if each.fields["warc-target-uri"] == record.fields["warc-refers-to-target-uri"]
    )
    assert record.fields["warc-refers-to-date"] == original.fields["warc-date"]


def test_6_7_2_deviation_no_revisit_of_the_same_content_in_another_coding(tmp_path: Path) -> None:
    """The headers of a revisit would not fit the original's bytes: pywb would replay garbage."""
    zipped = EXCHANGES["gzip"]
    (path,) = write(tmp_path, [capture(PLAIN), capture(zipped, ORIGINAL)])
    assert [record.block for record in read(path) if record.type == "response"] == [
        each.head + each.body for each in (PLAIN, zipped)
    ]


# Annex D: compression


def test_d_each_record_is_a_gzip_member(tmp_path: Path) -> None:
    (path,) = write(tmp_path, [capture(PLAIN)])
    data = path.read_bytes()
    offsets = [record.offset for record in read(path)]
    assert len(offsets) == 4
    for start, _ in pairwise([*offsets, len(data)]):
        assert data[start : start + 3] == b"\x1f\x8b\x08"  # RFC 1952, 2.3


# JWAT's samples, of WARC 0.17 and 1.0

OWN_RULES = ("warcinfo is not the first", "concurrent to the unknown", "its warcinfo record is not")


def samples(start: str) -> list[Path]:
    return sorted(SAMPLES.glob(f"{start}-*.warc"))


def problems(sample: Path, folder: Path) -> list[str]:
    """Of a sample, read as WARC 1.0. The rules that only our own files keep are left out."""
    copy = folder / "sample.warc"
    copy.write_bytes(sample.read_bytes().replace(b"WARC/0.17", b"WARC/1.0"))
    return [each for each in check(copy) if not any(rule in each for rule in OWN_RULES)]


@needs_shared("warc_samples", "JWAT")
@pytest.mark.parametrize("sample", samples("valid"), ids=lambda sample: sample.stem)
def test_a_valid_sample_has_no_problem(sample: Path, tmp_path: Path) -> None:
    assert problems(sample, tmp_path) == []


@needs_shared("warc_samples", "JWAT")
@pytest.mark.parametrize("sample", samples("invalid"), ids=lambda sample: sample.stem)
def test_an_invalid_sample_has_a_problem(sample: Path, tmp_path: Path) -> None:
    assert problems(sample, tmp_path)
