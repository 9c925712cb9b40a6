"""parse.links and parse.page: the links of a page, and its directives for robots."""

from __future__ import annotations

from tests.cases import each_of
from webcrawl.parse.links import TITLE_MAX, read_html
from webcrawl.parse.page import (
    ParsedPage,
    read_page,
)

URL = "http://h/dir/page"


def links(page: str, **options: object) -> list[str]:
    """Links of an HTML page at URL, without "http://h/dir/"."""
    read = read_page(page.encode(), "text/html; charset=utf-8", URL, **options)  # type: ignore[arg-type]
    return [link.removeprefix("http://h/dir/") for link in read.links]


@each_of(
    "page",
    [
        "<a href=x>",
        "<A HREF='x'>",
        '<a title="a > b" href="x">',
        "<a\nhref\n=\nx\n>",
        "<a/href=x/>".replace("/>", ">"),
        "<a title='href=y' href=x>",
        "<a xhref=y href=x href=z>",
        '<a class="c"href="x">',
        '<a class="c" href="x" id="i">',
        '<a class="href=" href="x" href="y">',
        '<a hreflang="y" data-href="y" href="x">',
        '<a class="c"\n\thref="x">',
        '<a class="c" ="y" href="x">',
        '<a class="<a href=y>" href="x">',
        '<div class="<a href=y>" id="i"><a href="x">',
        '<p "="><a href="y">"><a href="x">',
        '<a href=" x\n#top">',
        "<area href=x>",
        "<frameset><frame src=x></frameset>",
        "<iframe src=x>",
        "<embed src=x>",
        "<EMBED type='text/html' SRC='x'>",
        "<object type=text/html data=x></object>",
        "<object data='x'><embed src=x></object>",
        "<link rel=canonical href=x>",
        "<link href=x rel='foo NEXT'>",
        "<link rel=prev href=x>",
        "<meta http-equiv=refresh content='0; url=x'>",
        "<base target=_top><a href=x>",
        "<svg><a href=x></a></svg>",
        "<div title='<a href=y>'><a href=x>",
        "<div title=<a><a href=x>",
        '<p x="a=>\'"><a href=x>',
        "a < b <3 <> </> </ y> <? y> <! y> <a href=x>",
        "<!-- --><a href=x>",
        "<!--><a href=x>-->",
        "<!---><a href=x>-->",
        "<!-- <a href=y> --!><a href=x>",
        "<noscript><a href=x></noscript>",
        "<script></script><a href=x>",
        "<SCRIPT>a</script ><a href=x>",
        "<script><!-- </script><a href=x>",
        "<script><!-- <script> </script> <a href=y> --></script><a href=x>",
        "<script><!--><script></script><a href=x>",
        "<script>'</scripty>'</script><a href=x>",
        "<svg><title/></svg><a href=x>",
        "<svg><title><a href=x></title></svg>",
        "<svg><title>t</title></svg><title><a href=y></title><a href=x>",
        "<svg><template><a href=x></svg>",
        "<svg/><title><a href=y></title><a href=x>",
        "<template><template></template><a href=y></template><a href=x>",
        "<template shadowrootmode=open><a href=x></template>",
        "<a href=x><plaintext><a href=y>",
    ],
)
def test_one_link(page: str) -> None:
    assert links(page) == ["x"]


@each_of(
    "page",
    [
        "",
        "<a>",
        "<a href>",
        "<a name=x href href=y>",
        "<a href=x",
        "<a href='x>",
        "<abbr href=x>",
        "<embed data=x><object src=x></object><objects data=x><emb src=x>",
        "<img src=x><form action=x><script src=x></script><link rel=stylesheet href=x>",
        "<!-- <a href=x> -->",
        "<!-- <a href=x>",
        "<!doctype <a href=x>",
        "<script>document.write('<a href=x>')</script>",
        "<script><a href=x>",
        "<style><a href=x></style>",
        "<title><a href=x></title>",
        "<textarea><a href=x></textarea>",
        "<xmp><a href=x></xmp>",
        "<iframe><a href=x></iframe>",
        "<noframes><a href=x></noframes>",
        "<template><a href=x></template>",
        "<div title='<a href=x>'>",
        "<div title=\"<a href='x'>",
        '<div class="c" title="<a href=\'x\'>',
        '<a class="c" href="x',
        '<template class="c"><a href="x"></template>',
        "<a href=mailto:x@h><a href=tel:1><a href=javascript:x><a href=data:,x>",
        "<iframe src=about:blank>",
    ],
)
def test_no_link(page: str) -> None:
    assert links(page) == []


