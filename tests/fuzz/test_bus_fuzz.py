"""Whoever reaches the bus may publish anything: it is a value, or the peer's fault."""

from __future__ import annotations

import asyncio
from pathlib import Path
from unittest.mock import Mock

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webcrawl.cluster.agreement.members import Members
from webcrawl.cluster.agreement.records import NodeRecord, ShardRecord, decode, encode, shards_of
from webcrawl.cluster.agreement.tenancy import Tenancies, _Mail
from webcrawl.cluster.bus import BusError, Entry
from webcrawl.cluster.errors import MoveError
from webcrawl.cluster.explaining import Explanations
from webcrawl.cluster.moving.desk import number_of
from webcrawl.cluster.moving.folders import Folders
from webcrawl.cluster.moving.mover import Ask, Mover, Offer, Order, Taken

NO_UNICODE = b"\x81\xa4node\xa1\xff"
NESTED = b"\x91" * 100_000 + b"\xc0"
MESSAGES = [
    encode(Offer("c", "n", 3, 1, "abc", 9)),
    encode(Ask("abc", 0, 0)),
    encode(Order(["give", "3", "n"])),
    encode(ShardRecord("n", 1)),
    encode(NodeRecord("r", 1, "running", [1], "e")),
]
GARBAGE = [b"", NO_UNICODE, NESTED, *(message.replace(b"n", b"\xff") for message in MESSAGES)]


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    """A message that was damaged, or any bytes."""
    if draw(st.booleans()):
        return draw(st.binary(max_size=50))
    message = bytearray(draw(st.sampled_from(MESSAGES)))
    for _ in range(draw(st.integers(1, 3))):
        message[draw(st.integers(0, len(message) - 1))] = draw(st.integers(0, 255))
    return bytes(message[: draw(st.integers(0, len(message)))])


def tenancies() -> Tenancies:
    return Tenancies(
        *(Mock(), Mock(), Mock(spec=Members, node="n"), Mock()),
        shards=4,
        epochs={},
        ip_delay_s=1.0,
        longest_fetch_s=1.0,
        clock=lambda: 0.0,
    )


def receive(data: bytes) -> None:
    """Each handler of the bus gets `data`."""
    mover = Mover(Mock(), Mock(), Folders(Path("/nonexistent")), Mock())
    mover._node.registry.crawl = None  # type: ignore[assignment]
    answers = asyncio.run(mover._on_request(data))
    assert answers == b"" or msgspec.msgpack.decode(answers)
    assert asyncio.run(Explanations(Mock(), "n", lambda: "c")._answer(data))
    tenancies()._receive(data)
    for kind in (ShardRecord, NodeRecord):
        try:
            decode("key", data, kind)
        except BusError:
            pass


@pytest.mark.parametrize("data", GARBAGE)
def test_garbage(data: bytes) -> None:
    receive(data)


@given(messages())
def test_damaged_messages(data: bytes) -> None:
    receive(data)


@pytest.mark.parametrize("copy", ["../../x", "a/b", "/x", "a\n", "\x00", "a" * 99])
def test_the_id_of_a_copy_is_no_path(copy: str) -> None:
    """It is a part of the name of a folder that is written and removed."""
    mover = Mover(Mock(), Mock(), Folders(Path("/nonexistent")), Mock())
    answer = asyncio.run(mover._on_request(encode(Offer("c", "n", 3, 1, copy, 9))))
    assert msgspec.msgpack.decode(answer, type=Taken).problem == "the message is of another version"
    with pytest.raises(BusError):
        decode("shards.3", encode(ShardRecord("n", 1, copy=copy)), ShardRecord)


@pytest.mark.parametrize(
    ("node", "address"),
    [
        *(("n", address) for address in ["", "..", "../../etc", "1..2", "::1%a..b", "1.2.3.4\n"]),
        *((node, "192.0.2.1") for node in ["", "a..b", "a b", "*", "\r\nPUB x 0"]),
    ],
)
def test_a_wish_for_what_is_no_address_is_dropped(node: str, address: str) -> None:
    """Both are parts of the name of a key or a subject, which `Bus` tests."""
    found = tenancies()
    found._receive(encode(_Mail(node, address, "wanted")))
    assert not found._stray
    found._receive(encode(_Mail("n", "2001:db8::1", "wanted")))
    assert found._stray == {"2001:db8::1"}


def test_keys_that_are_no_shards_are_left_out() -> None:
    record = encode(ShardRecord("n", 1))
    keys = ["shards.0", "shards.3", "shards.4", "shards.x", "shards.-1", "shards.03", "shards."]
    assert sorted(shards_of({key: Entry(record, 1) for key in keys}, 4)) == [0, 3]


@pytest.mark.parametrize("text", ["9" * 5000, "x", "", "-1", "4", "²"])
def test_an_order_about_no_shard_is_refused(text: str) -> None:
    with pytest.raises(MoveError):
        number_of(text, 4)
