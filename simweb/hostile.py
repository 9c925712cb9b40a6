"""Answers that cost a reader much memory or time, by size, duration or nesting.

Each function makes a Reply of a Page; `pagekinds` names and weighs them. Some are sound: whole
documents whose links a crawler must find.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import cycle, islice, repeat

from simweb.documents import HTML, chunks, document, in_chunks, plain
from simweb.pages import Page
from simweb.reply import Reply, answer, head

MANY = 20_000  # links on a page


def many_links(page: Page) -> Reply:
    """Its links many times, each time with another fragment."""
    hrefs = page.hrefs()
    bare = [href.strip().partition("#")[0] for href in hrefs]
    more = [f"{href}#{number}" for number, href in enumerate(islice(cycle(bare), MANY))]
    return document(page, hrefs + more)


def fan(page: Page) -> Reply:
    """Links to its first 20,000 steps: a wide trap."""
    start = page.onward.rpartition("=")[0]
    return document(page, [f"{start}={number}" for number in range(1, MANY + 1)])


def around(before: str, after: str) -> Callable[[Page], Reply]:
    """Puts `before` and `after` around the last link."""

    def build(page: Page) -> Reply:
        *hrefs, last = page.hrefs()
        more = f'{before}<a href="{last}">x</a>{after}'
        return document(page, hrefs, more=more, beside=1)

    return build


NESTED = ("<div>" * 100_000 + "<b><i>" * 50_000, "</div>" * 100_000)
ATTRIBUTES = (f"<p {' '.join(f'a{number}=x' for number in range(100_000))}>", "</p>")
_BROKEN = (
    f"{'<' * 100_000}{'<!--' * 50_000}-->{'<!-' * 50_000}>{'</' * 50_000}>{'&' * 100_000}"
    f'<p title="{"&amp;" * 100_000}" {"=" * 100_000}>{"<p <p " * 30_000}>'
    f"<script>{'<!--<script ' * 20_000}</script>--></script>"
)
_TOO_LONG = (
    f"<a href=\"/{'%41' * 300_000}\">long</a><p title='{'x' * 500_000}'>{'<![CDATA[' * 30_000}>"
)
TANGLED = (_BROKEN, _TOO_LONG)


def head_drip(page: Page) -> Reply:
    """A header field every 0.2 s, without end."""
    lines = (part for _ in repeat(None) for part in (b"X-More: and more\r\n", 0.2))
    return Reply(0, b"HTTP/1.1 200 OK\r\n", lines, end="close", again=True)


def interims(page: Page) -> Reply:
    """100 Continue, without end."""
    return Reply(0, body=repeat(b"HTTP/1.1 100 Continue\r\n\r\n" * 100), end="close", again=True)


def many_fields(page: Page) -> Reply:
    """3,000 short header lines, 40 KiB; some are not valid fields."""
    whole = plain(page)
    odd = b"X-A: 1\r\nno colon here\r\n: no name\r\n folded\r\n\tmore\r\n"
    return replace(whole, head=whole.head + odd * 600)


def tiny_chunks(page: Page) -> Reply:
    """One byte per chunk."""
    hrefs = page.hrefs()
    body = b"".join([*chunks(page.html(hrefs), 1, b";x"), b"0\r\n\r\n"])
    return in_chunks((body,), links=len(hrefs))


def huge_chunk(page: Page) -> Reply:
    """Announces a chunk of 16 EiB."""
    body = b"FFFFFFFFFFFFFFFF\r\n" + page.html([])
    return in_chunks((body,), end="close", again=True)


def endless_chunks(page: Page) -> Reply:
    """100 MiB in chunks."""
    block = b"10000\r\n" + b"sem fim " * 8192 + b"\r\n"
    first = b"".join(chunks(page.html([]), 4096))
    return in_chunks((part for part in (first, *repeat(block, 1600))), end="close")


def hold(page: Page) -> Reply:
    """Sends 9 MiB, which the reader must keep while it waits for the rest."""
    start = head(200, HTML, "Content-Length: 9999999")
    return Reply(200, start, (page.html([]), b"sem fim " * (9 << 17)), end="hang", again=True)


def two_lengths(page: Page) -> Reply:
    body = page.html([])
    start = head(200, HTML, f"Content-Length: {len(body)}", "Content-Length: 7")
    return Reply(200, start, (body,), end="close", again=True)


def long_location(page: Page) -> Reply:
    """A Location of 50 kB: too long for a URL."""
    return answer(301, b"?", f"Location: /{'lugar/' * 8000}")


def many_codings(page: Page) -> Reply:
    return answer(200, page.html([]), f"Content-Encoding: {', '.join(['gzip'] * 500)}")


def nonsense_later(page: Page) -> Reply:
    """A Retry-After without a usable value."""
    when = ("soon", "-5", "Thu, 32 Foo 2999 99:99:99 GMT", "1e9", "")[page.number % 5]
    return answer(503, b"later", f"Retry-After: {when}")
