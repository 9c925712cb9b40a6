"""CLUSTER as a URL, names of keys, and the faults of the twin in memory."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contracts.memorybus import MemoryHub
from webcrawl.cluster.bus.base import (
    Address,
    Server,
    Unreachable,
    bus_from,
    checked_crawl,
    decoded,
    encoded,
    is_under,
)

SECRET = "s3cr3t"


def test_addresses(tmp_path: Path) -> None:
    assert Address.parse("nats://a") == Address((Server("a", 4222),))
    address = Address.parse("nats://me:p%2Fw,%40x@a:1,b-c.example,[2001:db8::1]:3?replicas=3")
    assert address.servers == (
        Server("a", 1),
        Server("b-c.example", 4222),
        Server("2001:db8::1", 3),
    )
    assert (address.user, address.password, address.replicas) == ("me", "p/w,@x", 3)
    assert str(address) == "nats://a:1,b-c.example:4222,[2001:db8::1]:3"
    assert Address.parse("nats://a,nats://b") == Address.parse("nats://a,b")
    (file := tmp_path / "file").touch()
    address = Address.parse(f"tls://token@a?ca={file}&creds={file}")
    assert (address.user, address.password, address.is_tls) == ("token", None, True)
    assert (address.ca, address.creds) == (file, file)


@pytest.mark.parametrize(
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
    assert SECRET not in f"{address} {address!r} {bus_from(f'nats://{SECRET}@a', 'c')!r}"


def test_names_of_crawls() -> None:
    for name in ("a", "A-b_9", "x" * 64):
        assert checked_crawl(name) == name
    for name in ("", "a.b", "a b", "x" * 65, "ä", "a\n", "*"):
        with pytest.raises(ValueError, match="CLUSTER_NAME"):
            checked_crawl(name)


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=20))
def test_any_name_is_a_key(name: str) -> None:
    if all(name.split(".")) and len(encoded_or_long(name)) <= 200:
        text = encoded(name)
        assert re.fullmatch(r"[A-Za-z0-9_=-]+(\.[A-Za-z0-9_=-]+)*", text)
        assert decoded(text) == name
    else:
        with pytest.raises(ValueError):
            encoded(name)


def encoded_or_long(name: str) -> str:
    try:
        return encoded(name)
    except ValueError:
        return "x" * 201


def test_what_is_under_a_prefix() -> None:
    assert is_under("", "a.b")
    assert is_under("a.", "a.b")
    assert is_under("a", "a")
    assert not is_under("a", "a.b")
    assert not is_under("a.", "ab.c")


# The twin


def test_a_stepped_hub_delivers_when_told() -> None:
    async def check() -> None:
        hub = MemoryHub(stepped=True)
        bus = hub.bus()
        await bus.open()
        heard: list[bytes] = []
        await bus.subscribe("a", heard.append)
        bus.publish("a", b"1")
        bus.publish("a", b"2")
        await asyncio.sleep(0)
        assert heard == []
        assert hub.step()
        assert heard == [b"1"]
        hub.run()
        assert heard == [b"1", b"2"]
        assert not hub.step()
        bus.publish("a", b"3")
        hub.cut(bus)
        hub.mend(bus)
        assert hub.waiting == 0, "what was on its way is lost"

    asyncio.run(check())


def faulty(seed: int) -> list[bytes]:
    async def check() -> list[bytes]:
        hub = MemoryHub(seed, stepped=True)
        hub.lose, hub.repeat, hub.reorder = 0.2, 0.2, 0.5
        bus = hub.bus()
        await bus.open()
        heard: list[bytes] = []
        await bus.subscribe("a", heard.append)
        for n in range(200):
            bus.publish("a", b"%d" % n)
        hub.run()
        return heard

    return asyncio.run(check())


def test_faults_are_the_seeds() -> None:
    heard = faulty(1)
    assert heard == faulty(1) != faulty(2)
    assert len(set(heard)) < 200, "some are lost"
    assert len(heard) > len(set(heard)), "some are repeated"
    assert heard != sorted(heard, key=int), "some are late"


def test_failing_calls_may_have_been_carried_out() -> None:
    async def check() -> None:
        hub = MemoryHub(3)
        bus = hub.bus()
        await bus.open()
        hub.fail = 1.0
        for n in range(40):
            with pytest.raises(Unreachable):
                await bus.put(f"a.{n}", b"")
        hub.fail = 0.0
        assert 0 < len(await bus.keys("")) < 40

    asyncio.run(check())


def test_a_bus_that_is_cut_off_reaches_nothing() -> None:
    async def check() -> None:
        hub = MemoryHub()
        one, two = hub.bus(), hub.bus()
        heard: list[bytes] = []
        for bus in (one, two):
            await bus.open()
        await two.subscribe("a", heard.append)
        await one.put("a", b"")
        one.publish("a", b"1")
        hub.cut(two)
        assert not two.is_connected
        one.publish("a", b"2")
        with pytest.raises(Unreachable):
            await two.get("a")
        hub.mend(two)
        assert two.is_connected
        assert await two.get("a") is not None
        one.publish("a", b"3")
        await asyncio.sleep(0)
        assert heard == [b"3"], "what was on its way is lost"

    asyncio.run(check())


def test_no_revision_is_given_again_after_a_wipe() -> None:
    async def check() -> None:
        hub = MemoryHub()
        bus = hub.bus()
        await bus.open()
        old = await bus.put("a", b"")
        hub.wipe()
        assert await bus.get("a") is None
        for _ in range(5):
            await bus.put("a", b"")
            assert await bus.update("a", b"", old) is None

    asyncio.run(check())