@each_of(
    ("content", "target"),
    [  # WHATWG HTML, 4.2.5.3, shared declarative refresh steps
        ("0;url=x", "x"),
        ("0; URL='x'", "x"),
        (' 5.5 , url = "x"y', "x"),
        ("0 x", "x"),
        (".;x", "x"),
        ("0;'x", "x"),
        ("0;urgent", "urgent"),
        ("0;url", "url"),
        ("0;url=x y", "x%20y"),
        ("0", None),
        ("0;", None),
        ("0;url=", None),
        ("", None),
        ("x", None),
        ("0x", None),
        ("url=x", None),
        ("-1;url=x", None),
    ],
)
def test_refresh(content: str, target: str | None) -> None:
    escaped = content.replace('"', "&quot;")
    page = f'<meta http-equiv="Refresh" content="{escaped}">'
    assert links(page) == ([target] if target else [])


@each_of(
    ("page", "found"),
    [
        # The first base with an address counts for all.
        (
            "<a href=x><base><base href=/other/><base href=/third/><a href=y>",
            ["http://h/other/x", "http://h/other/y"],
        ),
        *(
            (f"<base href='{useless}'><a href=x>", ["x"])
            for useless in ("data:text/html,", "javascript:x", "http://", "//:0:0/")
        ),
        ("<a href='?a&amp;b&copy=1&#x26;&notit;&#0;'>", ["page?a&b&copy=1&&notit;%EF%BF%BD"]),
        # It is a hint for ranking (HTML 4.6.7.13), and no reason not to follow.
        ("<a href=x rel='noopener NoFollow'><a href=y>", ["x", "y"]),
    ],
)
def test_bases_references_and_rel_nofollow(page: str, found: list[str]) -> None:
    assert links(page) == found


def test_links_are_counted_before_repeats_are_dropped() -> None:
    page = b"<a href=x><a href=mailto:x><a href=./x#a><a href=x><a href=y>"
    read = read_page(page, "text/html", URL)
    assert read.links == ["http://h/dir/x", "http://h/dir/y"]
    assert read.found == 4


@each_of(
    ("content_type", "payload", "link"),
    [
        ("text/html; charset=koi8-r", b"<a href='\xc1?\xc1'>", "/%D0%B0?%C1"),
        ("text/html; charset=shift_jis", b"<a href='\x95\x5c'>", "/%E8%A1%A8"),
        ("text/html", "\ufeff<a href='é?é'>".encode("utf-16"), "/%C3%A9?%C3%A9"),
        ("text/html; charset=iso-2022-jp", b"<a href='\x1b$B$<\x1b(B'>", "/%E3%81%9C"),
        ("text/html; charset=utf-8", b"<a href='\xff'>", "/%EF%BF%BD"),
    ],
)
def test_character_sets(content_type: str, payload: bytes, link: str) -> None:
    assert read_page(payload, content_type, "http://h/").links == ["http://h" + link]


@each_of(
    ("meta", "followed"),
    [
        ("<meta name=robots content=nofollow>", False),
        ("<META NAME=ROBOTS CONTENT='Index, NoFollow'>", False),
        ("<meta name=robots content=none>", False),
        ("<meta name=ourbot content=nofollow>", False),
        ("<meta name=otherbot content=nofollow>", True),
        ("<meta name=robots content=noindex,follow>", True),
        ("<meta name=description content=nofollow>", True),
        ("<!-- <meta name=robots content=nofollow> -->", True),
        ("<meta name='' content=nofollow>", True),
    ],
)
def test_meta_robots(meta: str, followed: bool) -> None:
    page = f"<a href=x>{meta}".encode()
    read = read_page(page, "text/html", URL, user_agent_token="OurBot")
    assert (bool(read.links), bool(read.found), read.nofollow) == (followed, followed, not followed)
    read = read_page(page, "text/html", URL, user_agent_token="OurBot", obey_nofollow=False)
    assert (len(read.links), read.nofollow) == (1, not followed)


