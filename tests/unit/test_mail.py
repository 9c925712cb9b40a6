"""The messages between shards: what is written is read, and nothing else is."""

from __future__ import annotations

import zlib
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from isal import isal_zlib
from msgspec.msgpack import encode
from msgspec.structs import replace

from webcrawl.cluster.mail.messages import (
    MESSAGE_MAX,
    PREFIX,
    ROWS_BYTES_MAX,
    ROWS_MAX,
    Batch,
    Refused,
    Watermark,
    pack,
    read,
    unpack,
    write,
)
from webcrawl.frontier.lease import Link, RobotsTask
from webcrawl.frontier.mailbox import FoundLink, Mail, RobotsAnswered, RobotsAsked, RobotsFailed
from webcrawl.parse.jointrules import joint_rules
from webcrawl.parse.robots import RobotsRules

LINK = Link("https://a.example/x", "a.example", 2, 1, "http://b.example:8080/", sequence=3)
TASK = RobotsTask("https://a.example", "a.example", "https://b.example/robots.txt", 1, 2)
RULES = RobotsRules.parse(b"user-agent: *\ndisallow: /private\ncrawl-delay: 3", "x")
JOINT_RULES = joint_rules(b"user-agent: *\ndisallow: /p\nuser-agent: x\nallow: /", "x,y")
ANSWER = RobotsAnswered(TASK, zlib.compress(RULES.to_bytes()), 3600.0, "2xx", "")
MAIL: list[Mail] = [
    FoundLink(LINK),
    FoundLink(replace(LINK, url="http://a.example:8080/?q", via=""), 0.25, force=True),
    FoundLink(replace(LINK, url="http://[::1]/", host="::1")),
    RobotsAsked(TASK),
    ANSWER,
    RobotsAnswered(TASK, zlib.compress(JOINT_RULES.to_bytes()), 3600.0, "2xx", ""),
    RobotsFailed(TASK, "timeout", again=True, retry_after_s=3.0),
]
BATCH = Batch("a crawl", 1, 5, 2, 7, 1 << 40, 11, 0)
WATERMARK = Watermark("a crawl", 2, 7, 1, 5, 1 << 40, 12, 11)


def batch_of(rows: Any, *, count: int | None = None) -> Batch:
    data = isal_zlib.compress(encode(rows), 1)
    return replace(BATCH, count=len(rows) if count is None else count, data=data)


def test_what_is_written_is_read() -> None:
    data, count = pack(MAIL)
    batch = replace(BATCH, count=count, data=data)
    assert read(write(batch)) == batch
    assert unpack(batch) == MAIL
    assert read(write(WATERMARK)) == WATERMARK


def test_a_batch_is_as_long_as_a_message_allows() -> None:
    random = Random(7)
    noise = [bytes(random.choices(range(0x21, 0x7F), k=8000)).decode() for _ in range(ROWS_MAX)]
    rows = [FoundLink(Link(f"https://a.example/{text}", "a.example")) for text in noise]
    data, count = pack(rows)
    assert 1 < count < ROWS_MAX
    batch = replace(BATCH, count=count, data=data)
    assert len(write(batch)) <= MESSAGE_MAX
    assert unpack(batch) == rows[:count]


def test_a_mail_larger_than_a_message_is_our_fault() -> None:
    row = replace(ANSWER, rules=Random(7).randbytes(MESSAGE_MAX))
    with pytest.raises(ValueError, match="larger than a message"):
        pack([row, row])


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"", "version"),
        (b"mail9\n" + write(WATERMARK)[len(PREFIX) :], "version"),
        (write(WATERMARK)[:-1], "malformed"),
        (write(WATERMARK) + b"\0", "malformed"),
        (PREFIX, "malformed"),
        (PREFIX + b"\x91" * 100_000, "malformed"),  # an array in an array in an array...
        (PREFIX + b"\xdd\xff\xff\xff\xff", "malformed"),  # four billion items
        (PREFIX + bytes(MESSAGE_MAX), "malformed"),
        (PREFIX + encode([3, *encode(WATERMARK)]), "malformed"),
        (write(replace(WATERMARK, applied=-1)), "malformed"),
        (write(replace(WATERMARK, kept=1 << 63)), "malformed"),
        (write(replace(WATERMARK, serial=1.5)), "malformed"),  # type: ignore[arg-type]
        (write(replace(BATCH, sender=1 << 16)), "malformed"),
        (write(replace(BATCH, first=0)), "malformed"),
        (write(replace(BATCH, count=ROWS_MAX + 1)), "malformed"),
        (write(replace(BATCH, crawl="x" * 300)), "malformed"),
        (write(replace(BATCH, data="text")), "malformed"),  # type: ignore[arg-type]
    ],
)
def test_other_messages_are_refused(message: bytes, reason: str) -> None:
    with pytest.raises(Refused) as refused:
        read(message)
    assert refused.value.reason == reason


