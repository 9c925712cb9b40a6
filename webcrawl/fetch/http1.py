"""HTTP/1 responses, without I/O: bytes go in, one response comes out.

Owns the framing of RFC 9112 as a client meets it on the open web. Keeps the bytes of the wire:
`head` + `body` is the response, unchanged up to its end. Knows nothing of sockets, clocks and
content codings.

Lenient where browsers are: lines may end in LF alone, the reason phrase may be missing, header
lines without a colon and blank lines before the status line are ignored. A response that does not
start with a status line is no HTTP: `FetchFailed("bad_response")`.

Worst cases: each byte is read a bounded number of times; memory is `max_header_bytes` plus twice
`max_body_bytes` plus one read.
"""

from __future__ import annotations

import re
from enum import Enum
from math import inf

from webcrawl.fetch.exchange import FetchFailed

Headers = list[tuple[bytes, bytes]]  # of an answer: the names in lower case

# Deviations: RFC 9112 sets no such limits.
MAX_INTERIM = 10  # 1xx responses before the final one; servers send one or two
MAX_LINE = 4096  # bytes of a chunk-size line with its extensions (7.1.1), and of a trailer line
MAX_TRAILERS = 64 * 1024  # bytes of all trailer lines; servers that send trailers send a few
MAX_FRAMING = 1024 * 1024  # bytes read of a chunked body that is mostly framing: an attack

_BLANK = re.compile(rb"[\r\n]*")
_STATUS_LINE = re.compile(rb"http/(\d{1,3})(?:\.(\d{1,3}))?[ \t]+([1-9]\d\d)(?!\d)", re.IGNORECASE)
_HEAD_END = re.compile(rb"\n\r?\n")
_FOLD = re.compile(rb"\r?\n[ \t]+")
_header_lines = re.compile(
    rb"\n[ \t\r\v\f]*+([^:\n]*[^:\s])[ \t\r\v\f]*:[ \t\r\v\f]*+((?:[^\n]*\S)?)"
).findall
_members = re.compile(rb"[^\s,](?:[^,]*[^\s,])?").findall  # of a list, without spaces around them
_is_length = re.compile(rb"\d{1,18}").fullmatch
_FIRST_SIZE = re.compile(rb"[ \t]*([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\n]*)?\r?\n")
_NEXT_SIZE = re.compile(rb"\r?\n" + _FIRST_SIZE.pattern)


def _tiny_chunk(data: bytes) -> bytes:
    """A pattern: the end of a chunk, and a whole chunk of up to 15 bytes. `data` is the pattern of
    the chunk's data, with %d for its size.
    """
    sizes = (
        rb"[%x%X][ \t]{0,8}+(?:;[^\n]{0,64}+|\r?+)\n" % (size, size) + data % size
        for size in range(1, 16)
    )
    return rb"\r?\n[ \t]{0,8}+0{0,8}+(?:" + b"|".join(sizes) + b")"


_each_tiny_chunk = re.compile(_tiny_chunk(b"(.{%d})"), re.DOTALL).finditer
_tiny_chunks = re.compile(b"(?:" + _tiny_chunk(b".{%d}") + b")*+", re.DOTALL).match


class Framing(Enum):
    """The mark of the end of the body (RFC 9112, 6.3)."""

    LENGTH = "length"
    CHUNKED = "chunked"
    TRAILER = "trailer"  # chunked, after the last chunk
    TO_EOF = "to eof"


