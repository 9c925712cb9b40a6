"""Removes content codings: from the body as it was sent to the payload of the page.

Owns gzip, deflate, br and zstd (RFC 9110, 8.4; RFC 7932; RFC 8878). Knows nothing of sockets and
of chunk framing, which `http1` has removed. Never raises for any bytes of a server: the result has
the part that could be decoded, and the problem.

Worst cases: output is bounded, whatever the input expands to; damaged input is decoded twice, the
second time in at most MAX_STEPS calls; MAX_CODINGS stacked codings with MAX_MEMBERS members each.
10 MiB take 20 to 100 ms per coding, so `decode_quickly` leaves them to a thread.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import NamedTuple, Protocol

import brotli  # type: ignore[import-untyped]
from isal import isal_zlib

from webcrawl.fetch.http1 import Headers, list_values, transfer_codings

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_BOUNDED = "can_accept_more_data"  # came with the bound on output, in brotli 1.2
if not hasattr(brotli.Decompressor, _BOUNDED):
    # If another package required `brotlipy`, it has replaced the module `brotli`. The C module of
    # the real `brotli` is found by its path: an imported `brotlipy` has taken that name too.
    _spec = PathFinder.find_spec("_brotli")
    if _spec is not None and _spec.loader is not None:
        brotli = module_from_spec(_spec)
        _spec.loader.exec_module(brotli)
    if not hasattr(brotli.Decompressor, _BOUNDED):
        raise ImportError("brotli 1.2 or later is needed: pip install 'brotli>=1.2'")

MAX_CODINGS = 4  # Deviation: no honest server stacks more
MAX_MEMBERS = 16  # Deviation: gzip members or zstd frames in a row; browsers stop after the first
MAX_STEPS = 16_384
# Decoding in place takes 6 ms at most, 30 ms for damaged input.
QUICK_INPUT_BYTES = 512 * 1024
QUICK_OUTPUT_BYTES = 1024 * 1024

# RFC 9659, 3: a window of 8 MiB at most in a content coding.
_ZSTD_OPTIONS = {int(zstd.DecompressionParameter.window_log_max): 23}
_DAMAGE: tuple[type[Exception], ...] = (
    isal_zlib.error,  # type: ignore[assignment]  # its stub has an instance
    zstd.ZstdError,
    brotli.error,
)


class Decoded(NamedTuple):
    """`problem` is "" if every coding was removed in full; `left` are the codings not removed."""

    payload: bytes
    problem: str = ""
    left: tuple[bytes, ...] = ()


class _Decompressor(Protocol):
    """The common interface of zlib and zstd. Output below `max_length` means: all input is used."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


def decode(content: bytes, headers: Headers, max_size_bytes: int) -> Decoded:
    """Remove the codings that `headers` name from `content`, the last one applied first.

    Deviation: content that is not in the coding of its label stays as it is ("not gzip"), since
    many servers label plain pages so. Cost: 1 µs per KiB of output, at most `max_size_bytes`.
    """
    codings = codings_of(headers)
    if not codings or not content:
        return Decoded(content)
    if len(codings) > MAX_CODINGS:
        return Decoded(content, f"{len(codings)} codings", tuple(codings))
    problems = []
    room = min(max_size_bytes, sys.maxsize - 1)  # `_decompress` asks for one byte more
    while codings and content:  # an empty body has no coding left
        name = codings[-1].decode("latin-1")
        decoder = _DECODERS.get(codings[-1])
        if decoder is None:
            problems.append(f"unknown coding {name[:40]}")
            break
        content, problem = decoder(content, room)
        if problem:
            problems.append(f"{problem} {name}")
        codings.pop()
    return Decoded(content, ", ".join(problems), tuple(codings) if content else ())


def decode_quickly(content: bytes, headers: Headers, max_size_bytes: int) -> Decoded | None:
    """As `decode`; None for content that may block the event loop, even if it is small."""
    codings = codings_of(headers)
    if not codings or not content:
        return Decoded(content)
    if len(codings) > 1 or len(content) > QUICK_INPUT_BYTES:
        return None
    decoded = decode(content, headers, min(max_size_bytes, QUICK_OUTPUT_BYTES))
    if len(decoded.payload) == QUICK_OUTPUT_BYTES < max_size_bytes:
        return None
    return decoded


