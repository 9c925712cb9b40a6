"""The address guard, by the IANA special-purpose registries."""

from __future__ import annotations

from tests.cases import each_of
from webcrawl.admission.guard import AddressGuard

PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "100.63.255.255",
    "100.128.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "2001:4860:4860::8888",
    "2606:4700:4700::1111",
    "2a00:1450:4001::1",
    "64:ff9b::808:808",  # NAT64 of 8.8.8.8
    "2002:808:808::1",  # 6to4 of 8.8.8.8
]
PRIVATE = [
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "100.127.255.255",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "240.0.0.1",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:8.8.8.8",  # no public host has such an address
    "64:ff9b::7f00:1",  # NAT64 of 127.0.0.1
    "64:ff9b::c0a8:1",  # NAT64 of 192.168.0.1
    "64:ff9b:1::1",
    "100::1",
    "2001::1",  # Teredo
    "2001:2::1",
    "2001:20::1",
    "2001:db8::1",
    "2002:7f00:1::1",  # 6to4 of 127.0.0.1
    "2002:a00:1::1",  # 6to4 of 10.0.0.1
    "3fff::1",
    "4000::1",
    "5f00::1",
    "fc00::1",
    "fd12:3456::1",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
]
NOT_ONE_MACHINE = [
    "0.0.0.0",
    "255.255.255.255",
    "224.0.0.1",
    "239.255.255.255",
    "::",
    "ff02::1",
    "::ffff:0.0.0.0",
    "::ffff:224.0.0.1",
]
NO_ADDRESS = ["", "localhost", "127.1", "1.2.3", "1.2.3.4.5", "01.2.3.4", "1.2.3.4:80", "[::1]"]


@each_of("address", PUBLIC)
def test_public_addresses_pass(address: str) -> None:
    assert AddressGuard().admits(address)
    assert AddressGuard(allow_private=True).admits(address)


@each_of("address", PRIVATE)
def test_private_addresses_pass_when_allowed(address: str) -> None:
    assert not AddressGuard().admits(address)
    assert AddressGuard(allow_private=True).admits(address)


@each_of("address", [*NOT_ONE_MACHINE, *NO_ADDRESS])
def test_addresses_of_no_single_machine_never_pass(address: str) -> None:
    assert not AddressGuard().admits(address)
    assert not AddressGuard(allow_private=True).admits(address)


def test_filter_keeps_order() -> None:
    found = ["8.8.8.8", "127.0.0.1", "1.1.1.1", "::1"]
    assert AddressGuard().admitted("h", found) == ("8.8.8.8", "1.1.1.1")
    assert AddressGuard(allow_private=True).admitted("h", found) == tuple(found)