class ResponseReader:
    """Reads the response to one request: call `feed` with received bytes, and `end` after the last.

    `status` is 0 until the head is complete; `done` turns True with the last byte of the body.
    After that both methods do nothing.
    """

    __slots__ = (
        "_buffer",
        "_content",
        "_framing",
        "_interim",
        "_left",
        "_max_body",
        "_max_head",
        "_method",
        "_pos",
        "_taken",
        "done",
        "has_surplus",
        "head",
        "headers",
        "http_version",
        "problem",
        "status",
        "truncated",
    )

    def __init__(self, method: str, max_header_bytes: int, max_body_bytes: int) -> None:
        self._method = method
        self._max_head = max_header_bytes
        self._max_body = max_body_bytes
        self._buffer = bytearray()  # the head until it is complete, then the body
        self._content = bytearray()  # the data of the chunks of a chunked body
        self._framing = Framing.TO_EOF
        self._interim = 0
        self._pos = 0  # how much of the buffer has been parsed
        self._taken = 0  # bytes of all heads
        # LENGTH: bytes of the body; CHUNKED: missing bytes of this chunk; TRAILER: bytes allowed.
        self._left = 0
        self.head = b""
        self.status = 0
        self.http_version = ""
        self.headers: Headers = []
        self.done = False
        self.has_surplus = False  # bytes came together with the end of the response, and after it
        self.truncated = ""  # as in Exchange
        self.problem = ""  # why the body could not be read as chunks

    @property
    def idle_s(self) -> float:
        """Time for which the server keeps the connection open for another request (RFC 9112, 9.3).

        0.0 if the server closes it; infinity if the server sends no time-out. O(headers).
        """
        framed = self._framing in (Framing.LENGTH, Framing.TRAILER) and not self.has_surplus
        if not (self.done and framed and self.http_version == "1.1") or self.truncated:
            return 0.0
        if b"close" in list_values(self.headers, b"connection"):
            return 0.0
        for value in list_values(self.headers, b"keep-alive"):
            name, _, seconds = value.partition(b"=")
            if name == b"timeout" and seconds.isdigit():
                return float(seconds[:9]) - 1.0  # the next request takes time to arrive
        return inf

    @property
    def received_bytes(self) -> int:
        """Bytes of the answer that were fed so far, interim responses included."""
        return self._taken + len(self._buffer)

    @property
    def body(self) -> bytes:
        """The body as on the wire, chunk framing included. O(size)."""
        return bytes(self._buffer) if self.status else b""

    @property
    def chunked(self) -> bool:
        """Whether `body` contains chunk framing."""
        return self._framing in (Framing.CHUNKED, Framing.TRAILER) or bool(self._content)

    @property
    def content(self) -> bytes:
        """The body received so far, without chunk framing. O(size)."""
        return self.content_from(0)

    def content_from(self, offset: int) -> bytes:
        """`content[offset:]`, without a copy of the bytes before."""
        if not self.status:
            return b""
        with memoryview(self._content if self.chunked else self._buffer) as view:
            return bytes(view[offset:])

    def feed(self, data: bytes) -> None:
        """Read received bytes. Raises FetchFailed: bad_response, header_too_large."""
        if self.done:
            return
        self._buffer += data
        if not self.status and not self._read_head():
            return
        size = len(self._buffer)
        cut = size > self._max_body
        if cut:
            size = self._max_body
            del self._buffer[size:]
        if self._framing is Framing.LENGTH:
            if size >= self._left:
                self._finish(self._left)
        elif self._framing is not Framing.TO_EOF:
            self._read_chunks()
            cut |= self._pos > MAX_FRAMING and 2 * len(self._content) < self._pos
        if cut and not self.done:
            self.truncated = "length"
            self.done = True

    def end(self, why: str) -> None:
        """No more bytes will come. `why` is "eof" for a clean end, else a value of `truncated`.

        Deviation: a chunked body is complete with its last chunk, even without the blank line.
        """
        if self.done or not self.status:
            return
        self.done = True
        whole = self._framing is Framing.TRAILER or (
            self._framing is Framing.TO_EOF and why == "eof"
        )
        if not whole:
            self.truncated = "disconnect" if why == "eof" else why

    def _read_head(self) -> bool:
        """Take heads off the buffer, up to the final one. False if it is not complete yet."""
        buffer = self._buffer
        while True:
            if buffer and buffer[0] in b"\r\n":  # RFC 9112, 2.2
                self._cut(_BLANK.match(buffer).end())  # type: ignore[union-attr]  # may be empty
            match = _HEAD_END.search(buffer, self._pos)
            if match is None:
                if not b"HTTP/".startswith(buffer[:5].upper()):
                    raise FetchFailed("bad_response", f"starts with {bytes(buffer[:20])!r}")
                self._pos = max(0, len(buffer) - 2)
                if len(buffer) > self._max_head:
                    raise FetchFailed("header_too_large", f"over {self._max_head} bytes")
                return False
            head = self._cut(match.end())
            line = _STATUS_LINE.match(head)
            if line is None:
                raise FetchFailed("bad_response", f"status line {head[:40]!r}")
            status = int(line[3])
            if status >= 200:
                break
            self._interim += 1
            if self._interim > MAX_INTERIM:
                raise FetchFailed("bad_response", f"more than {MAX_INTERIM} interim responses")
        self.head = head
        self.status = status
        # Deviation: an unknown version is read as HTTP/1.1, the version of our request.
        self.http_version = "1.0" if (int(line[1]), int(line[2] or 0)) < (1, 1) else "1.1"
        self.headers = parse_headers(head)
        self._choose_framing()
        return True

    def _cut(self, size: int) -> bytes:
        """Cut `size` bytes off the front of the buffer; they count as header bytes."""
        self._taken += size
        self._max_head -= size
        if self._max_head < 0:
            raise FetchFailed("header_too_large", "all heads together")
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        self._pos = 0
        return taken

    def _choose_framing(self) -> None:
        """RFC 9112, 6.3."""
        if self._method == "HEAD" or self.status in (204, 304):
            self._framing = Framing.LENGTH
            return
        codings = transfer_codings(self.headers)
        if codings:
            if codings[-1] == b"chunked":
                self._framing = Framing.CHUNKED
            return
        length = content_length(self.headers)
        if length is not None:
            self._framing = Framing.LENGTH
            self._left = length

    def _read_chunks(self) -> None:
        """Read the chunks in the buffer (RFC 9112, 7.1).

        1 µs per chunk, 0.25 µs per chunk of up to 15 bytes; a read of 256 KB has 65,000 at most.
        """
        if self._framing is Framing.CHUNKED:
            with memoryview(self._buffer) as view:
                whole = self._read_data(view)
            if not whole:
                return
        if self._framing is Framing.TRAILER:
            self._read_trailers()

    def _read_data(self, buffer: memoryview) -> bool:
        """True after the last chunk; False if more must come, or the framing is broken."""
        content, at, left = self._content, self._pos, self._left
        while True:
            if left:
                data = buffer[at : at + left]
                content += data
                at += len(data)
                left -= len(data)
                if left:
                    break
            if at and (end := _tiny_chunks(buffer, at).end()) > at:  # type: ignore[union-attr]
                content += b"".join(
                    [chunk[chunk.lastindex or 0] for chunk in _each_tiny_chunk(buffer, at, end)]
                )
                at = end
            pattern = _NEXT_SIZE if at else _FIRST_SIZE
            line = pattern.match(buffer, at, at + MAX_LINE)
            if line is None:
                break
            at = line.end()
            left = int(line[1], 16)
            if not left:
                self._framing = Framing.TRAILER
                self._pos, self._left = at, MAX_TRAILERS
                return True
        self._pos, self._left = at, left
        if not left:
            self._await_line(newlines=2 if at else 1)
        return False

    def _read_trailers(self) -> None:
        """Deviation: endless trailers are cut; the content before them is complete."""
        buffer = self._buffer
        while not self.done:
            at = buffer.find(b"\n", self._pos, self._pos + MAX_LINE)
            if at < 0:
                self._await_line(newlines=1)
                return
            size = at + 1 - self._pos
            if not buffer[self._pos : at].rstrip(b"\r"):
                self._finish(at + 1)
            elif size > self._left:
                self._finish(self._pos)
                self.truncated = "length"
            self._left -= size
            self._pos = at + 1

    def _await_line(self, newlines: int) -> None:
        """No line could be read here: the line is not complete yet, or the framing is broken.

        Deviation: after broken framing the body is read up to the end of the connection. Its
        content is the data of the chunks before; a body without any chunk is its own content.
        """
        there = self._buffer.count(b"\n", self._pos, self._pos + MAX_LINE)
        if there >= newlines or len(self._buffer) - self._pos >= MAX_LINE:
            self.problem = "bad chunk framing" if self._pos else "not chunked"
            self._framing = Framing.TO_EOF

    def _finish(self, size: int) -> None:
        """The body is the first `size` bytes of the buffer; bytes behind it are dropped."""
        self.has_surplus = len(self._buffer) > size
        del self._buffer[size:]
        self.done = True


