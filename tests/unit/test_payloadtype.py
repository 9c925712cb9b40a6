"""WARC-Identified-Payload-Type, by the tables of the WHATWG's MIME Sniffing Standard (7.1, 6)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.exchanges import EXCHANGES, GZIPPED, HTML, TEXT, capture, exchange, head
from webcrawl.items import Original
from webcrawl.warc.payloadtype import HEADER_BYTES, find_signature, type_of
from webcrawl.warc.records import Capture, capture_records, payload_digest

TAGS = "!DOCTYPE HTML,HTML,HEAD,SCRIPT,IFRAME,H1,DIV,FONT,TABLE,A,STYLE,TITLE,B,BODY,BR,P,!--"
HTML_STARTS = [
    space + b"<" + spelt + end
    for tag in TAGS.encode().split(b",")
    for space in (b"", b"\t\n\x0c\r ")
    for spelt in (tag, tag.lower())
    for end in (b" ", b">")
]
FTYP = b"ftypisom\0\0\0\0"
IDENTIFIED = {
    "text/html": [*HTML_STARTS, b" " * (HEADER_BYTES - 6) + b"<html>"],
    "text/xml": [b"<?xml", b"\r\n<?xml version='1.0'?>"],
    "application/pdf": [b"%PDF-1.7"],
    "application/postscript": [b"%!PS-Adobe-3.0"],
    "image/x-icon": [b"\0\0\1\0", b"\0\0\2\0", b"\0\0\1\0ftypmp4" + bytes(300)],
    "image/bmp": [b"BM"],
    "image/gif": [b"GIF87a", b"GIF89a"],
    "image/webp": [b"RIFF\n\0\n\0WEBPVP"],
    "image/png": [b"\x89PNG\r\n\x1a\n"],
    "image/jpeg": [b"\xff\xd8\xff"],
    "audio/aiff": [b"FORM\0\0\0\0AIFF"],
    "audio/mpeg": [b"ID3"],
    "application/ogg": [b"OggS\0"],
    "audio/midi": [b"MThd\0\0\0\6"],
    "video/avi": [b"RIFF\0\0\0\0AVI "],
    "audio/wave": [b"RIFF\0\0\0\0WAVE"],
    "video/mp4": [
        b"\0\0\0\x10ftypmp42" + bytes(4),
        b"\0\0\0\x18" + FTYP + b"avc1mp41",
        b"\0\0\0\x0cftypmp41",
    ],
    "video/webm": [
        b"\x1a\x45\xdf\xa3\x81\x42\x82\x84webm",
        b"\x1a\x45\xdf\xa3\1\xff\xff\xff\xff\xff\xff\xff\x42\x86\x81\1\x42\x82\x40\x04webm",
        b"\x1a\x45\xdf\xa3\x42\x82\x86\0\0webm",
    ],
    "application/x-gzip": [b"\x1f\x8b\x08"],
    "application/zip": [b"PK\3\4"],
    "application/x-rar-compressed": [b"Rar!\x1a\7\0"],
}
UNIDENTIFIED = [  # text/plain or application/octet-stream, says the standard
    b"",
    b"User-agent: *\nDisallow:\n",
    b"{}",
    b"<html",
    b"<html\n>",
    b"<article>",
    b"\x0b<html>",
    b"<!--x",
    b"<?XML ",
    b"\n%PDF-",
    b"\xef\xbb\xbf<html>",
    b"\xff\xfe<\0",
    b" " * (HEADER_BYTES - 5) + b"<html>",
    b"RIFF\0\0\0\0WEBP",
    b"OggS",
    b"\0\0\0\x18" + FTYP + b"avc1isom",
    b"\0\0\0\x14" + FTYP + b"avc1mp41",  # the brand is behind the box
    b"\0\0\0\x19" + FTYP + b"avc1mp41\0",
    b"\0\0\0\x20" + FTYP + b"mp41",  # cut
    b"\0\0\0\x0bftypmp4",
    b"\x1a\x45\xdf\xa3\x42\x82\x88matroska",
    b"\x1a\x45\xdf\xa3" + bytes(34) + b"\x42\x82\x84webm",
    b"\xff\xfb\x90\x64" + bytes(417) + b"\xff\xfb\x90\x64",
]


def identified(payload: bytes) -> str:
    found = find_signature(payload, 0, HEADER_BYTES)
    return type_of(found) if found else ""


@pytest.mark.parametrize("name", IDENTIFIED)
def test_the_first_bytes_identify_the_type(name: str) -> None:
    for start in IDENTIFIED[name]:
        assert identified(start) == name, start
        assert identified(b"x" + start) == "", start


def test_other_bytes_identify_none() -> None:
    assert {start: identified(start) for start in UNIDENTIFIED} == dict.fromkeys(UNIDENTIFIED, "")


JPEG = exchange(head(HTML), b"\xff\xd8\xff\xe0")
CODED = exchange(head(HTML, b"Content-Encoding: gzip"), GZIPPED, payload=GZIPPED)


@pytest.mark.parametrize(
    ("each", "name"),
    [
        (capture(EXCHANGES["gzip, chunked"]), b"text/html"),
        (capture(JPEG), b"image/jpeg"),  # the header is no witness
        (capture(exchange(head(HTML), b"words")), b""),
        (capture(replace(CODED, codings_left=(b"gzip",))), b""),  # was not decoded
        (capture(exchange(), Original("http://b.test/", 0, payload_digest(exchange()))), b""),
        (replace(capture(exchange(body=TEXT)), has_answer=False), b""),
    ],
    ids=["decoded", "said otherwise", "unidentified", "coded", "revisit", "no answer"],
)
def test_a_response_record_has_the_type_of_its_payload(each: Capture, name: bytes) -> None:
    records = b"".join(capture_records(each, "<urn:info>", lambda: "<urn:1>"))
    field = b"WARC-Identified-Payload-Type: "
    assert records.count(field) == bool(name)
    assert not name or b"\r\n%b%b\r\n" % (field, name) in records
