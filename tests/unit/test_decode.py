"""Content codings: removed in full, in part, or left alone. Nothing is raised."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from isal import isal_zlib

from tests.cases import each_of
from webcrawl.fetch import decode as module
from webcrawl.fetch.decode import (
    MAX_CODINGS,
    MAX_MEMBERS,
    QUICK_INPUT_BYTES,
    QUICK_OUTPUT_BYTES,
    Decoded,
    brotli,
    decode,
    decode_quickly,
    zstd,
)

PAGE = b"".join(b"<p>%d</p>\n" % number for number in range(5000))
LIMIT = 1 << 20
ROOT = Path(__file__).parents[2]


def to_brotli(data: bytes) -> bytes:
    compressor = brotli.Compressor(quality=5)
    return compressor.process(data) + compressor.finish()


def raw_deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-15)
    return compressor.compress(data) + compressor.flush()


ENCODERS = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": to_brotli,
    "zstd": zstd.compress,
}
FORMATS = {**{name: (name, encode) for name, encode in ENCODERS.items()}}
FORMATS["raw deflate"] = ("deflate", raw_deflate)

each_format = each_of("format_", FORMATS)


def encoded(format_: str, data: bytes = PAGE) -> tuple[list[tuple[bytes, bytes]], bytes]:
    name, encode = FORMATS[format_]
    return label(name), encode(data)


def label(codings: str) -> list[tuple[bytes, bytes]]:
    return [(b"content-type", b"text/html"), (b"content-encoding", codings.encode())]


@each_format
def test_removed(format_: str) -> None:
    """Bytes after the end are ignored, and an empty body has no problem."""
    headers, body = encoded(format_)
    _, nothing = encoded(format_, b"")
    for sent, payload in ((body, PAGE), (body + bytes(20), PAGE), (nothing, b""), (b"", b"")):
        assert decode(sent, headers, LIMIT) == Decoded(payload)


@each_format
@each_of("inner", ENCODERS)
def test_nothing_in_a_coding_of_nothing(inner: str, format_: str) -> None:
    headers, body = encoded(format_, b"")
    assert decode(body, label(f"{inner}, {headers[1][1].decode()}"), LIMIT) == Decoded(b"")


GZIPPED = gzip.compress(PAGE)
STACKED = zstd.compress(to_brotli(GZIPPED))
TOO_MANY = [b"gzip"] * (MAX_CODINGS + 1)


@each_of(
    ("body", "headers", "decoded"),
    [
        *(
            (PAGE, label(codings), Decoded(PAGE))
            for codings in ("", "identity", ",", " , identity")
        ),
        (GZIPPED, label(" GZip ,"), Decoded(PAGE)),
        # The last one comes off first, and transfer codings before content codings.
        (STACKED, label("gzip, br, zstd"), Decoded(PAGE)),
        (STACKED, label("gzip") + label("br, zstd"), Decoded(PAGE)),
        (
            gzip.compress(to_brotli(PAGE)),
            [(b"transfer-encoding", b"gzip, chunked"), (b"content-encoding", b"br")],
            Decoded(PAGE),
        ),
        # Left as they are: too many, an unknown one, and those under it.
        (PAGE, label(b",".join(TOO_MANY).decode()), Decoded(PAGE, "5 codings", tuple(TOO_MANY))),
        (PAGE, label("sdch"), Decoded(PAGE, "unknown coding sdch", (b"sdch",))),
        (GZIPPED, label("br, sdch, gzip"), Decoded(PAGE, "unknown coding sdch", (b"br", b"sdch"))),
        (GZIPPED, label("gzip, gzip"), Decoded(PAGE, "not gzip")),  # once in the body
        (GZIPPED[:-8] + bytes(8), label("gzip"), Decoded(PAGE, "damaged gzip")),  # a checksum
    ],
)
def test_codings(body: bytes, headers: list[tuple[bytes, bytes]], decoded: Decoded) -> None:
    assert decode(body, headers, LIMIT) == decoded


@each_format
def test_a_wrong_label(format_: str) -> None:
    headers, _ = encoded(format_)
    coding = headers[1][1].decode()
    for plain in (b"<!DOCTYPE html>\n" + PAGE, b"x" * 3000, b"\n\n<html>", b"<html>"):
        assert decode(plain, headers, LIMIT) == Decoded(plain, f"not {coding}")


@each_format
def test_cut_short(format_: str) -> None:
    headers, body = encoded(format_)
    payload, problem, left = decode(body[: len(body) // 2], headers, LIMIT)
    assert problem.startswith("cut short ")
    assert PAGE.startswith(payload)
    assert left == ()
    if format_ != "zstd":  # its blocks are as large as the page
        assert len(payload) > len(PAGE) // 4


@each_format
def test_a_damaged_tail(format_: str) -> None:
    headers, body = encoded(format_)
    half = len(body) // 2
    payload, problem, _ = decode(body[:half] + b"\xff" * half, headers, LIMIT)
    assert problem.startswith(("damaged ", "cut short "))
    if format_ != "zstd":
        assert payload[: len(PAGE) // 4] == PAGE[: len(PAGE) // 4]


@each_format
def test_a_bomb_stops_at_the_bound(format_: str) -> None:
    headers, body = encoded(format_, bytes(50 << 20))
    assert len(body) < 60_000
    payload, problem, _ = decode(body, headers, 100_000)
    assert payload == bytes(100_000)
    assert problem.startswith("too large ")


@each_format
def test_output_of_exactly_the_bound_is_complete(format_: str) -> None:
    headers, body = encoded(format_)
    assert decode(body, headers, len(PAGE)) == Decoded(PAGE)
    payload, problem, _ = decode(body, headers, len(PAGE) - 1)
    assert payload == PAGE[:-1]
    assert problem.startswith("too large ")


@each_of("format_", ["gzip", "zstd"])
def test_members_in_a_row(format_: str) -> None:
    headers, body = encoded(format_)
    assert decode(body * 3, headers, LIMIT) == Decoded(PAGE * 3)
    payload, problem, _ = decode(body * 3, headers, len(PAGE) + 10)
    assert payload == PAGE + PAGE[:10]
    assert problem.startswith("too large ")


@each_of("format_", ["gzip", "zstd"])
def test_members_are_bounded(format_: str) -> None:
    headers, body = encoded(format_, b"a")
    assert decode(body * 100, headers, LIMIT).payload == b"a" * (MAX_MEMBERS + 1)


def test_a_zstd_window_over_8_mib_is_refused() -> None:
    """RFC 9659, 3."""
    large = {
        zstd.CompressionParameter.window_log: 27,
        zstd.CompressionParameter.content_size_flag: 0,
    }
    compressor = zstd.ZstdCompressor(options=large)
    body = compressor.compress(PAGE) + compressor.flush()
    assert decode(body, label("zstd"), LIMIT) == Decoded(b"", "damaged zstd")


def test_an_installed_brotlipy_does_no_harm(tmp_path: Path) -> None:
    """It has a package `brotli`, and its C module makes itself `_brotli` once imported."""
    package = tmp_path / "brotli"
    package.mkdir()
    fake = "import sys; sys.modules['_brotli'] = sys; Decompressor = object"
    (package / "__init__.py").write_text(fake)
    program = (
        "import sys; from webcrawl.fetch.decode import decode;"
        "body = bytes.fromhex(sys.argv[1]); headers = [(b'content-encoding', b'br')];"
        "sys.exit(decode(body, headers, 99).payload != b'hi')"
    )
    path = os.pathsep.join([str(tmp_path), str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", program, to_brotli(b"hi").hex()],
        env=os.environ | {"PYTHONPATH": path},
        check=False,
    )
    assert done.returncode == 0


@each_format
def test_a_small_body_is_decoded_in_place(format_: str) -> None:
    headers, body = encoded(format_)
    assert decode_quickly(body, headers, LIMIT * 9) == decode(body, headers, LIMIT * 9)
    assert decode_quickly(body, headers, 100) == decode(body, headers, 100)
    assert decode_quickly(PAGE, headers, LIMIT) == decode(PAGE, headers, LIMIT)


@each_format
def test_a_body_that_may_take_long_is_not_decoded_in_place(format_: str) -> None:
    bomb_headers, bomb = encoded(format_, bytes(QUICK_OUTPUT_BYTES + 1))
    assert decode_quickly(bomb, bomb_headers, LIMIT * 9) is None
    headers, body = encoded(format_, os.urandom(QUICK_INPUT_BYTES + 1))
    assert decode_quickly(body, headers, LIMIT * 9) is None
    assert decode_quickly(b"x", label("gzip, br"), LIMIT) is None


def test_a_body_without_coding_is_its_own_payload() -> None:
    body = bytes(QUICK_INPUT_BYTES * 9)
    decoded = decode_quickly(body, [], LIMIT)
    assert decoded is not None
    assert decoded.payload is body


def test_damage_in_a_large_body_loses_little_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_STEPS", 100)
    calls = 0

    class Counted:
        def __init__(self) -> None:
            self._inner = isal_zlib.decompressobj(31)

        eof = property(lambda self: self._inner.eof)
        unused_data = property(lambda self: self._inner.unused_data)

        def decompress(self, data: bytes, max_length: int) -> bytes:
            nonlocal calls
            calls += 1
            return self._inner.decompress(data, max_length)

    body = gzip.compress(PAGE)[:-8] + bytes(8)
    payload, problem, _ = module._decompress(Counted, body, LIMIT)
    assert problem == "damaged"
    assert len(payload) > len(PAGE) * 0.95
    assert calls <= 103
