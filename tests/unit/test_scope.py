"""scope: which URLs belong to the crawl."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.cases import each_of
from webcrawl.base.wording import SettingError
from webcrawl.parse.urls import canonicalize, host_of
from webcrawl.scope import Scope, refused_ports


def refuses(scope: Scope, url: str) -> str:
    canonical = canonicalize(url)
    assert canonical
    return scope.refuses(canonical, host_of(canonical))


@each_of("suffix", [".br", "br", ".BR", "br.", "*.br"])
@each_of(
    ("host", "reason"),
    [
        ("uol.com.br", ""),
        ("UOL.COM.BR.", ""),
        ("br", ""),
        ("x.br.com", "suffix"),
        ("abr", "suffix"),
        ("x.abr", "suffix"),
        ("192.0.2.7", "suffix"),
    ],
)
def test_suffix_on_a_label_boundary(suffix: str, host: str, reason: str) -> None:
    assert refuses(Scope(suffixes=[suffix]), f"http://{host}/.br") == reason


@each_of(
    ("entry", "url", "matches"),
    [
        ("example.com", "http://example.com/", True),
        ("example.com", "http://www.example.com:8080/a", True),
        ("Example.COM.", "http://example.com/", True),
        (".example.com", "http://a.example.com/", True),
        ("*.example.com", "http://a.example.com/", True),
        ("example.com", "http://badexample.com/", False),
        ("example.com", "http://example.com.br/", False),
        ("example.com", "http://other.example/?u=example.com", False),
        ("my_host.example", "http://my_host.example/", True),
        ("bücher.example", "http://xn--bcher-kva.example/", True),
        ("192.0.2.7", "http://192.0.2.7/", True),
        ("2001:DB8::1", "http://[2001:db8::1]/", True),
        ("login", "http://h.example/login", False),  # a host name
        ("re:login", "http://h.example/login", True),
        (r"/login\b", "http://h.example/login?x", True),
        (r"/login\b", "http://h.example/logins", False),
        (r"\.(pdf|zip)$", "http://h.example/a.zip", True),
        ("(?i)LOGIN", "http://h.example/login", True),
        ("example.com/private", "http://example.com/private/x", True),
        (r"^https://", "http://h.example/", False),
    ],
)
def test_entries(entry: str, url: str, matches: bool) -> None:
    assert refuses(Scope(deny=[entry]), url) == ("deny" if matches else "")
    assert refuses(Scope(allow=[entry]), url) == ("" if matches else "allow")


@each_of(
    ("entry", "url", "reason"),
    [
        ("a.test", "http://a.test/", ""),
        ("a.test", "http://www.a.test:8080/", ""),
        ("www.a.test", "http://a.test/", "allowed_domains"),
        ("a.test", "http://ba.test/", "allowed_domains"),
        ("A.TEST.", "http://a.test/", ""),
        ("https://a.test/path", "http://a.test/", ""),
        ("a.test:8080", "http://a.test/", ""),
        ("bücher.test", "http://xn--bcher-kva.test/", ""),
        ("192.0.2.7", "http://192.0.2.7/", ""),
        ("not a host", "http://a.test/", "allowed_domains"),
        ("", "http://a.test/", "allowed_domains"),
    ],
)
def test_domains_of_the_spider(entry: str, url: str, reason: str) -> None:
    """As Scrapy's OffsiteMiddleware. Deviation: it ignores URLs, and here their host is meant."""
    assert refuses(Scope(domains=[entry, "other.test"]), url) == reason


def test_domains_narrow_an_allow_list_and_a_command_widens_them() -> None:
    scope = Scope(allow=["a.test", "b.test"], domains=["b.test", "c.test"])
    assert scope.has_limits
    assert refuses(scope, "http://a.test/") == "allowed_domains"
    assert refuses(scope, "http://b.test/") == ""
    assert refuses(scope, "http://c.test/") == "allow"
    scope.extend(allow=["a.test"])
    assert refuses(scope, "http://a.test/") == ""


def no_calendar(url: str, host: str) -> str:
    return "calendar" if host.startswith("cal.") and "/day/" in url else ""


GROUPS = [r"/(\w+)/\1/", r"(?P<x>a)b(?P=x)", "(?P<x>c)d(?P=x)", "e{2}", "f|g{2}"]
IN_GROUPS = {f"http://h.example/{path}": "deny" for path in ("q/q/", "aba", "cdc", "ee", "f", "gg")}


@each_of(
    ("arguments", "reasons"),
    [
        (
            {"suffixes": [".gov.br", ".рф"]},
            {"http://x.gov.br/": "", "http://x.рф/": "", "http://x.com.br/": "suffix"},
        ),
        ({"deny": GROUPS}, IN_GROUPS | {"http://h.example/q/r/": ""}),  # each has its own
        (
            {"allow": ["example.com"], "deny": ["/private/"]},  # deny wins
            {
                "http://example.com/": "",
                "http://example.com/private/": "deny",
                "http://other.example/": "allow",
            },
        ),
        ({}, {"http://h/" + "a" * (2083 - 9): "", "http://h/" + "a" * (2084 - 9): "length"}),
        (
            {"rules": [lambda url, host: "", no_calendar]},
            {"http://cal.example/day/1": "calendar", "http://cal.example/": ""},
        ),
        (
            {"ports": refused_ports([6000])},
            {"http://a.example:6000/": "", "http://a.example:6566/": "port"},
        ),
    ],
)
def test_each_argument(arguments: dict[str, Any], reasons: dict[str, str]) -> None:
    scope = Scope(**arguments)
    assert {url: refuses(scope, url) for url in reasons} == reasons


def test_another_scheme_is_refused() -> None:
    assert Scope().refuses("ftp://h.example/", "h.example") == "scheme"


