"""Notes the end of each URL's turn: for `scrapy explain` in the store, and in the crawl log.

Decides nothing: `outcomes` and `candidates` decide how a turn ends, and call this module once
for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec.json import decode

from webcrawl.crawllog.files import CrawlLog
from webcrawl.crawllog.line import (
    NO_DETAILS,
    Details,
    End,
    Kind,
    LostLine,
    Turn,
    Utc,
    is_archived,
    joined,
    milliseconds,
    to_bytes,
)
from webcrawl.frontier.disk.store import Store
from webcrawl.frontier.host import Host, real_address
from webcrawl.frontier.lease import (
    REQUISITE,
    Fetched,
    Lease,
    Link,
    Outcome,
    RobotsFetched,
    RobotsMoved,
    RobotsUnreachable,
    Step,
)
from webcrawl.frontier.visitstate import VisitState
from webcrawl.parse.urls import level_of

_KINDS: Final[dict[Step, Kind]] = {
    Step.PAGE: "page",
    Step.HEAD: "head",
    Step.SITEMAP: "sitemap",
    Step.REQUISITE: "requisite",
}


class Endings:
    """Writes ends to `store`, and to `log` if there is one. `utc_s` plus monotonic time is UTC."""

    def __init__(self, store: Store, log: CrawlLog | None, utc_s: float) -> None:
        self._store = store
        self._log = log
        self._utc_s = utc_s
        self._utc = Utc()

    def done(self, host: Host, lease: Lease, outcome: Fetched, now: float, visit: str = "") -> None:
        """The URL of `lease` was answered, and is not asked again.

        `visit`: what was found, if it was fetched before (`counters.visits`).
        """
        link = lease.link
        assert link is not None
        kind = _KINDS[lease.step]
        what = "wall" if outcome.wall else kind
        ending = str(outcome.status) if what == "page" else f"{what} {outcome.status}"
        copied = outcome.duplicate_of, outcome.near_duplicate_of
        self._store.record_status(link, ending, now, *copied)
        if self._log is not None:
            tries, details = link.retries + 1, outcome.details
            self._add(now, kind, link, "done", "", tries, host, details, visit)

    def unanswered(
        self, host: Host | None, link: Link, end: End, reason: str, now: float, took_s: float | None
    ) -> None:
        """`link` is "dropped": never fetched, or not again; or "kept": queued for a later try.

        `took_s`: seconds of the try that ended its turn; None if no server was asked. The `retries`
        of a kept link count this try.
        """
        tries = link.retries
        if end == "dropped":
            self._store.record_status(link, reason, now)
            tries += took_s is not None
        if self._log is None:
            return
        details = NO_DETAILS
        if took_s is not None:
            ip = host.addresses[0] if host is not None and host.addresses else ""
            details = to_bytes(Details(ip=real_address(ip), total_ms=milliseconds(took_s)))
        kind: Kind = "sitemap" if link.sitemap > 0 else "page"
        if link.sitemap <= REQUISITE:
            kind = "requisite"
        self._add(now, kind, link, end, reason, tries, host, details)

    def superseded(self, host: Host, lease: Lease, details: bytes, now: float) -> None:
        """The URL of `lease` is asked again. An answer that is in the archive has a line."""
        link = lease.link
        if self._log is not None and link is not None and is_archived(details):
            tries = link.retries + 1
            self._add(now, _KINDS[lease.step], link, "retried", "", tries, host, details)

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
        details = outcome.details
        end: End = "done"
        reason = ""
        if isinstance(outcome, RobotsUnreachable) and details == NO_DETAILS:
            end, reason = "kept", outcome.reason
        if details == NO_DETAILS:
            details = to_bytes(Details(ip=real_address(lease.address)))
        self._add(now, "robots", link, end, reason, task.tries + 1, host, details)

    def _add(
        self,
        now: float,
        kind: Kind,
        link: Link,
        end: End,
        reason: str,
        tries: int,
        host: Host | None,
        details: bytes,
        visit: str = "",
    ) -> None:
        assert self._log is not None
        dns_ms: float = 0  # an integer: it is left out of the line
        if host is not None and end != "retried":  # the first turn after a look-up has its time
            dns_ms, host.dns_ms = host.dns_ms, 0
        level = level_of(link.url) if kind != "robots" else 0
        turn = Turn(
            *(self._utc.text(now + self._utc_s), kind, link.url, link.host, end, reason),
            *(link.depth, level, link.redirects, tries, link.via, dns_ms),
        )
        if link.visit and end != "retried":
            turn.visit = visit or ("unanswered" if details != NO_DETAILS else "refused")
            turn.last_visit = self._utc.text(VisitState.of_row(link.visit).last_at)
        self._log.add(joined(to_bytes(turn), details))


def lines_of_outcomes(
    done: Iterable[tuple[Lease, Outcome]], utc: float
) -> dict[str, list[LostLine]]:
    """Lines of answers that were archived, and whose leases cannot be given back any more: by the
    WARC file. `utc`: now.
    """
    lines: dict[str, list[LostLine]] = {}
    for lease, outcome in done:
        details: bytes = getattr(outcome, "details", NO_DETAILS)
        if not is_archived(details):
            continue
        place = decode(details, type=Details)
        link = lease.link or Link(lease.url, lease.host)
        kind = _KINDS.get(lease.step, "robots")
        turn = Turn(Utc().text(utc), kind, link.url, link.host, "lost")
        turn.depth, turn.redirects, turn.via = link.depth, link.redirects, link.via
        line = joined(to_bytes(turn), details)
        lines.setdefault(place.warc, []).append((place.offset, link.host, line))
    return lines
