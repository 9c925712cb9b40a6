"""The entries of sitemaps and feeds of every format, in pieces of any size; the links of PDF."""

from __future__ import annotations

import zlib

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.cases import each_of
from webcrawl.parse.links import read_html
from webcrawl.parse.page import read_page, read_xml
from webcrawl.parse.pdf import read_pdf
from webcrawl.parse.sitemaps import CARRY_MAX, SitemapReader, seconds_of

MAY = 1_714_521_600  # 2024-05-01
URLSET = b"""<?xml version="1.0" encoding="UTF-8"?><!-- <url><loc>http://no/</loc></url> -->
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url>
<loc> http://a/1?x=1&amp;y=2 </loc><lastmod>2024-05-01</lastmod>
<image:image><image:loc>http://no/i.png</image:loc></image:image></url>
<url><lastmod>2024-05-01T02:00:00+02:00</lastmod><loc><![CDATA[http://a/2?a=1&b=<]]></loc>
<xhtml:link rel="alternate" hreflang="de" href="http://a/de"/></url>
<url><note>a & b</note><loc>http://a/3&lol;&#x41;</loc></urlset>"""
RSS = b"""<rss><channel><link>http://no/</link><item><title><![CDATA[<link>http://no/</link>]]>
</title><link>http://a/1</link><pubDate>Wed, 01 May 2024 02:00:00 +0200</pubDate></item>
<item><guid isPermaLink="false">http://no/</guid></item><item><guid>http://a/2</guid></item>"""
ATOM = b"""<feed xmlns="http://www.w3.org/2005/Atom"><link href="http://no/"/><entry>
<link rel="self" href="http://no/"/><link href="/e1"/><updated>2024-05-01T00:00:00Z</updated>
</entry></feed>"""
INDEX = b"""<s:sitemapindex xmlns:s="x"><s:sitemap><s:loc>http://a/1.xml</s:loc></s:sitemap>
<sitemap><loc>http://no/</loc></sitemap></s:sitemapindex>"""
FILES = {
    "urlset": (
        URLSET,
        [("http://a/1?x=1&y=2", MAY), ("http://a/de", 0), ("http://a/2?a=1&b=<", MAY),
         ("http://a/3&lol;A", 0)],
    ),
    "rss": (RSS, [("http://a/1", MAY), ("http://a/2", 0)]),
    "atom": (ATOM, [("/e1", MAY)]),
    "index": (INDEX, [("http://a/1.xml", 0)]),
    "text": (
        b"\xef\xbb\xbfhttp://a/1\r\n\nno\nHTTPS://a/2",
        [("http://a/1", 0), ("HTTPS://a/2", 0)],
    ),
}  # fmt: skip


def read(data: bytes, size: int = 1 << 16) -> tuple[str, str, list[tuple[str, int]]]:
    reader = SitemapReader()
    found = [
        entry for at in range(0, len(data), size) for entry in reader.feed(data[at : at + size])
    ]
    found += reader.end()
    return reader.format, reader.problem, [tuple(entry) for entry in found]


@each_of("size", [1, 7, 1 << 16])
@each_of("name", FILES)
def test_each_format_in_pieces_of_any_size(name: str, size: int) -> None:
    data, entries = FILES[name]
    assert read(data, size) == (name, "", entries)


@each_of("size", [1, 7, 1 << 16])
def test_names_in_upper_case(size: int) -> None:
    xml = URLSET.upper().replace(b"HTTP://A", b"http://a")
    assert [url for url, _ in read(xml, size)[2]][:2] == ["http://a/1?X=1&AMP;Y=2", "http://a/DE"]
    assert read(b"<SitemapIndex><SITEMAP><Loc>http://a/</Loc>")[2] == [("http://a/", 0)]
    rss = b"<RSS><ITEM><LINK>http://a/</LINK><PUBDATE>2024-05-01</PUBDATE></ITEM>"
    assert read(rss)[2] == [("http://a/", MAY)]
    assert read(b"<FEED><ENTRY><LINK HREF='/x'/></ENTRY>")[2] == [("/x", 0)]
    assert read("<\N{LATIN SMALL LETTER LONG S}itemapindex>".encode())[0] == ""


@each_of("size", [1, 7, 1 << 16])
@each_of(
    ("feed", "entry", "link", "url"),
    [
        ("http://a/f/", "", "", "http://a/f/x"),
        ("http://a/f/", "e/", "", "http://a/f/e/x"),
        ("http://a/f/", "/e/", "l/", "http://a/e/l/x"),
        ("http://a/f/", "https://b/", "", "https://b/x"),
        ("", "", "http://c/", "http://c/x"),
        ("f/", "../e/", "", "e/x"),  # relative to the URL of the file
        ("http://[/", "", "", "x"),
        ("http://a/?q=1&amp;r=2", "?s=3", "", "http://a/x"),
        ("http://a/" + "f" * 2000, "", "", "x"),
    ],
)
def test_the_base_of_atom(feed: str, entry: str, link: str, url: str, size: int) -> None:
    """RFC 4287, 2: xml:base of any element."""
    bases = [f" xml:base='{base}'" if base else "" for base in (feed, entry, link)]
    each = "<entry{1}><link rel='self' href='/no'/><link{2} href='x'/></entry>"
    after = "<entry><link xml:BASE='http://i/' href='http://h/y'/></entry>"
    data = ("<feed{0} data-base='http://no/'>" + each + after).format(*bases)
    assert [found for found, _ in read(data.encode(), size)[2]] == [url, "http://h/y"]


