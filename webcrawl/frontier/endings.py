"""Notes the end of each URL's turn: for `scrapy explain` in the store, and in the crawl log.

Decides nothing: `core` and `candidates` decide how a turn ends, and call this module once for it.
"""

from __future__ import annotations

from webcrawl.crawllog.files import CrawlLog
from webcrawl.crawllog.line import End, Kind, Line, Utc, milliseconds
from webcrawl.frontier.host import Host
from webcrawl.frontier.lease import (
    Details,
    Fetched,
    Lease,
    Link,
    RobotsFetched,
    RobotsMoved,
    RobotsUnreachable,
    Step,
)
from webcrawl.frontier.store import Store
from webcrawl.parse.urls import level_of

_ZERO = 0  # left out of a line; 0.0 would not be


class Endings:
    """Writes ends to `store`, and to `log` if there is one. `utc_s` plus monotonic time is UTC."""

    def __init__(self, store: Store, log: CrawlLog | None, utc_s: float) -> None:
        self._store = store
        self._log = log
        self._utc_s = utc_s
        self._utc = Utc()

    def done(self, host: Host, lease: Lease, outcome: Fetched, now: float) -> None:
        """The URL of `lease` was answered, and is not asked again."""
        link = lease.link
        assert link is not None
        is_head = lease.step is Step.HEAD
        ending = f"head {outcome.status}" if is_head else str(outcome.status)
        self._store.record_status(link, ending, now, outcome.duplicate_of)
        if self._log is not None:
            details = outcome.details or Details(outcome.status, duplicate_of=outcome.duplicate_of)
            kind: Kind = "head" if is_head else "page"
            self._add(now, kind, link, "done", "", link.retries + 1, details, _dns_ms(host))

    def dropped(
        self, host: Host | None, link: Link, reason: str, now: float, took_s: float | None
    ) -> None:
        """`link` is never fetched, or not again.

        `took_s`: seconds of the try that ended its turn; None if no server was asked.
        """
        self._store.record_status(link, reason, now)
        tries = link.retries + (took_s is not None)
        self._unanswered(host, link, "dropped", reason, now, tries, took_s)

    def kept(self, host: Host, link: Link, reason: str, now: float, took_s: float | None) -> None:
        """`link` is queued for a later try. Its `retries` count the try of this turn."""
        self._unanswered(host, link, "kept", reason, now, link.retries, took_s)

    def robots(
        self,
        host: Host,
        lease: Lease,
        outcome: RobotsFetched | RobotsMoved | RobotsUnreachable,
        now: float,
    ) -> None:
        """A robots.txt was asked for."""
        task = lease.robots_task
        if self._log is None or task is None:
            return
        link = Link(task.url, lease.host, redirects=task.redirects)
        details = outcome.details or Details(ip=lease.address)
        end: End = "done"
        reason = ""
        if isinstance(outcome, RobotsUnreachable) and outcome.details is None:
            end, reason = "kept", outcome.reason
        self._add(now, "robots", link, end, reason, task.tries + 1, details, _dns_ms(host))

    def _unanswered(
        self,
        host: Host | None,
        link: Link,
        end: End,
        reason: str,
        now: float,
        tries: int,
        took_s: float | None,
    ) -> None:
        if self._log is None:
            return
        ip = host.addresses[0] if took_s is not None and host and host.addresses else ""
        details = Details(ip=ip, total_ms=milliseconds(took_s or 0.0))
        dns_ms = _dns_ms(host) if host is not None else 0.0
        self._add(now, "page", link, end, reason, tries, details, dns_ms)

    def _add(
        self,
        now: float,
        kind: Kind,
        link: Link,
        end: End,
        reason: str,
        tries: int,
        details: Details,
        dns_ms: float,
    ) -> None:
        assert self._log is not None
        d = details
        self._log.add(
            Line(
                self._utc.text(now + self._utc_s),
                kind,
                link.url,
                link.host,
                end,
                d.status,
                reason or d.reason,
                link.depth,
                level_of(link.url) if kind != "robots" else 0,
                link.redirects,
                tries,
                link.via,
                d.size_bytes,
                d.body_bytes,
                d.media_type,
                d.charset,
                d.lang,
                d.redirect_to,
                d.digest,
                d.duplicate_of,
                d.truncated,
                d.links,
                dns_ms or _ZERO,
                d.connect_ms or _ZERO,
                d.first_byte_ms or _ZERO,
                d.total_ms or _ZERO,
                d.ip,
                d.warc,
                d.offset,
            )
        )


def _dns_ms(host: Host) -> float:
    """Milliseconds of the last look-up of `host`. Only the first line after it has them."""
    dns_ms, host.dns_ms = host.dns_ms, 0.0
    return dns_ms