def parse_headers(head: bytes) -> Headers:
    """The header lines of `head` in order, names in lower case, values stripped. O(bytes).

    RFC 9112, 5.2: a folded line is joined with a space. A line without colon or name is ignored.
    """
    if b"\n " in head or b"\n\t" in head:
        head = _FOLD.sub(b" ", head)
    return [(name.lower(), value) for name, value in _header_lines(head)]


def list_values(headers: Headers, wanted: bytes) -> list[bytes]:
    """Members of the list header `wanted` (lower case), lower case, in order (RFC 9110, 5.6.1)."""
    values = []
    for name, value in headers:
        if name == wanted:
            values.append(value)
    return _members(b",".join(values).lower()) if values else values


def transfer_codings(headers: Headers) -> list[bytes]:
    """Transfer codings in the order they were applied, without the obsolete `identity`."""
    codings = list_values(headers, b"transfer-encoding")
    return [coding for coding in codings if coding != b"identity"] if codings else codings


def content_length(headers: Headers) -> int | None:
    """The length of the body; None without a reliable one. Equal repeats are one (RFC 9112, 6.3).

    Deviation: different values, or a value that is no number, are ignored, and the body ends with
    the connection. The RFC has a client discard such a response.
    """
    values = list_values(headers, b"content-length")
    is_one = values and set(values) == {values[0]}
    return int(values[0]) if is_one and _is_length(values[0]) else None
