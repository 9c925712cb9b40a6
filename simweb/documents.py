"""Whole documents: a 200 with HTML that a crawler must read, in many forms.

Each function makes a Reply of a Page; `pagekinds` names and weighs them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from isal import igzip

from simweb.pages import Page
from simweb.reply import Reply, answer, head

HTML_TYPE = "text/html; charset=utf-8"
HTML = f"Content-Type: {HTML_TYPE}"
META_NOFOLLOW = '<meta name="ROBOTS" content="noindex, NoFollow">'


gzipped = partial(igzip.compress, compresslevel=2, mtime=0)


def document(
    page: Page,
    hrefs: Sequence[str],
    *fields: str,
    content_type: str = HTML_TYPE,
    beside: int = 0,
    **parts: Any,
) -> Reply:
    """A 200 with these links, and `beside` links in other `parts` of `Page.html`."""
    body = page.html(hrefs, **parts)
    return answer(200, body, *fields, content_type=content_type, links=len(hrefs) + beside)


def plain(page: Page) -> Reply:
    return document(page, page.hrefs())


def typed(content_type: str) -> Callable[[Page], Reply]:
    return lambda page: document(page, page.hrefs(), content_type=content_type)


def latin(content_type: str, meta: str) -> Callable[[Page], Reply]:
    how: Any = {"content_type": content_type, "charset": "windows-1252", "meta": meta}
    return lambda page: document(page, page.hrefs(), **how)


def coded(coding: str, compress: Callable[[bytes], bytes]) -> Callable[[Page], Reply]:
    def build(page: Page) -> Reply:
        whole = plain(page)
        body = compress(b"".join(part for part in whole.body if isinstance(part, bytes)))
        return answer(200, body, f"Content-Encoding: {coding}", links=whole.links)

    return build


def raw_deflate(data: bytes) -> bytes:
    squeeze = zlib.compressobj(1, zlib.DEFLATED, -15)
    return squeeze.compress(data) + squeeze.flush()


def chunks(data: bytes, size: int, extension: bytes = b"") -> Iterator[bytes]:
    for start in range(0, len(data), size):
        piece = data[start : start + size]
        yield b"%X%b\r\n%b\r\n" % (len(piece), extension, piece)


def in_chunks(body: Iterable[bytes], *fields: str, **more: Any) -> Reply:
    """A 200 with HTML that is chunked already."""
    return Reply(200, head(200, HTML, *fields, "Transfer-Encoding: chunked"), body, **more)


def chunked(page: Page) -> Reply:
    hrefs = page.hrefs()
    body = b"".join([*chunks(page.html(hrefs), 4096), b"0\r\n\r\n"])
    return in_chunks((body,), links=len(hrefs))


def chunked_odd(page: Page) -> Reply:
    hrefs = page.hrefs()
    pieces = [
        *chunks(page.html(hrefs), 1000, b';note="a b"'),
        b"000\r\nX-Sum: 1\r\nX-End: 2\r\n\r\n",
    ]
    start = head(200, HTML, "Transfer-Encoding: Chunked", "Trailer: X-Sum")
    return Reply(200, start, pieces, links=len(hrefs))


def chunked_gzip(page: Page) -> Reply:
    hrefs = page.hrefs()
    pieces = [*chunks(gzipped(page.html(hrefs)), 700), b"0\r\n\r\n"]
    return in_chunks(pieces, "Content-Encoding: gzip", links=len(hrefs))


def until_close(page: Page) -> Reply:
    hrefs = page.hrefs()
    start = head(200, HTML).replace(b"HTTP/1.1", b"HTTP/1.0", 1)
    return Reply(200, start, (page.html(hrefs),), end="close", links=len(hrefs))


def odd_head(page: Page) -> Reply:
    whole = plain(page)
    start = whole.head.replace(b"Content-Type: ", b"content-TYPE:").replace(b" OK", b" ")
    return replace(whole, head=start + b"X-Empty:\r\nX-Twice: 1\r\nX-Twice:  2 \t\r\n")


def interim(page: Page) -> Reply:
    whole = plain(page)
    return replace(whole, head=b"HTTP/1.1 103 Early Hints\r\nLink: </s.css>\r\n\r\n" + whole.head)


def pieces(page: Page) -> Reply:
    """Sent in pieces that split lines and tags."""
    whole = plain(page)
    body = b"".join(part for part in whole.body if isinstance(part, bytes))
    third = len(body) // 3
    return replace(whole, body=(0.01, body[:third], 0.01, body[third:-third], 0.01, body[-third:]))


def slow(page: Page) -> Reply:
    return replace(plain(page), delay_s=0.5 + page.number % 16 / 10)


def large(page: Page) -> Reply:
    return plain(replace(page, size_bytes=1 << 20))


# Links in other elements than `a`.


def base(page: Page) -> Reply:
    """Links relative to a base that is not the page."""
    hrefs = [
        href[1:] if href[:1] == "/" and href[1:2] not in ("/", "\\") else href
        for href in page.hrefs()
    ]
    meta = '<meta charset="utf-8"><base href="/"><base href="/nunca/">'
    return document(page, hrefs, meta=meta)


def elements(page: Page) -> Reply:
    hrefs = page.hrefs()
    third = len(hrefs) // 3
    areas = [f'<area href="{href}">' for href in hrefs[:third]]
    frames = [f"<iframe src='{href}'></iframe>" for href in hrefs[third : 2 * third]]
    more = f'<map name="m">{"".join(areas)}</map>{"".join(frames)}'
    return document(page, hrefs[2 * third :], more=more, beside=2 * third)


def frameset(page: Page) -> Reply:
    hrefs = page.hrefs()
    frames = "".join(f'<frame src="{href}">\n' for href in hrefs)
    body = f"<html><head><title>{page.title}</title></head>\n<frameset>\n{frames}</frameset></html>"
    return answer(200, body.encode(), links=len(hrefs))


def head_links(page: Page) -> Reply:
    first, second, third, *rest = page.hrefs()
    meta = (
        f'<meta charset="utf-8"><meta http-equiv="Refresh" content="900; URL={first}">'
        f'<link rel="next" href="{second}"><LINK REL=prev HREF="{third}">'
    )
    return document(page, rest, meta=meta, beside=3)


def noise(page: Page) -> Reply:
    """Things that look like links but are not. A request for one is the violation `invented`."""
    ghost = '<a href="/fantasma/%d">x</a>'
    more = (
        f"<!-- {ghost % 1} --><script>var s = '{ghost % 2}';</script>"
        f"<style>/* {ghost % 3} */</style><textarea>{ghost % 4}</textarea>"
        '<a href="mailto:a@b.br">m</a><a href="javascript:void(0)">j</a><a href="tel:+5531">t</a>'
        '<a href="data:text/html,x">d</a><a name="so-nome">n</a><a href="#">c</a>'
        '<img src="/fantasma/5.png"><p data-href="/fantasma/6">'
    )
    return document(page, page.hrefs(), more=more)


def nofollow(*fields: str, meta: str = "") -> Callable[[Page], Reply]:
    def build(page: Page) -> Reply:
        hrefs = [page.onward] if page.step == 0 else page.hrefs()
        return document(page, hrefs, *fields, meta='<meta charset="utf-8">' + meta)

    return build


def rel_nofollow(page: Page) -> Reply:
    more = f'<a rel="external nofollow" href="{page.onward}">x</a>' if page.step == 0 else ""
    return document(page, page.hrefs(), more=more, beside=int(page.step == 0))


def calendar(page: Page) -> Reply:
    return document(page, [page.onward])


def months(page: Page) -> Reply:
    return document(page, [page.onward, page.back] if page.back else [page.onward])


def deeper(page: Page) -> Reply:
    """One link, relative if possible: a site whose links lack a slash."""
    near = page.step and not page.whole
    href = "/".join(page.onward.rsplit("/", 2)[1:]) if near else page.onward
    return document(page, [href])
