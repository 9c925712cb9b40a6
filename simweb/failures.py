"""Answers that are not whole documents: redirects, errors, broken transport, files.

Each function makes a Reply of a Page; `pagekinds` names and weighs them.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import repeat

from simweb.documents import HTML, chunks, in_chunks, plain
from simweb.pages import Page
from simweb.reply import Reply, answer, head

# Redirects.


def redirect(*statuses: int, spell: Callable[[str], str] = str) -> Callable[[Page], Reply]:
    """Redirects each step to the next. The last step is a document."""

    def build(page: Page) -> Reply:
        if not page.onward:
            return plain(page)
        status = statuses[page.step % len(statuses)]
        url = page.onward.replace("&amp;", "&")
        location = url if page.whole else spell(url)
        return answer(status, b"<h1>Moved</h1>", f"Location: {location}")

    return build


def query_only(url: str) -> str:
    return "?" + url.partition("?")[2]


def nowhere(page: Page) -> Reply:
    places = (
        "",
        "Location:",
        "Location: mailto:a@b.br",
        "Location: http://",
        "Location: http://[/",
    )
    place = places[page.number % len(places)]
    return answer(302, b"?", *([place] if place else []))


# Errors.


def status(status: int, *fields: str) -> Callable[[Page], Reply]:
    def build(page: Page) -> Reply:
        body = b"" if status in (204, 304) else b'<h1>%d</h1><a href="/">home</a>' % status
        return answer(status, body, *fields)

    return build


def unknown_status(page: Page) -> Reply:
    reply = answer(403, b"<h1>Request denied</h1>")
    return replace(reply, status=999, head=reply.head.replace(b"403 Forbidden", b"999 Denied", 1))


def flaky(page: Page) -> Reply:
    if page.attempt == 1:
        return answer(503, b"later", "Retry-After: 1")
    return plain(page)


# Broken transport and broken HTTP: a retry is no violation.


def broken(start: bytes, end: str) -> Callable[[Page], Reply]:
    return lambda page: Reply(0, start, end=end, again=True)


def reset_inside(page: Page) -> Reply:
    whole = plain(page)
    body = page.html([])
    return replace(whole, body=(body[: len(body) // 2], 0.01), end="reset", again=True, links=0)


def drip(page: Page) -> Reply:
    drops = (drop for _ in repeat(None) for drop in (b"x", 0.2))
    return Reply(200, head(200, HTML), drops, end="close", again=True)


def wrong_length(difference: int) -> Callable[[Page], Reply]:
    def build(page: Page) -> Reply:
        body = page.html([])
        start = head(200, HTML, f"Content-Length: {len(body) + difference}")
        return Reply(200, start, (body,), end="close", again=difference > 0)

    return build


def bad_chunks(page: Page) -> Reply:
    body = b"".join([*chunks(page.html([]), 512), b"zz\r\nnot a size\r\n"])
    return in_chunks((body,), end="close", again=True)


def bad_gzip(page: Page) -> Reply:
    return answer(200, b"\x1f\x8b\x08" + page.html([])[:500], "Content-Encoding: gzip")


def endless(page: Page) -> Reply:
    start = head(200, HTML, "Connection: close")
    first = page.html([]).replace(b"</body>\n</html>\n", b"")
    block = b"<p>" + b"sem fim " * 8000
    return Reply(200, start, (part for part in (first, *repeat(block, 1600))), end="close")


def bomb(page: Page) -> Reply:
    """1 GiB in about 1 MiB."""
    title = f"<title>{page.title}</title>".encode()
    body = gzip.compress(title, 1, mtime=0) + _zeros() * 64
    return answer(200, body, "Content-Encoding: gzip")


@cache
def _zeros() -> bytes:
    return gzip.compress(bytes(16 << 20), 9, mtime=0)


def large_head(page: Page) -> Reply:
    fields = [f"X-{number}: {'y' * 1000}" for number in range(1000)]
    return answer(200, page.html([]), *fields)


def empty(page: Page) -> Reply:
    return answer(200)


def file(content_type: str, magic: bytes) -> Callable[[Page], Reply]:
    def build(page: Page) -> Reply:
        return answer(200, magic + page.html([]), content_type=content_type)

    return build
