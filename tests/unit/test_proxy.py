"""The URL of a proxy, the meaning of a proxy's answers, and admission without addresses."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

import pytest
from scrapy.settings import Settings

from tests.cases import each_of
from webcrawl.admission.dns import ResolutionFailed
from webcrawl.admission.guard import AddressGuard
from webcrawl.admission.proxied import ProxyGuard, ProxyResolver, stand_in
from webcrawl.config.components import refusals
from webcrawl.fetch.http1 import Headers
from webcrawl.fetch.proxy import Proxy, failure_of
from webcrawl.frontier.host import real_address


@each_of(
    "text",
    [
        "", "proxy:3128", "https://proxy:3128", "socks5://proxy", "http://", "http://proxy:0",
        "http://proxy:99999", "http://proxy:3128/path", "http://a b:c@proxy", "http://u:p@x@proxy",
    ],
)  # fmt: skip
def test_what_is_no_proxy_is_refused_without_its_text(text: str) -> None:
    with pytest.raises(ValueError, match=r"^no URL of a proxy$"):
        Proxy.parse(text)


def test_the_parts_of_a_proxy() -> None:
    proxy = Proxy.parse(" http://me:a%40b%3A@[::1]:3128/\n")
    assert (proxy.host, proxy.port, str(proxy)) == ("::1", 3128, "[::1]:3128")
    assert proxy.authorization == b"Basic bWU6YUBiOg=="
    assert "bWU6" not in repr(proxy)
    assert Proxy.parse("http://proxy.example") == Proxy("proxy.example", 80)
    assert proxy.with_authorization(b"GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\nbody") == (
        b"GET http://a/ HTTP/1.1\r\nProxy-Authorization: Basic bWU6YUBiOg==\r\nHost: a\r\n\r\nbody"
    )


@each_of(
    ("status", "headers", "reason", "of_tunnel"),
    [
        (200, [], "", ""),
        (403, [], "", "connect"),
        (404, [(b"Server", b"nginx")], "", "connect"),
        (503, [], "", "connect"),
        (407, [], "proxy", "proxy"),
        (502, [], "connect", "connect"),
        (504, [], "timeout", "connect_timeout"),
        (403, [(b"x-squid-error", b"ERR_ACCESS_DENIED 0")], "connect", "connect"),
        (503, [(b"X-Squid-Error", b"ERR_DNS_FAIL 0")], "dns", "dns"),
        (503, [(b"X-Squid-Error", b"ERR_READ_TIMEOUT 0")], "timeout", "connect_timeout"),
        (500, [(b"Server", b"tinyproxy/1.11.1")], "connect", "connect"),
        (502, [(b"Proxy-Status", b"p; error=dns_error; rcode=NXDOMAIN")], "dns", "dns"),
        (500, [(b"Proxy-Status", b"p; error=connection_refused")], "connect", "connect"),
        (404, [(b"Proxy-Status", b"p; received-status=404")], "", "connect"),
        (200, [(b"Proxy-Status", b"p; error=dns_error")], "", ""),
    ],
)
def test_the_proxys_own_answers_are_failures(
    status: int, headers: Headers, reason: str, of_tunnel: str
) -> None:
    for tunnel, wanted in ((False, reason), (True, of_tunnel)):
        failure = failure_of(status, headers, tunnel=tunnel)
        assert (failure.reason if failure else "") == wanted


def test_each_host_has_a_stand_in_that_leads_nowhere() -> None:
    addresses = {stand_in(f"h{number}.example") for number in range(1000)}
    assert len(addresses) == 1000
    for address in addresses:
        assert ip_address(address).version == 6
        assert real_address(address) == ""
        assert not AddressGuard().admits(address)
    assert real_address("192.0.2.1") == "192.0.2.1"


@each_of(
    ("host", "admitted"),
    [
        ("www.example.com", True),
        ("192.168.0.1", False),
        ("[::1]", False),
        ("8.8.8.8", True),
        ("localhost", False),
        ("a.localhost", False),
        ("printer", False),
        ("printer.local.", False),
        ("db.internal", False),
    ],
)
async def test_the_guard_refuses_private_hosts_by_their_names(host: str, admitted: bool) -> None:
    addresses = (await ProxyResolver().resolve(host, 0.0)).addresses
    assert bool(ProxyGuard().admitted(host, addresses)) == admitted
    assert ProxyGuard(allow_private=True).admitted(host, addresses) == addresses


async def test_what_is_no_name_has_no_stand_in() -> None:
    with pytest.raises(ResolutionFailed, match="bad_name"):
        await ProxyResolver().resolve("a b", 0.0)


HTTP11 = "scrapy.core.downloader.handlers.http11.HTTP11DownloadHandler"


@each_of(
    ("name", "value"),
    [
        ("DOWNLOADER", "scrapy.core.downloader.Downloader"),
        (
            "DOWNLOAD_HANDLERS",
            {"https": "scrapy.core.downloader.handlers.http11.HTTP11DownloadHandler"},
        ),
    ],
)
def test_a_setting_that_would_send_pages_past_the_proxy_is_refused(name: str, value: Any) -> None:
    settings = Settings()
    settings.setmodule("webcrawl.settings")
    settings.set("PROXY", "http://me:secret@127.0.0.1:1")
    assert refusals(settings) == []
    settings.set(name, value)
    (line,) = refusals(settings)
    assert line.startswith("PROXY cannot be used: ")
    assert line.endswith("would send requests past it")
    assert "secret" not in line
