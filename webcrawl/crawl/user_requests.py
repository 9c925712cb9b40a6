"""Users' own Requests: they follow Scrapy's rules, where these differ from the rules for pages.

A page over a limit is cut, kept and flagged; a user's Request gets a whole answer or fails. A page
that fails is counted; a user's Request calls its callback or its errback, once.
"""

from __future__ import annotations

import logging
import pickle
import secrets
import sys
from collections import deque
from contextlib import suppress
from io import BytesIO
from typing import Any, NoReturn

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import DownloadCancelledError, DownloadTimeoutError, ResponseDataLossError
from scrapy.settings import BaseSettings
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.request import request_from_dict

from webcrawl.crawl.page_fetch import note
from webcrawl.crawl.scrapy_private import class_of_request
from webcrawl.fetch.exchange import Exchange, FetchFailed
from webcrawl.fetch.http1 import Headers, content_length
from webcrawl.fetch.mediatypes import Wants
from webcrawl.frontier.lease import Link
from webcrawl.frontier.store import StoreError
from webcrawl.hub.wire import NUMBER_MAX
from webcrawl.parse.urls import host_of

logger = logging.getLogger(__name__)


class UserRequests:
    """Users' Requests in the frontier: each is the payload of a link.

    A Request that does not serialise (its callback is a lambda, say) stays here in memory until it
    has ended, and the link has a key to it. A Request that is not http or https never enters the
    frontier. In both cases Scrapy's own scheduler does the same.

    Reading a pickle can run any code. With CLUSTER, Requests come over the network, so such a
    process reads plain values only, and writes no others.
    """

    def __init__(
        self, crawler: Crawler, retry_times: int, *, keep: bool, are_plain: bool = False
    ) -> None:
        """`keep`: serialise no Request, since Requests are changed while they are queued.

        `are_plain`: serialise only those with plain values, and read no others.
        """
        self._crawler = crawler
        self._retry_times = retry_times
        self._keep = keep
        self._are_plain = are_plain
        self._kept: dict[bytes, Request] = {}
        self._kept_ever = 0
        self._run = secrets.token_bytes(8)  # distinguishes our keys from those of an earlier run
        self._aside: deque[Request] = deque()
        self._fingerprints: set[bytes] = set()

    def __len__(self) -> int:
        """The number of Requests that bypass the frontier."""
        return len(self._aside)

    def is_seen(self, request: Request) -> bool:
        """Whether Scrapy's duplicates filter knows `request`, which its URL does not identify."""
        if request.dont_filter:
            return False
        fingerprint = self._crawler.request_fingerprinter.fingerprint(request)
        if fingerprint in self._fingerprints:
            return True
        self._fingerprints.add(fingerprint)
        return False

    def put_aside(self, request: Request) -> None:
        self._aside.append(request)

    def take_aside(self) -> Request | None:
        return self._aside.popleft() if self._aside else None

    def link(self, request: Request, url: str) -> Link:
        """The link to the canonical `url` that carries `request`."""
        meta = request.meta
        tries_left = 0
        if not meta.get("dont_retry"):  # RetryMiddleware's keys: it counts on the same tries
            tries_left = meta.get("max_retry_times", self._retry_times) - meta.get("retry_times", 0)
        return Link(
            url,
            host_of(url),
            int(min(meta.get("depth") or 0, NUMBER_MAX)),  # a whole number, as rows hold it
            retries=int(max(0, self._retry_times - tries_left)),
            payload=self._serialise(request),
        )

    def request(self, link: Link) -> Request:
        """The Request that `link` carries."""
        kept = self._kept.get(link.payload)
        if kept is not None:
            return kept.copy()  # a retry needs the same Request again
        values = _plain_values(link.payload) if self._are_plain else pickle.loads(link.payload)
        return request_from_dict(values, spider=self._crawler.spider)

    def keeps(self, link: Link) -> bool:
        """Whether the Request of `link` is in the memory of this process only."""
        return link.payload in self._kept

    def ended(self, link: Link) -> None:
        self._kept.pop(link.payload, None)

    def _serialise(self, request: Request) -> bytes:
        """`request` as bytes, or a key to it."""
        if not self._keep:
            with suppress(ValueError, TypeError, AttributeError, pickle.PicklingError, StoreError):
                payload = pickle.dumps(request.to_dict(spider=self._crawler.spider))
                if self._are_plain:
                    _plain_values(payload)
                return payload
        self._kept_ever += 1
        key = b"kept %d %b" % (self._kept_ever, self._run)
        self._kept[key] = request
        return key


