"""URLs: WHATWG's tests, RFC 3986, and the cases of crawler-commons, Heritrix and the PSL.

The canonical form is the Standard's href less user info and fragment, with the escapes of RFC 3986
6.2.2 and the house's rules; each case that differs for such a reason is named here.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from webcrawl.parse.domains import registered_domain
from webcrawl.parse.urls import canonicalize, host_of

CASES = Path(__file__).parents[2].parent / "shared" / "cases" / "urls"

pytestmark = pytest.mark.skipif(not CASES.is_dir(), reason="no ../shared/cases/urls")

# url-py checks the Punycode of hosts that are ASCII as well; DNS knows none of these.
NOT_IDNA = re.compile(r"xn--pokxncvks|//xn--/", re.IGNORECASE)


def cases(name: str) -> list[dict[str, Any]]:
    path = CASES / name
    return (
        [c for c in json.loads(path.read_text("utf-8")) if isinstance(c, dict)]
        if path.exists()
        else []
    )


def expected(case: dict[str, Any]) -> str | None:
    """What the Standard's href is for a crawler."""
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
    """RFC 3986, 6.2.2.1 and 6.2.2.2, told another way than in `urls`."""
    if url is None:
        return None
    unstray = re.compile(r"(?<!%)(?<!%[0-9A-Fa-f])%[0-9A-Fa-f]{2}")
    plain = re.compile(r"[A-Za-z0-9._~-]")

    def form(escape: re.Match[str]) -> str:
        character = unquote(escape[0], "latin-1")
        return character if plain.fullmatch(character) else escape[0].upper()

    return unstray.sub(form, url)


def wpt_cases() -> list[dict[str, Any]]:
    """All but those with a base of another scheme, which no page has."""
    return [
        case
        for case in cases("wpt_urltestdata.json")
        if (case.get("base") or "http:").startswith(("http:", "https:"))
    ]


@pytest.mark.parametrize("case", wpt_cases(), ids=lambda c: repr(c["input"]))
def test_wpt(case: dict[str, Any]) -> None:
    base = case.get("base")
    if NOT_IDNA.search(case["input"]):
        assert canonicalize(case["input"], base) is None
    else:
        assert canonicalize(case["input"], base) == escapes_in_form(expected(case))


@pytest.mark.parametrize("case", cases("wpt_toascii.json"), ids=lambda c: repr(c["input"]))
def test_wpt_hosts(case: dict[str, Any]) -> None:
    """Hosts of ASCII only that are no valid Punycode have no canonical form: see NOT_IDNA."""
    url = canonicalize(f"http://{case['input']}/")
    if url is None and case["output"] is not None:
        assert re.search(r"(?:^|\.)xn--", case["input"], re.IGNORECASE)
    else:
        assert (url and host_of(url)) == (case["output"] and case["output"].removesuffix("."))


# Where crawler-commons goes further than RFC 3986 6.2.2, or knows other schemes than http(s).
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


@pytest.mark.parametrize("case", cases("cc_normalizer.json"), ids=lambda c: repr(c["url"]))
def test_crawler_commons(case: dict[str, Any]) -> None:
    url, want = case["url"], case["want"]
    reasons = [reason for reason, urls in CC_DIFFERENT.items() if urls.match(url)]
    if reasons:
        assert canonicalize(url) != want, f"no exception is needed for {reasons}"
    else:
        assert canonicalize(url) == want


@pytest.mark.parametrize("case", cases("heritrix_canonicalize.json"), ids=lambda c: c["url"])
def test_heritrix(case: dict[str, Any]) -> None:
    """Heritrix applies one rule at a time; the canonical form has them all."""
    form = canonicalize(case["url"])
    assert form == case["want"].rstrip("?&").replace("WWW.aRchive.Org", "www.archive.org")


def resolutions() -> list[tuple[str, str, str]]:
    path = CASES / "cc_url_resolve.csv"
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    rows = csv.reader((line for line in lines if line and line[0] != "#"), skipinitialspace=True)
    return [(row[0], row[1], row[2]) for row in rows if len(row) == 3]


@pytest.mark.parametrize(("href", "base", "want"), resolutions())
def test_resolution(href: str, base: str, want: str) -> None:
    assert canonicalize(href, base or None) == canonicalize(want)


def domains() -> list[tuple[str, str | None]]:
    path = CASES / "test_psl.txt"
    pattern = re.compile(r"^checkPublicSuffix\('([^'.][^']*)', (?:'([^']*)'|null)\)", re.MULTILINE)
    text = path.read_text("utf-8") if path.exists() else ""
    return [(host, domain or None) for host, domain in pattern.findall(text)]


@pytest.mark.parametrize(("host", "domain"), domains())
def test_registered_domains(host: str, domain: str | None) -> None:
    canonical = host_of(canonicalize(f"http://{host}/") or "")
    if host.lower().endswith("uk.com"):
        want = "uk.com"  # Deviation: the ICANN section only
    elif domain:
        want = host_of(canonicalize(f"http://{domain}/") or "")
    else:
        want = canonical  # a public suffix gives itself
    assert registered_domain(canonical) == want


@pytest.mark.parametrize("name", ["debian_homepages.txt.gz", "doc_external_urls.txt.gz"])
def test_real_urls_have_one_form_each(name: str) -> None:
    path = CASES / name
    if not path.exists():
        pytest.skip(f"no {name}")
    urls = gzip.decompress(path.read_bytes()).decode().split("\n")[::10]
    forms = [form for form in map(canonicalize, urls) if form]
    assert len(forms) > 0.95 * len(urls)
    assert [canonicalize(form) for form in forms] == forms
