"""Which files a page or a style sheet shows. Cases cite the sections of the standards."""

from __future__ import annotations

from tests.cases import each_of
from webcrawl.parse.charset import decode_css
from webcrawl.parse.page import read_page
from webcrawl.parse.requisites import REQUISITES_MAX, shown_by_html, urls_of_css, urls_of_srcset
from webcrawl.parse.urls import MAX_LENGTH

HTML_CASES = {
    "4.8.3 img": ('<img src=a><IMG SRC="b c">', "a", "b c"),
    "4.8.4.2.1 source": ("<picture><source srcset='a 1x, b 2x'></picture>", "a", "b"),
    "4.12.1 script": ("<script src=a>'<img src=no>'</script><script>no</script>", "a"),
    "4.2.4 a style sheet": ("<link rel='alternate STYLESHEET' href=a>", "a"),
    "4.6.7 icons": ("<link rel='shortcut icon' href=a><link rel=mask-icon href=b>", "a", "b"),
    "4.6.7 preload": ("<link rel=preload href=a imagesrcset='b 1x'>", "a", "b"),
    "4.6.7 other links": ("<link rel=next href=no><link rel=prefetch href=no><link href=no>",),
    "4.8.8 video": ("<video src=a poster=b></video>", "a", "b"),
    "4.8.9 audio": ("<audio src=a><track src=b></audio>", "a", "b"),
    "4.8.6 embed": ("<embed src=a><object data=b></object>", "a", "b"),
    "4.10.5.1.19 an image button": ("<input type=IMAGE src=a><input src=no>", "a"),
    "4.2.6 style": ("<style>a { background: url(a) } </style>", "a"),
    "3.2.6 a style attribute": ("<b style='background: url(&quot;a&quot;)'>", "a"),
    "15.3.3 background": ("<body background=a><td background='b'>", "a", "b"),
    "SVG 2, 9.1 and 5.6": ("<svg><image href=a /><use xlink:href='b#c'/></svg>", "a", "b#c"),
    "SVG 2, 5.6, the page itself": ("<svg><use href='#a'/></svg>",),
    "4.12.2 noscript": ("<noscript><img src=a></noscript>", "a"),
    "4.12.3 template": ("<template><img src=no></template>",),
    "13.1.6 a comment": ("<!-- <img src=no> --><img src=a>", "a"),
    "13.2.5.8 a tag in a name": ("<a<img src=no>",),
    "13.2.5.38 without blanks": ("<img src='a'srcset='b'>", "a", "b"),
    "4.8.5 frames are pages": ("<iframe src=no></iframe><frame src=no>",),
    "13.5 references": ("<img src='a?b&amp;c'>", "a?b&c"),
    "each once": ("<img src=a><img src=a>", "a"),
    "data:": ("<img src='data:,x'><img src=''>",),
}


@each_of("case", HTML_CASES)
def test_html(case: str) -> None:
    page, *shown = HTML_CASES[case]
    assert shown_by_html(page.encode(), "utf-8") == shown
    assert shown_by_html(page.encode("utf-16le"), "utf-16le") == shown


# HTML, 4.8.4.3.10, parsing a srcset attribute.
SRCSETS = {
    "": [],
    " a": ["a"],
    "a 1x, b 2x": ["a", "b"],
    "a, b": ["a", "b"],
    "a,b 1x": ["a,b"],
    "a 1x,b 2x": ["a", "b"],
    ",,a,,b": ["a,,b"],
    "a 100w,\n\tb (x, y) 1x, c": ["a", "b", "c"],
    "data:,x 1x, a": ["data:,x", "a"],
    "a (x": ["a"],
}


@each_of("text", SRCSETS)
def test_srcset(text: str) -> None:
    assert list(urls_of_srcset(text)) == SRCSETS[text]