def test_utf16_and_other_encodings() -> None:
    assert read("<urlset><url><loc>http://a/é</loc>".encode("utf-16"))[2] == [("http://a/é", 0)]
    latin = '<?xml version="1.0" encoding="ISO-8859-1"?><urlset><url><loc>http://a/é</loc>'
    assert read(latin.encode("latin-1"))[2] == [("http://a/é", 0)]


@each_of(
    ("data", "problem", "count"),
    [
        (b"<!doctype html><p>Oi", "not_a_sitemap", 0),
        (b"", "not_a_sitemap", 0),
        (bytes(range(256)) * 300, "not_a_sitemap", 0),
        (b"<urlset>" + b"<url><loc>http://a/</loc></url>" * 50_001, "too_many_entries", 50_000),
        (b'<!DOCTYPE x [<!ENTITY a "b">]><urlset><url><loc>http://a/', "entities", 0),
        (b"<urlset><url><loc>http://a/</loc>" + b"<" * 2_100_000, "too_many_tags", 1),
        (b"<urlset>" + b"<url>" * 9_000 + b"<loc>http://a/</loc>", "", 1),
        # A tag, a text and a comment that are longer than what is kept from piece to piece.
        (b"<urlset><a " + b"x" * 3 * CARRY_MAX + b"><url><loc>http://a/</loc>", "", 1),
        (b"<urlset><url><loc>http://a/</loc></url>" + b" " * 3 * CARRY_MAX, "", 1),
        (b"<urlset><!--" + b"-" * 3 * CARRY_MAX + b"--><url><loc>http://a/</loc>", "", 1),
    ],
)  # fmt: skip
def test_hostile_files(data: bytes, problem: str, count: int) -> None:
    _, found, entries = read(data)
    assert (found, len(entries)) == (problem, count)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(
    st.lists(st.sampled_from([*URLSET.split(b">"), RSS, b"<!--", b"]]>", b"\xff\0"]), max_size=9)
)
@example([b"<![CDATA[", b"<urlset>"])
def test_any_bytes_give_the_same_in_any_pieces(parts: list[bytes]) -> None:
    data = b"<urlset>" + b">".join(parts)
    assert read(data, 1) == read(data, 5) == read(data)


@each_of("size", [1, 1 << 16])
def test_a_url_that_the_end_of_the_file_cuts_is_no_entry(size: int) -> None:
    entry = b"<urlset><url><loc>http://a/1</loc></url><url><loc>http://a/2"
    assert read(entry, size)[2] == [("http://a/1", 0)]
    assert len(read(entry + b"3</loc>", size)[2]) == 2
    reader = SitemapReader()
    found = reader.feed(b"http://a/1\nhttp://a/2") + reader.end(is_cut=True)
    assert [entry.url for entry in found] == ["http://a/1"]


@each_of(
    ("date", "seconds"),
    [
        ("2024-05-01", MAY),
        (" 2024-05 ", MAY),
        ("2024-05-01T00:00:00.5Z", MAY),
        ("2024-05-01 02:00+0200", MAY),
        ("Wed, 01 May 2024 00:00:00 GMT", MAY),
        *((bad, 0) for bad in ("", "soon", "2024-13-01", "0000", "1 1 1 1 1 1", "9" * 99, "-1")),
        (f"Wed, 01 May 2024 {'9' * 20}:00:00 GMT", 0),  # beyond 64 bits
    ],
)
def test_dates(date: str, seconds: int) -> None:
    assert seconds_of(date) == seconds


def test_an_escape_sequence_without_an_end_is_no_error() -> None:
    reader = SitemapReader()
    begin = b'<?xml version="1.0" encoding="iso-2022-jp"?>'.ljust(256) + b"<urlset>"
    for byte in begin + b"\x1b" + b"$" * 16 + URLSET:
        reader.feed(bytes((byte,)))
    reader.end()
    assert reader.format == "urlset"


def test_feeds_and_languages_are_links_of_a_page() -> None:
    html = b"""<link rel=alternate hreflang=de href=/de><link rel="alternate stylesheet" href=/no>
    <link rel=alternate type="Application/RSS+xml; x" href=/feed><link rel=alternate href=/no>"""
    assert (read_html(html, "utf-8").hrefs, read_html(html, "utf-8").feeds) == (["/de"], ["/feed"])
    assert read_page(html, "text/html", "http://a/").links == ["http://a/de", "http://a/feed"]
    assert read_page(html, "text/html", "http://a/", follow_feeds=False).links == ["http://a/de"]


def test_xml_pages() -> None:
    assert read_xml(ATOM, "utf-8").hrefs == ["/e1"]
    assert read_xml(b'<html><a href="/1">', "utf-8").hrefs == ["/1"]
    for other in (b"<other/>", b"http://a/", URLSET, INDEX):
        assert read_xml(other, "utf-8").hrefs == []


def test_links_of_a_pdf() -> None:
    plain = rb"%PDF-1.4 1 0 obj <</A <</S /URI /URI (http://a/\(1\)\0512)>> >> endobj "
    stream = b"<</URI (https://a/(x))>> <</URI <687474703A2F2F612F32>>> <</URI (mailto:a@b)>>"
    packed = b"2 0 obj <</Type /ObjStm /Filter /FlateDecode>> stream\r\n" + zlib.compress(stream)
    both = ["http://a/(1))2", "https://a/(x)", "http://a/2"]
    assert read_pdf(plain + packed + b"\nendstream", "").hrefs == both
    assert read_pdf(plain + b"/Encrypt", "").hrefs == []
    bomb = b"/ObjStm /FlateDecode stream\n" + zlib.compress(b" " * (64 << 20))
    assert read_pdf(bomb, "").hrefs == []
