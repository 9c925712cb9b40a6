"""Whoever reaches the bus may publish anything: it is a value, or DecodeError."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from isal import isal_zlib
from msgspec import DecodeError, json
from msgspec.msgpack import Decoder, encode

from tests.unit.test_hub_records import Records
from webcrawl.cluster import packets, peers
from webcrawl.cluster.letters import MailRows, read_rows
from webcrawl.cluster.packets import Ask, Brief, BriefPart, Hello, Over, Packet, Welcome, read_brief
from webcrawl.cluster.peers import PeerHello, PeerWelcome
from webcrawl.cluster.records import CRAWL, CrawlRecord, OwnerRecord, read
from webcrawl.frontier.lease import Link, RobotsTask
from webcrawl.frontier.mailbox import FoundLink, Mail, RobotsAsked, RobotsFailed
from webcrawl.parse.urls import host_of

NO_UNICODE = b"\x81\xa4name\xa1\xff"
NESTED = b"\x91" * 100_000 + b"\xc0"
BRIEF = Brief("crawl", "broad", {"DOWNLOAD_DELAY": 1.0}, "h", {"a": 1}, ["a.test"], has_rules=True)
TASK = RobotsTask("https://a.test", "a.test", "https://b.test/robots.txt", 1, 2)
MAIL: list[Mail] = [
    FoundLink(Link("https://a.test/x", "a.test", 2, 1, "http://b.test/"), 0.25),
    RobotsAsked(TASK),
    RobotsFailed(TASK, "timeout", again=True),
]
MESSAGES = [
    *map(encode, (Ask("name"), Over("name.1"), Welcome("name.1", "name", 3, 1.0), BRIEF)),
    encode(Packet("name.1", 1, 0, 1.0, 1.0, b"name")),
    encode(Hello("name", "place", "crawl", "h", "", 0, "name.1", 1.0)),
    encode(BriefPart("name", 0, 1, encode(BRIEF))),
    encode(PeerHello("crawl", "1.name", 1.0)),
    encode(PeerWelcome("1.name", 1.0, 1.0)),
]
RECORDS = [
    json.encode(CrawlRecord("1", "name", "h")),
    json.encode(OwnerRecord("name", "owner")),
]
GARBAGE = [
    *(b"", b"\x00", NO_UNICODE, NESTED),
    *(message.replace(b"name", b"\xff\xff\xff\xff") for message in MESSAGES + RECORDS),
    encode(BRIEF).replace(b"\xa1a\x01", b"\xa1a" + NESTED),
    b'{"version":"1","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
]


def damaged(whole: list[bytes]) -> st.SearchStrategy[bytes]:
    """One of `whole` that was damaged, or any bytes."""

    @st.composite
    def messages(draw: st.DrawFn) -> bytes:
        if draw(st.booleans()):
            return draw(st.binary(max_size=50))
        message = bytearray(draw(st.sampled_from(whole)))
        for _ in range(draw(st.integers(1, 3))):
            message[draw(st.integers(0, len(message) - 1))] = draw(st.integers(0, 255))
        return bytes(message[: draw(st.integers(0, len(message)))])

    return messages()


def value_or_fault(read: Callable[[bytes], Any], data: bytes) -> Any:
    try:
        return read(data)
    except DecodeError:
        return None


def receive(data: bytes) -> None:
    """Read `data` as whatever comes on a subject."""
    value_or_fault(packets.read_by_hub, data)
    value_or_fault(peers._read, data)
    message = value_or_fault(packets.read_by_fetcher, data)
    if isinstance(message, BriefPart):
        value_or_fault(read_brief, message.data)


def record_of(data: bytes, kind: type[Any]) -> object:
    """The record on the bus that has `data`."""

    async def found() -> object:
        records = Records()
        await records.put(CRAWL, data, 0)
        return (await read(records, CRAWL, kind))[0]

    return asyncio.run(found())


@pytest.mark.parametrize("data", GARBAGE)
def test_garbage(data: bytes) -> None:
    receive(data)
    assert record_of(data, CrawlRecord) is None
    assert record_of(data, OwnerRecord) is None


@given(damaged(MESSAGES))
def test_damaged_messages(data: bytes) -> None:
    receive(data)


@given(damaged(RECORDS))
def test_damaged_records(data: bytes) -> None:
    for kind in (CrawlRecord, OwnerRecord):
        found = record_of(data, kind)
        assert found is None or isinstance(found, kind)


@given(damaged([encode(MAIL), encode(MAIL[:1])]), st.integers(1, 4), st.booleans())
def test_damaged_mail_is_read_as_mail_for_our_hosts_or_not_at_all(
    rows: bytes, count: int, is_packed: bool
) -> None:
    data = isal_zlib.compress(rows, 1) if is_packed else rows
    letter = MailRows(7 + count, count, data)
    found = value_or_fault(lambda _: read_rows(letter, lambda host: host in OURS), data)
    for row in found or ():
        if isinstance(row, FoundLink):
            assert host_of(row.link.url) == row.link.host in OURS
        assert Decoder(Mail).decode(encode(row)) == row


OURS = {"a.test", "b.test"}
