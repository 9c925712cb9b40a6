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
    found = _present((*_fetch(page, exchange), *_content(page, exchange)))
    return (*found, *signal_lines(page.signals), *links)


def unarchived_metadata(page: Page, exchange: Exchange) -> tuple[Line, ...]:
    """The lines for a page of which its owner forbids to keep a copy: nothing of its content."""
    found = _present(_fetch(page, exchange))
    return (("notArchived", "noarchive"), *found, *signal_lines(page.signals))


def signal_lines(signals: Iterable[str]) -> Iterator[Line]:
    """What the owner says about the use of a page, or of the pages of a robots.txt."""
    return zip(repeat("ownerSignal"), signals)


def _present(lines: tuple[Line, ...]) -> list[Line]:
    """The lines that have a value."""
    return [line for line in lines if line[1]]


def _fetch(page: Page, exchange: Exchange) -> tuple[Line, ...]:
    """How the crawl found the page (no line for a seed), its times, and its connection.

    Deviation: hopsFromSeed has one L per link, then one E per hop from a page to a requisite, then
    one R per redirect in a row. Heritrix has them in the order in which they were followed.
    """
    times = (
        ("via", page.via),
        ("hopsFromSeed", "L" * page.depth + "E" * page.embeds + "R" * page.redirects),
        ("fetchTimeMs", f"{exchange.total_s * 1000:.0f}"),
        ("dnsTimeMs", f"{exchange.dns_s * 1000:.0f}"),
        ("connectTimeMs", f"{exchange.connect_s * 1000:.0f}"),
        ("firstByteTimeMs", f"{exchange.first_byte_s * 1000:.0f}"),
    )
    tls = exchange.tls
    if tls is None:
        return times
    return (
        *times,
        ("tlsVersion", tls.version),
        ("tlsCipherSuite", tls.cipher),
        ("tlsCertificateSha256", tls.fingerprint),
        ("tlsProblem", tls.problem),
    )


def _content(page: Page, exchange: Exchange) -> tuple[Line, ...]:
    return (
        ("wall", page.wall),
        ("reconstructed", "true" if exchange.reconstructed else ""),
        ("viaProxy", "true" if exchange.via_proxy else ""),
        ("requestHeadersOmitted", ", ".join(exchange.headers_omitted)),
        ("cached", "true" if exchange.cached else ""),
        ("bodyReplaced", "true" if exchange.body_replaced else ""),
        ("charsetForLinkExtraction", page.charset),
        ("detectedLanguage", page.detected_language),
        ("decodeProblem", exchange.decode_problem),
        ("unchanged", "true" if page.unchanged else ""),
        ("duplicateOf", page.duplicate_of),
        ("nearDuplicateOf", page.near_duplicate_of),
        ("outlink", page.redirect_to),
    )
