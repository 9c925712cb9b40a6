"""The metadata record of a page (WARC 1.1, 6.6): how it was found, times, TLS, charset, what its
owner says about its use, outlinks.

Heritrix's names have Heritrix's meaning: via, hopsFromSeed, fetchTimeMs, charsetForLinkExtraction,
outlink. This project adds the other names, in the same style.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import repeat

from webcrawl.fetch.exchange import Exchange
from webcrawl.items import Page

Line = tuple[str, str]


def page_metadata(page: Page, exchange: Exchange) -> tuple[Line, ...]:
    """The lines for `page`; O(links).

    The links in a list comprehension, which lets other threads run: there may be 750,000.
    """
    links = [("outlink", link) for link in page.links]
    return (
        *_discovery(page),
        *_times(exchange),
        *_connection(exchange),
        *_content(page, exchange),
        *signal_lines(page.signals),
        *links,
    )


def unarchived_metadata(page: Page, exchange: Exchange) -> tuple[Line, ...]:
    """The lines for a page of which its owner forbids to keep a copy: nothing of its content."""
    return (
        ("notArchived", "noarchive"),
        *_discovery(page),
        *_times(exchange),
        *_connection(exchange),
        *signal_lines(page.signals),
    )


def signal_lines(signals: Iterable[str]) -> Iterator[Line]:
    """What the owner says about the use of a page, or of the pages of a robots.txt."""
    return zip(repeat("ownerSignal"), signals)


def _discovery(page: Page) -> Iterator[Line]:
    """How the crawl found the page; no line for a seed.

    Deviation: hopsFromSeed has one L per link, then one R per redirect in a row. Heritrix has them
    in the order in which they were followed.
    """
    hops = "L" * page.depth + "R" * page.redirects
    if page.via:
        yield "via", page.via
    if hops:
        yield "hopsFromSeed", hops


def _times(exchange: Exchange) -> Iterator[Line]:
    for name, seconds in (
        ("fetchTimeMs", exchange.total_s),
        ("dnsTimeMs", exchange.dns_s),
        ("connectTimeMs", exchange.connect_s),
        ("firstByteTimeMs", exchange.first_byte_s),
    ):
        yield name, str(round(seconds * 1000))


def _connection(exchange: Exchange) -> Iterator[Line]:
    tls = exchange.tls
    if tls is None:
        return
    yield "tlsVersion", tls.version
    yield "tlsCipherSuite", tls.cipher
    yield "tlsCertificateSha256", tls.fingerprint
    if tls.problem:
        yield "tlsProblem", tls.problem


def _content(page: Page, exchange: Exchange) -> Iterator[Line]:
    if page.wall:
        yield "wall", page.wall
    if exchange.reconstructed:
        yield "reconstructed", "true"
    if exchange.via_proxy:
        yield "viaProxy", "true"
    if exchange.headers_omitted:
        yield "requestHeadersOmitted", ", ".join(exchange.headers_omitted)
    if exchange.cached:
        yield "cached", "true"
    if exchange.body_replaced:
        yield "bodyReplaced", "true"
    if page.charset:
        yield "charsetForLinkExtraction", page.charset
    if exchange.decode_problem:
        yield "decodeProblem", exchange.decode_problem
    if page.unchanged:
        yield "unchanged", "true"
    if page.duplicate_of:
        yield "duplicateOf", page.duplicate_of
    if page.redirect_to:
        yield "outlink", page.redirect_to
