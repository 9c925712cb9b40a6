"""CLUSTER as a URL."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cases import each_of
from webcrawl.cluster.address import Address, BusServer
from webcrawl.cluster.bus import Bus

SECRET = "s3cr3t"


def test_addresses(tmp_path: Path) -> None:
    assert Address.parse("nats://a") == Address((BusServer("a", 4222),), name="webcrawl")
    address = Address.parse("nats://me:p%2Fw,%40x@a:1,b-c.example,[2001:db8::1]:3?replicas=3")
    assert address.servers == (
        BusServer("a", 1),
        BusServer("b-c.example", 4222),
        BusServer("2001:db8::1", 3),
    )
    assert (address.user, address.password, address.replicas) == ("me", "p/w,@x", 3)
    assert str(address) == "nats://a:1,b-c.example:4222,[2001:db8::1]:3"
    assert Address.parse("nats://a,nats://b") == Address.parse("nats://a,b")
    (file := tmp_path / "file").touch()
    address = Address.parse(f"tls://token@a?ca={file}&creds={file}")
    assert (address.user, address.password, address.is_tls) == ("token", None, True)
    assert (address.ca, address.creds) == (file, file)


@each_of("name", ["a", "A-b_9", "x" * 64])
def test_a_path_is_the_name_of_the_crawl(name: str) -> None:
    address = Address.parse(f"nats://u:{SECRET}@a,nats://b/{name}?replicas=1")
    assert (address.name, address.servers[1], address.replicas) == (name, BusServer("b", 4222), 1)
    assert str(address) == f"nats://a:4222,b:4222/{name}"


@each_of(
    ("url", "said"),
    [
        ("", "nats://"),
        (f"http://u:{SECRET}@a", "nats://"),
        (f"u:{SECRET}@a", "nats://"),
        (f"nats://u:{SECRET}@", "host 1"),
        (f"nats://u:{SECRET}", "host 1"),
        (f"nats://u:{SECRET}@a,b:0", "host 2"),
        (f"nats://u:{SECRET}@a:66000", "host 1"),
        (f"nats://u:/{SECRET}@a", "%2F"),
        (f"nats://u:#{SECRET}@a", "%2F"),
        *(
            (f"nats://u:{SECRET}@a/{name}", "name of the crawl")
            for name in ("", "a.b", "a b", "x" * 65, "ä", "a\nb", "*", "a/b", "a,nats://b")
        ),
        (f"nats://u:{SECRET}@a,tls://b", "all hosts"),
        (f"nats://u:{SECRET}@a,nats://u:{SECRET}@b", "once"),
        (f"nats://u:{SECRET}@a?password={SECRET}", "only creds"),
        (f"nats://u:{SECRET}@a?ca=/none", "no such file"),
        (f"nats://u:{SECRET}@a?creds=/none", "no such file"),
        (f"nats://u:{SECRET}@a?ca={__file__}", "tls://"),
        (f"nats://u:{SECRET}@a?replicas=2", "1, 3 or 5"),
        ("nats://" + ",".join("a" * 17), "more than 16"),
    ],
)
def test_bad_addresses(url: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)) as caught:
        Address.parse(url)
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_text_has_a_secret() -> None:
    address = Address.parse(f"nats://me{SECRET}:{SECRET}@a")
    bus = Bus(Address.parse(f"nats://{SECRET}@a"))
    assert SECRET not in f"{address} {address!r} {bus!r}"