CSS_CASES = {
    "4.3.4 quoted": ("""url("a") url( 'b' )""", "a", "b"),
    "4.3.6 unquoted": ("url(a) url( b/c.png?d=e&f )", "a", "b/c.png?d=e&f"),
    "4.3.6 at the end": ("url(a", "a"),
    "4.3.6 a bad url": ("url(a b) url(a'b) url(c)", "c"),
    "4.3.6 a bad url has escapes": (r"url(a b\)no) url(c)", "c"),
    "4.3.4 in any case": ("URL(a) Url(b)", "a", "b"),
    "4.3.7 an escaped name": (r"u\72l(a) \75 rl(b) \url(c)", "a", "b", "c"),
    "4.3.7 escapes in a url": (r"url(a\)b) url(\61\62 c) url('\'d')", "a)b", "abc", "'d"),
    "4.3.7 no character": (r"url(\0) url(\d800 a) url(\110000)", "\ufffd", "\ufffda", "\ufffd"),
    "4.3.5 an escaped line break": ("url('a\\\nb')", "ab"),
    "4.3.5 a line break ends a string": ("content: 'url(no)\n; x: url(a)", "a"),
    "4.3.2 comments": ("/* url(no) */ url(a) /* url(no)", "a"),
    "4.3.5 strings": ("content: 'url(no)'; x: url(a)", "a"),
    "4.3.4 another function": ("my-url(no) _url(no) xurl(no) url (no) url(a)", "a"),
    "Cascade 5, 2": ("@import 'a'; @IMPORT \"b\" screen; @import/**/url(c);", "a", "b", "c"),
    "Cascade 5, escaped": (r"@\69mport 'a'", "a"),
    "Namespaces 3, 2": ("@namespace url(no); @namespace x 'no;no'; y: url(a)", "a"),
    "Images 4, 2.4": (
        "image-set('a' 1x, url(b) type('no') 2x) -webkit-image-set(\"c\" 1x) 'no'",
        *("a", "b", "c"),
    ),
    "Values 4, 4.5 empty": ("url() url('')",),
}


@each_of("case", CSS_CASES)
def test_css(case: str) -> None:
    css, *urls = CSS_CASES[case]
    assert list(urls_of_css(css)) == urls


@each_of(
    ("head", "content_type", "charset"),
    [
        (b"\xef\xbb\xbf", "text/css; charset=latin1", "utf-8"),
        (b'@charset "latin1";', "text/css; charset=utf-8", "utf-8"),
        (b'@charset "iso-8859-2";', "text/css", "iso-8859-2"),
        (b'@charset "utf-16le";', "text/css", "utf-8"),
        (b"@charset 'latin1';", "text/css", "utf-8"),
        (b"", "text/css", "utf-8"),
    ],
)
def test_the_charset_of_a_style_sheet_is_that_of_syntax_3_2(
    head: bytes, content_type: str, charset: str
) -> None:
    assert decode_css(head + "url(\u0159)".encode(charset), content_type).endswith("url(\u0159)")


def test_references_are_resolved_by_base_and_a_page_does_not_show_itself() -> None:
    html = b"<base href=/b/><img src=a#x><img src=/p><img src='mailto:x'><a href=no>x</a>"
    url = "http://h.test/p"
    page = read_page(html, "text/html", url, finds_requisites=True)
    assert page.requisites == ["http://h.test/b/a"]
    assert page.links == ["http://h.test/b/no"]
    nofollow = read_page(html, "text/html", url, x_robots_tag="nofollow", finds_requisites=True)
    assert (nofollow.links, nofollow.requisites) == ([], page.requisites)
    css = read_page(b"a{b:url(c)}", "text/css", "http://h.test/d/e.css", finds_requisites=True)
    assert css.requisites == ["http://h.test/d/c"]
    assert read_page(html, "text/html", url).requisites == []


def test_a_page_has_a_bounded_number_of_requisites() -> None:
    html = b"".join(b"<img src=%d>" % n for n in range(2 * REQUISITES_MAX))
    assert len(shown_by_html(html, "utf-8")) == REQUISITES_MAX
    css = "".join(f"url({n})" for n in range(2 * REQUISITES_MAX)).encode()
    page = read_page(css, "text/css", "http://h.test/", finds_requisites=True)
    assert len(page.requisites) == REQUISITES_MAX
    assert shown_by_html(b"<img src=%b>" % (b"x" * (MAX_LENGTH + 1)), "utf-8") == []