@each_of(
    ("header", "followed"),
    [
        ("nofollow", False),
        ("noindex, NOFOLLOW", False),
        ("none", False),
        ("ourbot: noindex, nofollow", False),
        ("otherbot: noindex, nofollow", True),
        ("otherbot: noindex\nnofollow", False),
        ("otherbot: nofollow, ourbot: noindex", True),
        ("otherbot: noindex, ourbot: nofollow", False),
        ("unavailable_after: 25 Jun 2010 15:00:00 PST, nofollow", False),
        ("unavailable_after: Friday, 25-Jun-10 15:00:00 GMT, nofollow", False),
        ("max-snippet: 10, noindex", True),
        ("", True),
    ],
)
def test_x_robots_tag(header: str, followed: bool) -> None:
    read = read_page(
        b"<a href=x>", "text/html", URL, x_robots_tag=header, user_agent_token="OurBot"
    )
    assert (bool(read.links), read.nofollow) == (followed, not followed)


@each_of(
    ("header", "link"),
    [
        ("0; url=x", "http://h/dir/x"),
        ("5;URL='/x'", "http://h/x"),
        ("0, http://i/", "http://i/"),
        ("1; url=/caf\xe9", "http://h/caf%E9"),
        ("0; url=y", "http://h/dir/y"),  # also in the page
        ("5", None),
        ("5;", None),
        ("soon; url=/x", None),
        ("0; url=javascript:x", None),
    ],
)
def test_the_header_refresh_means_what_a_meta_refresh_does(header: str, link: str | None) -> None:
    for payload, content_type in ((b"<a href=y>", "text/html"), (b"", ""), (b"x", "text/plain")):
        read = read_page(payload, content_type, URL, refresh=header)
        want = ["http://h/dir/y"] if payload == b"<a href=y>" else []
        assert read.links == list(dict.fromkeys(want + ([link] if link else [])))
        assert read.found == len(want) + bool(link)
    assert read_page(b"", "", URL, refresh=header, x_robots_tag="nofollow").links == []


def test_media_types() -> None:
    page = b"<a href=x>"
    assert read_page(page, "Text/HTML ;charset=utf-8", URL).charset == "utf-8"
    assert read_page(page, "text/plain", URL) == ParsedPage()
    assert read_page(page, "", URL) == ParsedPage()


def test_xhtml_has_self_closing_elements() -> None:
    page = b"<script src='s.js'/><title/><a href='x'/>"
    assert read_page(page, "application/xhtml+xml", URL).links == ["http://h/dir/x"]
    assert read_page(page, "text/html", URL).links == []


def test_a_long_number_is_no_character() -> None:
    assert read_html(b"<a href='&#" + b"9" * 100_000 + b";'>", "utf-8").hrefs == ["\ufffd"]


def test_the_links_of_a_small_page_are_bounded() -> None:
    """Each link contains the whole base."""
    base = b'<base href="/' + b"a" * 8000 + b'/">'
    page = base + b"".join(b"<a href=%d>" % number for number in range(999))
    length = sum(map(len, read_page(page, "text/html", URL).links))
    assert 1_000_000 < length < 1_200_000


@each_of(
    ("page", "title"),
    [
        ("<title>\n A  &amp; <b>B</b> </title><title>C</title>", "A & <b>B</b>"),
        ("<title></title><TITLE lang=pt>C", "C"),
        ("<svg><title>t</title></svg><title>C</title>", "C"),
        ("<!--<title>t</title>--><script><title>t</title></script><p>", ""),
        (f"<title>{'&#x20;é' * 9_000}</title>", " ".join(["é"] * 500)[:TITLE_MAX]),
    ],
)
def test_the_title_is_the_first_with_text(page: str, title: str) -> None:
    assert read_html(page.encode(), "utf-8").title == title