def test_lists_in_files(tmp_path: Path) -> None:
    path = tmp_path / "deny.txt"
    path.write_text("\ufeff# bad hosts\n\n  a.example  \r\n/login\\b\n", "utf-8")
    scope = Scope(deny=[f"@{path}", "b.example"])
    for url in ("http://www.a.example/", "http://h.example/login", "http://b.example/"):
        assert refuses(scope, url) == "deny"
    assert refuses(scope, "http://h.example/") == ""


def test_an_empty_file_denies_nothing_and_cannot_be_an_allow_list(tmp_path: Path) -> None:
    path = tmp_path / "empty.txt"
    path.write_text("# nothing\n", "utf-8")
    assert refuses(Scope(deny=[f"@{path}", " "]), "http://h.example/") == ""
    with pytest.raises(SettingError, match=r"SCOPE_ALLOW = .*empty\.txt"):
        Scope(allow=[f"@{path}"])


@each_of(
    ("setting", "arguments"),
    [
        ("SCOPE_DENY = '(a'", {"deny": ["(a"]}),
        ("SCOPE_ALLOW = 're:*'", {"allow": ["re:*"]}),
        ("SCOPE_ALLOW = '@/no/such/file'", {"allow": ["@/no/such/file"]}),
        ("SCOPE_SUFFIXES = '*'", {"suffixes": ["*"]}),
        ("SCOPE_SUFFIXES = ''", {"suffixes": [""]}),
        ("SCOPE_SUFFIXES = 'http://x'", {"suffixes": ["http://x"]}),
    ],
)
def test_a_wrong_setting_is_named(setting: str, arguments: dict[str, list[str]]) -> None:
    with pytest.raises(SettingError) as error:
        Scope(**arguments)  # type: ignore[arg-type]
    assert str(error.value).startswith(f"{setting} cannot be used: ")


def test_a_list_in_no_text_a_pipe_or_a_device_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SettingError, match="SCOPE_DENY"):
        Scope(deny=[f"@{tmp_path / 'binary'}"])
    with pytest.raises(SettingError, match=r"SCOPE_DENY = .*pipe is a pipe: give a file"):
        Scope(deny=[f"@{tmp_path / 'pipe'}"])
    with pytest.raises(SettingError, match="/dev/zero is a device: give a file"):
        Scope(allow=["@/dev/zero"])


def test_a_host_longer_than_any_name() -> None:
    scope = Scope(deny=["x.example", "a" * 63 + ".example"], max_length=1 << 20)
    long = "a." * 2000
    assert scope.refuses("http://", long + "x.example") == "deny"
    assert scope.refuses("http://", long + "y.example") == ""
    assert scope.refuses("http://", "b" * 300 + "x.example") == ""


def test_a_scope_can_be_extended_while_it_is_used() -> None:
    scope = Scope(suffixes=["br"], allow=["a.br", "/open/"], deny=["x.br"])
    assert scope.has_limits
    assert not Scope().has_limits
    assert scope.refuses("http://b.pt/", "b.pt") == "suffix"
    scope.extend(allow=["b.pt"])
    assert scope.refuses("http://www.b.pt/", "www.b.pt") == ""
    assert scope.refuses("http://c.br/", "c.br") == "allow"
    scope.extend(allow=["c.br"], deny=["/secret/"])
    assert scope.refuses("http://c.br/", "c.br") == ""
    assert scope.refuses("http://c.br/secret/", "c.br") == "deny"
    assert scope.refuses("http://x.br/open/", "x.br") == "deny"
    assert scope.denied.has_host("www.x.br")
    assert not scope.denied.has_host("c.br")


def test_a_wrong_extension_changes_nothing() -> None:
    scope = Scope(suffixes=["br"])
    with pytest.raises(SettingError, match="deny = 're:\\('"):
        scope.extend(allow=["b.pt"], deny=["ok.br", "re:("])
    assert scope.refuses("http://b.pt/", "b.pt") == "suffix"
    assert scope.refuses("http://ok.br/", "ok.br") == ""
    with pytest.raises(SettingError, match="allow = "):
        scope.extend(allow=["b.pt", "re:["])
    assert scope.refuses("http://b.pt/", "b.pt") == "suffix"


@each_of("entry", ["re:" + "(" * 5000 + ")" * 5000, "re:x{99999999999999999999}", "@a\0b"])
def test_an_expression_beyond_the_limits_of_re_and_an_impossible_path_are_refused(
    entry: str,
) -> None:
    with pytest.raises(SettingError, match=f"deny = '{entry[0]}"):
        Scope().extend(deny=[entry])


@pytest.mark.filterwarnings("error")
def test_python_warns_of_no_expression() -> None:
    scope = Scope()
    with pytest.raises(SettingError, match=r"deny = 're:\[\[\['"):
        scope.extend(deny=["re:[[["])
    scope.extend(deny=["re:[[a]x", "re:[a&&b]y"])
    assert scope.refuses("http://c.br/ax", "c.br") == "deny"


# Ports


@each_of("scheme", ["http", "https"])
@each_of("host", ["a.example", "192.0.2.7", "[2001:db8::1]", "a"])
def test_ports_of_other_protocols_are_refused(scheme: str, host: str) -> None:
    """WHATWG Fetch, "port blocking"."""
    for port in (0, 1, 21, 22, 25, 110, 6000, 6667, 10080, 6379):
        assert refuses(Scope(), f"{scheme}://{host}:{port}/") == "port"
    for url in ("", ":80", ":443", ":8080", ":2222", "/:22", "/a:22/", "/?http://b.example:22/"):
        assert refuses(Scope(), f"{scheme}://{host}{url}") == ""
