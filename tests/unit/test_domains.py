"""parse.domains: the registered domain."""

from __future__ import annotations

import socket

import pytest

from tests.cases import each_of
from webcrawl.parse.domains import registered_domain


@each_of(
    ("host", "domain"),
    [
        ("uol.com.br", "uol.com.br"),
        ("www.example.uol.com.br", "uol.com.br"),
        ("com.br", "com.br"),
        ("br", "br"),
        ("a.b.xn--p1ai", "b.xn--p1ai"),
        ("user.github.io", "github.io"),  # Deviation: no private section
        ("a.b.unlisted", "b.unlisted"),
        ("localhost", "localhost"),
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8::1", "2001:db8::1"),
    ],
)
def test_registered_domain(host: str, domain: str) -> None:
    assert registered_domain(host) == domain


def test_the_network_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_network(*_: object) -> None:
        raise AssertionError("a look-up went to the network")

    monkeypatch.setattr(socket, "socket", no_network)
    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    registered_domain.cache_clear()
    assert registered_domain("a.example.co.uk") == "example.co.uk"