def _plain_values(payload: bytes) -> dict[str, Any]:
    """The values of a Request. StoreError for anything else.

    Its class is one that this process has imported already: no module is imported by its name.
    """
    try:
        values = _Plain(BytesIO(payload)).load()
    except Exception as error:  # pickle raises many kinds of exception for garbage
        raise StoreError(f"a row of the frontier is damaged: {error}") from None
    name = class_of_request(values) if isinstance(values, dict) else ""
    module, _, name = name.rpartition(".")
    known = getattr(sys.modules.get(module), name, None)
    if not (isinstance(known, type) and issubclass(known, Request)):
        raise StoreError("a row of the frontier is damaged: it has no Request")
    return values  # type: ignore[no-any-return]


class _Plain(pickle.Unpickler):
    """Refuses a class or a function: reading runs no code of the sender's."""

    def find_class(self, module: str, name: str, /) -> Any:
        raise pickle.UnpicklingError(f"it names {module}.{name}")


def is_of_the_web(request: Request) -> bool:
    """Whether `request` is http or https: `data:` and `file:` have no host to be polite to."""
    return urlparse_cached(request).scheme in ("http", "https")


def is_plain(request: Request) -> bool:
    """Whether the URL of `request` identifies it, as with a link: a GET without a body."""
    return request.method == "GET" and not request.body


class BodyRules:
    """Scrapy's rules for the bodies of answers to users' own Requests."""

    def __init__(self, settings: BaseSettings) -> None:
        self._max_size_bytes = settings.getint("DOWNLOAD_MAXSIZE")
        self._warn_size_bytes = settings.getint("DOWNLOAD_WARNSIZE")
        self._fail_on_dataloss = settings.getbool("DOWNLOAD_FAIL_ON_DATALOSS")
        self._dataloss_logged = False

    def wants(self, request: Request) -> Wants:
        """Tests an answer's head: a body whose Content-Length is too large is not read."""
        limit = self._max_size(request)

        def wants(status: int, headers: Headers) -> bool:
            return not limit or request.method == "HEAD" or (content_length(headers) or 0) <= limit

        return wants

    def judge(self, request: Request, exchange: Exchange) -> None:
        """Raise Scrapy's exception for a body that is not whole."""
        expected = content_length(exchange.headers) or 0
        if exchange.body_skipped:
            self._refuse_size(request, f"Expected to receive {expected}")
        if exchange.truncated == "length" or "too large" in exchange.decode_problem:
            self._refuse_size(request, f"Received more than {self._max_size(request)}")
        if exchange.truncated:
            self._refuse_cut(request, exchange)
        self._warn_of_size(request, expected, len(exchange.payload))

    def _max_size(self, request: Request) -> int:
        return int(request.meta.get("download_maxsize", self._max_size_bytes))

    def _refuse_size(self, request: Request, what: str) -> NoReturn:
        limit = self._max_size(request)
        problem = f"{what} bytes which is larger than download max size ({limit}) in {request}"
        logger.warning(problem)
        raise DownloadCancelledError(problem)

    def _refuse_cut(self, request: Request, exchange: Exchange) -> None:
        problem = f"{request.url}: body cut ({exchange.truncated})"
        lost = exchange.truncated == "disconnect"
        if lost and not request.meta.get("download_fail_on_dataloss", self._fail_on_dataloss):
            return
        if lost and not self._dataloss_logged:
            self._dataloss_logged = True
            logger.warning(
                "Got data loss in %s. To process broken responses set DOWNLOAD_FAIL_ON_DATALOSS ="
                " False. This message won't be shown in further requests",
                request.url,
            )
        failure = FetchFailed("reset" if lost else "timeout", problem, True, exchange.ended_at)
        note(request, exchange=None, failure=failure)
        raise (ResponseDataLossError if lost else DownloadTimeoutError)(problem)

    def _warn_of_size(self, request: Request, expected: int, received: int) -> None:
        limit = int(request.meta.get("download_warnsize", self._warn_size_bytes))
        if limit and max(expected, received) > limit:
            what = f"Expected to receive {expected}" if expected > limit else f"Received {received}"
            logger.warning(
                "%s bytes which is larger than download warn size (%d) in %s", what, limit, request
            )
