"""Content codings, removed: what a reader of the page sees, from the body as it was sent.

Owns gzip, deflate, br and zstd (RFC 9110, 8.4; RFC 7932; RFC 8878). Knows nothing of sockets and
of chunk framing, which `http1` has taken off by then. Never raises on what a server sent: what
could be decoded is the payload, and the problem is said beside it.

Worst cases: output is bounded whatever the input expands to; damaged input is decoded twice, the
second time in at most MAX_STEPS calls; MAX_CODINGS stacked codings, MAX_MEMBERS members each. That
takes 10 MiB 20 to 100 ms a coding, so that `decode_quickly` leaves it to a thread.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
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
    # `brotlipy`, where something has pulled it in, takes the name of `brotli`. The C module beside
    # it is found by path: once imported, `brotlipy` takes that one's name as well.
    _spec = PathFinder.find_spec("_brotli")
    if _spec is not None and _spec.loader is not None:
        brotli = module_from_spec(_spec)
        _spec.loader.exec_module(brotli)
    if not hasattr(brotli.Decompressor, _BOUNDED):
        raise ImportError("brotli 1.2 or later is needed: pip install 'brotli>=1.2'")

MAX_CODINGS = 4  # Deviation: nobody means more
MAX_MEMBERS = 16  # Deviation: gzip members or zstd frames in a row; browsers stop after the first
MAX_STEPS = 16_384
# What is decoded in place takes 6 ms at most, 30 where it is damaged.
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
    """`problem` is "" when every coding came off in full; `left` are codings we do not know."""

    payload: bytes
    problem: str = ""
    left: tuple[bytes, ...] = ()


class _Decompressor(Protocol):
    """What zlib and zstd share; given `max_length`, output below it means all input was used."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


def decode(content: bytes, headers: Headers, max_size_bytes: int) -> Decoded:
    """Remove the codings that `headers` name from `content`, the last one applied first.

    Deviation: content that is not in the coding its label says stays as it is ("not gzip"): many
    servers label plain pages so. Cost: 1 us per KiB of output, and at most `max_size_bytes` of it.
    """
    codings = _codings(headers)
    if not codings or not content:
        return Decoded(content)
    if len(codings) > MAX_CODINGS:
        return Decoded(content, f"{len(codings)} codings", tuple(codings))
    problems = []
    while codings:
        name = codings[-1].decode("latin-1")
        decoder = _DECODERS.get(codings[-1])
        if decoder is None:
            problems.append(f"unknown coding {name[:40]}")
            break
        content, problem = decoder(content, max_size_bytes)
        if problem:
            problems.append(f"{problem} {name}")
        codings.pop()
    return Decoded(content, ", ".join(problems), tuple(codings))


def decode_quickly(content: bytes, headers: Headers, max_size_bytes: int) -> Decoded | None:
    """As `decode`; None where that may hold up an event loop, however little came."""
    codings = _codings(headers)
    if not codings or not content:
        return Decoded(content)
    if len(codings) > 1 or len(content) > QUICK_INPUT_BYTES:
        return None
    decoded = decode(content, headers, min(max_size_bytes, QUICK_OUTPUT_BYTES))
    if len(decoded.payload) == QUICK_OUTPUT_BYTES < max_size_bytes:
        return None
    return decoded


def _codings(headers: Headers) -> list[bytes]:
    """Those that are to be removed, the last one applied at the end."""
    codings = list_values(headers, b"content-encoding")
    if len(headers_te := transfer_codings(headers)) > 1 and headers_te[-1] == b"chunked":
        codings += headers_te[:-1]
    return [coding for coding in codings if coding != b"identity"]


def _gunzip(data: bytes, room: int) -> tuple[bytes, str]:
    """RFC 1952. What follows the last member, padding mostly, is passed over."""
    return _members(lambda: isal_zlib.decompressobj(31), b"\x1f\x8b", data, room)


def _unzstd(data: bytes, room: int) -> tuple[bytes, str]:
    return _members(
        lambda: zstd.ZstdDecompressor(None, _ZSTD_OPTIONS), b"\x28\xb5\x2f\xfd", data, room
    )


def _inflate(data: bytes, room: int) -> tuple[bytes, str]:
    """RFC 9110, 8.4.1.2: zlib's format. Deviation: raw deflate too, which old servers meant by it."""
    if data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0:  # RFC 1950, 2.2
        payload, problem, _ = _decompress(lambda: isal_zlib.decompressobj(15), data, room)
        if payload or problem != "damaged":
            return payload, problem
    return _unmarked(lambda: isal_zlib.decompressobj(-15), data, room)


def _unbrotli(data: bytes, room: int) -> tuple[bytes, str]:
    return _unmarked(_Brotli, data, room)


_DECODERS: dict[bytes, Callable[[bytes, int], tuple[bytes, str]]] = {
    b"gzip": _gunzip,
    b"x-gzip": _gunzip,
    b"deflate": _inflate,
    b"br": _unbrotli,
    b"zstd": _unzstd,
}


def _members(
    new: Callable[[], _Decompressor], magic: bytes, data: bytes, room: int
) -> tuple[bytes, str]:
    """Members of a format that has a magic number, one after the other."""
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
    """A format without a magic number: plain text passes for it, for some bytes."""
    payload, problem, _ = _decompress(new, data, room)
    if problem == "damaged" and len(payload) <= len(data):
        return data, "not"
    return payload, problem


def _decompress(
    new: Callable[[], _Decompressor], data: bytes, room: int, step: int = 0
) -> tuple[bytes, str, bytes]:
    """One stream: at most `room` bytes of output, what was wrong with it, and what follows it.

    All of `data` goes in by one call. A decompressor that meets damage gives nothing of that call,
    so damaged data goes in once more in small steps, to keep what came before the damage.
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
    """Brotli's decompressor with the methods of zlib's."""

    unused_data = b""  # it takes what follows for damage

    def __init__(self) -> None:
        self._decompressor = brotli.Decompressor()

    @property
    def eof(self) -> bool:
        return bool(self._decompressor.is_finished())

    def decompress(self, data: bytes, max_length: int) -> bytes:
        piece: bytes = self._decompressor.process(data, output_buffer_limit=max_length)
        return piece
