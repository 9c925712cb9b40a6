"""The lines of NATS: whole, byte by byte, and what is none."""

from __future__ import annotations

import base64
import json
from itertools import pairwise
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st

from webcrawl.cluster.bus import Address, Refused, natswire
from webcrawl.cluster.bus.natsbucket import position
from webcrawl.cluster.bus.natslogin import connect_line
from webcrawl.cluster.bus.natswire import (
    Failed,
    Info,
    Message,
    Pinged,
    Ponged,
    ProtocolError,
    Reader,
)

SAID = (
    b'INFO {"port":4222}\r\nPING\r\npong\r\n+OK\r\n'
    b"MSG a.b 7 11\r\nhello\r\nMSG \r\n"
    b"MSG a.b 8 _INBOX.1 0\r\n\r\n"
    b"HMSG a 9 31 34\r\nNATS/1.0\r\nKV-Operation: DEL\r\n\r\nxyz\r\n"
    b"HMSG a 9 r 16 16\r\nNATS/1.0 503\r\n\r\n\r\n"
    b"HMSG a 9 31 31\r\nNATS/1.0 100 Idle Heartbeat\r\n\r\n\r\n"
    b"-ERR 'Authorization Violation'\r\n"
)
READ = [
    Info(b'{"port":4222}'),
    Pinged(),
    Ponged(),
    Message(7, "a.b", "", b"hello\r\nMSG ", "", {}),
    Message(8, "a.b", "_INBOX.1", b"", "", {}),
    Message(9, "a", "", b"xyz", "", {"kv-operation": "DEL"}),
    Message(9, "a", "r", b"", "503", {}),
    Message(9, "a", "", b"", "100", {}),
    Failed("Authorization Violation"),
]


def read(*pieces: bytes) -> list[natswire.Event]:
    reader = Reader()
    return [event for piece in pieces for event in reader.feed(piece)]


def test_whole_and_byte_by_byte() -> None:
    assert read(SAID) == READ
    assert read(*(SAID[n : n + 1] for n in range(len(SAID)))) == READ


@given(st.lists(st.integers(0, len(SAID)), max_size=6))
def test_in_any_pieces(cuts: list[int]) -> None:
    at = [0, *sorted(cuts), len(SAID)]
    assert read(*(SAID[a:b] for a, b in pairwise(at))) == READ


@pytest.mark.parametrize(
    "bad",
    [b"220 mail\r\n", b"\r\n", b"MSG\r\n", b"MSG a 1 x\r\n", b"MSG a 1 -1\r\n",
     b"MSG a b 0\r\n\r\n", b"MSG a 1 99999999999\r\n", b"HMSG a 1 5 3\r\n",
     b"HMSG a 1\r\n", b"MSG a 1 1\r\nxyz\r\n", b"x" * 70_000],
)  # fmt: skip
def test_what_is_not_nats(bad: bytes) -> None:
    with pytest.raises(ProtocolError):
        read(bad)


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    try:
        events = read(data, b"MSG ", data)
    except ProtocolError:
        return
    assert len(events) <= 2 * data.count(b"\n"), "each is at least a line"


@given(st.binary(max_size=300), st.sampled_from(["", "_INBOX.x"]), st.booleans())
def test_what_is_published_is_read_as_it_is(data: bytes, reply: str, has_headers: bool) -> None:
    """The server's MSG has our words and its subscription's number."""
    headers = {"KV-Operation": "DEL"} if has_headers else {}
    line = natswire.publish("a.b", data, reply, headers)
    verb, subject, rest = line.split(b" ", 2)
    (message,) = read(verb.replace(b"PUB", b"MSG") + b" " + subject + b" 5 " + rest)
    lower = {name.lower(): value for name, value in headers.items()}
    assert message == Message(5, "a.b", reply, data, "", lower)


def test_the_position_of_a_delivery() -> None:
    assert position("$JS.ACK.S.C.1.10.3.1700000000.5") == (10, 3, 5)
    assert position("$JS.ACK.hub.acc.S.C.1.10.3.1700000000.5.token") == (10, 3, 5)
    assert position("$JS.ACK.hub.acc.S.C.1.10.3.1700000000.5") == (10, 3, 5)
    assert position("") is None
    assert position("$JS.ACK.S.C.1.x.3.1700000000.5") is None


# Logging in


def options_of(address: Address, nonce: str = "") -> dict[str, str]:
    verb, _, text = connect_line(address, {"nonce": nonce}, "me").partition(b" ")
    assert verb == b"CONNECT"
    options: dict[str, str] = json.loads(text)
    return options


def test_user_and_token() -> None:
    options = options_of(Address.parse("nats://me:p%40ss@host"))
    assert (options["user"], options["pass"]) == ("me", "p@ss")
    options = options_of(Address.parse("nats://to%2Fken@host"))
    assert options["auth_token"] == "to/ken"
    assert (
        not {"user", "pass", "auth_token", "jwt"} & options_of(Address.parse("nats://host")).keys()
    )


def test_a_credentials_file_signs_the_nonce(tmp_path: Path) -> None:
    key = Ed25519PrivateKey.generate()
    raw = key.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
    seed = base64.b32encode(b"\x92\x15" + raw + b"\0\0").rstrip(b"=").decode()
    file = tmp_path / "user.creds"
    file.write_text(
        "-----BEGIN NATS USER JWT-----\nea.b-c.d_e\n------END NATS USER JWT------\n\n"
        "************************* IMPORTANT *************************\n"
        f"-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    )
    options = options_of(Address.parse(f"nats://host?creds={file}"), "N0nce-_x")
    assert options["jwt"] == "ea.b-c.d_e"
    signature = base64.urlsafe_b64decode(options["sig"] + "==")
    key.public_key().verify(signature, b"N0nce-_x")  # raises if it is another's


@pytest.mark.parametrize("text", ["", "\xff", "-----BEGIN NATS USER JWT-----\na\n------END NATS"])
def test_a_credentials_file_without_credentials(tmp_path: Path, text: str) -> None:
    file = tmp_path / "user.creds"
    file.write_text(text, encoding="latin-1")
    with pytest.raises(Refused, match=r"user\.creds"):
        options_of(Address.parse(f"nats://host?creds={file}"))