BAD_LINKS = {
    "a payload": replace(LINK, payload=b"code"),
    "tries": replace(LINK, retries=1),
    "counted": replace(LINK, is_counted=True),
    "kept": replace(LINK, kept="dns"),
    "head": replace(LINK, head_done=True),
    "negative depth": replace(LINK, depth=-1),
    "huge redirects": replace(LINK, redirects=1 << 40),
    "another host": replace(LINK, host="b.example"),
    "a longer host": replace(LINK, url="https://a.example.com/x"),
    "lastmod": replace(LINK, lastmod=-1),
    "a kind": replace(LINK, sitemap=-2),
    "a sitemap of nobody": replace(LINK, sitemap=1, via="x"),
    "no host": replace(LINK, url="https:///x", host=""),
    "a host in upper case": replace(LINK, url="https://A.example/", host="A.example"),
    "another scheme": replace(LINK, url="ftp://a.example/x"),
    "no path": replace(LINK, url="https://a.example"),
    "user info": replace(LINK, url="https://u@a.example/", host="u@a.example"),
    "a line end": replace(LINK, url="https://a.example/x\n"),
    "a space": replace(LINK, via="https://b.example/ HTTP/1.1"),
    "not ASCII": replace(LINK, via="https://b.example/é"),
    "too long": replace(LINK, url="https://a.example/" + "x" * 8192),
    "a number as URL": replace(LINK, url=7),
}


@pytest.mark.parametrize("link", BAD_LINKS.values(), ids=BAD_LINKS)
def test_a_link_that_no_frontier_writes_is_refused(link: Link) -> None:
    with pytest.raises(Refused, match="malformed"):
        unpack(batch_of([MAIL[0], FoundLink(link)]))


BAD_ROWS = {
    "cash that is no number": FoundLink(LINK, float("nan")),
    "endless cash": FoundLink(LINK, float("inf")),
    "negative cash": FoundLink(LINK, -0.1),
    "a task of no origin": RobotsAsked(TASK._replace(origin="file:///x")),
    "a task with a line end": RobotsAsked(TASK._replace(url="https://a.example/\r\nx:y")),
    "rules that are not compressed": replace(ANSWER, rules=b"x"),
    "rules that are none": replace(ANSWER, rules=zlib.compress(b"x")),
    "rules as a bomb": replace(ANSWER, rules=zlib.compress(bytes(16 << 20), 9)),
    "rules that hold for ever": replace(ANSWER, valid_s=float("inf")),
    "another reason": RobotsFailed(TASK, "a reason\n", again=True),
    "no mail": 7,
    "another kind of mail": ["Other", 7],
}


@pytest.mark.parametrize("row", BAD_ROWS.values(), ids=BAD_ROWS)
def test_a_mail_that_no_frontier_writes_is_refused(row: Any) -> None:
    with pytest.raises(Refused, match="malformed"):
        unpack(batch_of([MAIL[0], row]))


@pytest.mark.parametrize(
    "batch",
    [
        batch_of(MAIL, count=len(MAIL) - 1),
        batch_of([]),
        batch_of([7] * 100_000, count=500),
        replace(BATCH, count=1, data=b"no zlib"),
        replace(BATCH, count=1, data=zlib.compress(encode(MAIL[:1]))[:-5]),
        replace(BATCH, count=1, data=zlib.compress(encode(MAIL[:1])) + b"more"),
        replace(BATCH, count=1, data=zlib.compress(bytes(8 << 20), 9)),
        replace(BATCH, count=1, data=zlib.compress(b"\xdd\xff\xff\xff\xff")),
        replace(BATCH, count=1, data=zlib.compress(b"\x91" * ROWS_BYTES_MAX)),
    ],
    ids=["fewer", "none", "more", "garbage", "cut", "two", "bomb", "endless", "deep"],
)
def test_other_data_is_refused(batch: Batch) -> None:
    with pytest.raises(Refused, match="malformed"):
        unpack(batch)


@given(st.binary(max_size=300), st.integers(0, 300), st.booleans())
def test_random_bytes_are_refused_or_read(noise: bytes, at: int, is_batch: bool) -> None:
    data, count = pack(MAIL)
    whole = write(replace(BATCH, count=count, data=data) if is_batch else WATERMARK)
    try:
        message = read(whole[:at] + noise + whole[at + len(noise) :])
        if isinstance(message, Batch):
            assert len(unpack(message)) == message.count
    except Refused:
        pass
