"""What a page's visit says of its last one: values go in, values come out.

With RECRAWL a page of the frontier is visited again. `BroadSpider` compares it with its last visit
(`frontier.lease.Visit`), and the outcome of its lease has what the next visit needs (`Visited`).
"""

from __future__ import annotations

from msgspec.structs import replace

from webcrawl.fetch.conditions import Validators
from webcrawl.fetch.exchange import Exchange
from webcrawl.frontier.lease import Capture, Visit, Visited
from webcrawl.items import Page
from webcrawl.parse.maintext import is_same
from webcrawl.warc.records import Original, target_uri

_WHOLE = ("", "length")  # a page beyond DOWNLOAD_MAXSIZE is cut at the same place each time


def compare_not_modified(page: Page, exchange: Exchange, visit: Visit | None) -> None:
    """Say of the page of a 304 that it is unchanged, and which capture it refers to."""
    page.unchanged = True
    if visit is not None:
        last = visit.capture
        page.simhash = last.simhash
        page.original = Original(target_uri(exchange), last.captured_at, last.payload_digest)


def is_unchanged(visit: Visit | None, page: Page) -> bool | None:
    """Whether the main text of `page` is as at the last visit. The same bytes are the same text.

    So also when an earlier version has made the hash of the last visit, in another way.

    None at a first visit, for a page that the server or the network cut, and if either visit has no
    hash: RECRAWL was off, or the user's spider made the page.
    """
    last = visit.capture if visit is not None else Capture()
    if not last.simhash or not page.simhash or page.truncated not in _WHOLE:
        return None
    if last.payload_digest and last.payload_digest == page.payload_digest:
        return True
    return is_same(last.simhash, page.simhash)


def visited_of(visit: Visit | None, exchange: Exchange, page: Page | None) -> Visited | None:
    """What a later visit compares; None without RECRAWL, and for an answer that is no page.

    So None also for a 304 that the crawl has not asked for. The page of an answer that was cut has
    no validators: they are of the whole, which is not in the archive.
    """
    if page is None or page.simhash is None:
        return None
    now = Validators() if exchange.truncated else Validators.of(exchange.headers)
    last = visit.capture if visit is not None else Capture()
    if exchange.is_not_modified and visit is not None:
        etag, last_modified = last.validators
        merged = Validators(now.etag or etag, now.last_modified or last_modified)
        return Visited(replace(last, validators=merged), is_unchanged=True, is_304=True)
    same = is_unchanged(visit, page)
    # Small changes add up: an unchanged page is compared with what it was at its last change. If
    # its bytes are the same and its hash is not, an earlier version has made the hash of then.
    keeps = same and is_same(last.simhash, page.simhash)
    held = None
    if any(last.validators) and not exchange.is_conditional:
        held = last.validators.held(now)
    capture = Capture(
        now,
        last.simhash if keeps else page.simhash,
        _captured_at(exchange, page.original),
        str(page.payload_digest or ""),
    )
    return Visited(capture, is_unchanged=same, validators_held=held)


def _captured_at(exchange: Exchange, original: Original | None) -> float:
    """The date of the capture of this URL that has the page; 0.0 if it is not in the archive.

    If the bytes are those of an earlier capture of this URL, that one, which has the body.
    """
    if not exchange.archived:
        return 0.0
    if (
        original is not None
        and not original.date  # an index of an earlier archive has whole seconds
        and original.payload_digest
        and original.payload_digest == exchange.digest
        and original.url == exchange.url
    ):
        return original.started_time
    return exchange.started_time