def codings_of(headers: Headers) -> list[bytes]:
    """The codings to remove, in the order they were applied."""
    codings = list_values(headers, b"content-encoding")
    of_transfer = transfer_codings(headers)
    if of_transfer and of_transfer[-1] == b"chunked":
        codings += of_transfer[:-1]
    return [coding for coding in codings if coding != b"identity"] if codings else codings


def _inflate(data: bytes, room: int) -> tuple[bytes, str]:
    """RFC 9110, 8.4.1.2: the zlib format. Deviation: raw deflate too, which old servers send."""
    if data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0:  # RFC 1950, 2.2
        payload, problem, _ = _decompress(lambda: isal_zlib.decompressobj(15), data, room)
        if payload or problem != "damaged":
            return payload, problem
    return _unmarked(lambda: isal_zlib.decompressobj(-15), data, room)


def _members(
    new: Callable[[], _Decompressor], magic: bytes, data: bytes, room: int
) -> tuple[bytes, str]:
    """The members, one after the other, of a format that has a magic number."""
    if not data.startswith(magic):
        return data, "not"
    payload, problem, data = _decompress(new, data, room)
    for _ in range(MAX_MEMBERS):
        if problem or not data.startswith(magic):
            break
        more, problem, data = _decompress(new, data, room - len(payload))
        payload += more
    return payload, problem


def _unmarked(new: Callable[[], _Decompressor], data: bytes, room: int) -> tuple[bytes, str]:
    """A format without a magic number: the first bytes of plain text may decode without error."""
    payload, problem, _ = _decompress(new, data, room)
    if problem == "damaged" and len(payload) <= len(data):
        return data, "not"
    return payload, problem


def _decompress(
    new: Callable[[], _Decompressor], data: bytes, room: int, step: int = 0
) -> tuple[bytes, str, bytes]:
    """One stream: at most `room` bytes of output, its problem, and the bytes that follow it.

    All of `data` goes in by one call. A decompressor that meets damage returns nothing of that
    call, so damaged data is read again in small steps, to keep the output before the damage.
    """
    step = step or len(data)
    decompressor = new()
    pieces: list[bytes] = []
    at = size = 0
    while at < len(data) and not decompressor.eof:
        try:
            piece = decompressor.decompress(data[at : at + step], room - size + 1)
        except _DAMAGE:
            if step == len(data) > 1:
                return _decompress(new, data, room, max(1, len(data) // MAX_STEPS))
            return b"".join(pieces), "damaged", b""
        at += step
        size += len(piece)
        pieces.append(piece)
        if size > room:
            return b"".join(pieces)[:room], "too large", b""
    if not decompressor.eof:
        return b"".join(pieces), "cut short", b""
    return b"".join(pieces), "", decompressor.unused_data + data[at:]


class _Brotli:
    """Brotli's decompressor with zlib's interface."""

    unused_data = b""  # it reports bytes behind the stream as damage

    def __init__(self) -> None:
        self._decompressor = brotli.Decompressor()

    @property
    def eof(self) -> bool:
        return bool(self._decompressor.is_finished())

    def decompress(self, data: bytes, max_length: int) -> bytes:
        piece: bytes = self._decompressor.process(data, output_buffer_limit=max_length)
        return piece


def _new_zstd() -> _Decompressor:
    return zstd.ZstdDecompressor(None, _ZSTD_OPTIONS)


# RFC 1952: bytes after the last member of gzip, mostly padding, are ignored.
_gunzip = partial(_members, partial(isal_zlib.decompressobj, 31), b"\x1f\x8b")
_DECODERS: dict[bytes, Callable[[bytes, int], tuple[bytes, str]]] = {
    b"gzip": _gunzip,
    b"x-gzip": _gunzip,
    b"deflate": _inflate,
    b"br": partial(_unmarked, _Brotli),
    b"zstd": partial(_members, _new_zstd, b"\x28\xb5\x2f\xfd"),
}
