"""Why a URL was fetched, refused or waits, in sentences.

Knows what the frontier keeps (`inspection`). What a URL is refused for by itself is scope's to say,
and decided before.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from webcrawl.frontier.backlog import was_kept
from webcrawl.frontier.disk import rows
from webcrawl.frontier.disk.hostrows import queue_of
from webcrawl.frontier.disk.inspection import InLine, Inspection
from webcrawl.frontier.host import Host, State
from webcrawl.parse.urls import host_of, level_of, origin_of, target_of
from webcrawl.scope import is_numbered

_CAPS = {
    "host_cap": "MAX_PAGES_PER_HOST",
    "domain_cap": "MAX_PAGES_PER_DOMAIN",
    "ip_cap": "MAX_PAGES_PER_IP",
}
# By reason of `counters.dropped`. The others are how a try to fetch ended.
_REFUSED = {
    "robots": "The robots.txt refused it",
    "dns": "It was dropped, since its host had no address",
    "blocked_address": "It was dropped, since its host had no address that may be asked",
    "middleware": "A downloader middleware refused it",
    "replaced": "A downloader middleware put another request in its place",
    "unsendable": "It was dropped, since the request that the spider made is no HTTP",
    "unreadable": "It was dropped, since the request that the spider made cannot be read back",
}

# By reason of `counters.kept`; the others are how the last try to fetch ended.
_KEPT = {
    "dns": "no name server said where its host is",
    "host_retired": "its host gave no answer to many tries",
    "robots_unreachable": "robots.txt could not be had",
}


def explain(frontier: Inspection, url: str, now: float) -> list[str]:
    """All that is known of `url` (canonical). O(queue of its host)."""
    try:
        status = frontier.status(url)
    except KeyError:
        return [_never_put(url, frontier)]
    host = frontier.host(host_of(url))
    in_line = host and frontier.in_line(url, queue_of(host))
    lines: list[str] = []
    if in_line:
        assert host is not None
        lines += _of_line(in_line, host, frontier, now)
    elif status is None:
        lines.append("Its turn has come, and what came of it was not kept.")
    if status is not None:
        lines += _of_status(status, frontier)
        if not in_line:
            lines.append(_way(url, status.depth, status.redirects, status.via))
    if host is not None:
        lines += [*_of_robots(url, host, frontier), *_of_host(host, frontier, now)]
    return lines


def _never_put(url: str, frontier: Inspection) -> str:
    if target_of(url) == "/robots.txt":
        return "It was never put: a robots.txt is fetched for its host's sake, and not in line."
    if not frontier.settings.get("FOLLOW_LINKS", True):
        return "It was never put: it is no seed, and FOLLOW_LINKS is off."
    limits = []  # on the way a URL is reached: what they refuse leaves no trace
    if depth_max := frontier.settings.get("DEPTH_LIMIT"):
        limits.append(f"DEPTH_LIMIT = {depth_max}")
    if (sequence_max := frontier.settings.get("SEQUENCE_LIMIT")) and is_numbered(url):
        limits.append(f"SEQUENCE_LIMIT = {sequence_max} numbered pages in a row")
    beyond = f", unless beyond {' or '.join(limits)}" if limits else ""
    return (
        "It was never put: it is no seed, and no page fetched so far has a link to it that may be"
        f" followed{beyond}."
    )


def _of_kept(reason: str, due: float, now: float) -> str:
    why = f"It is kept for a later try, since {_KEPT.get(reason, f'the last failed: {reason}')}."
    if due <= now:
        return f"{why} The next try is as soon as there is a place for it."
    return (
        f"{why} The next try is at {_utc(due)} if the crawl has other work then, else at the"
        " beginning of the next run."
    )


def _of_line(in_line: InLine, host: Host, frontier: Inspection, now: float) -> Iterator[str]:
    ahead, priority, _, link = in_line
    if was_kept(priority):
        yield _of_kept(link.kept, frontier.due(in_line, host), now)
        yield _way(link.url, link.depth, link.redirects, link.via)
        return
    end = "." if ahead else ": it is the next one, or is being fetched now."
    before = f"with {_count(ahead, 'URL')} of its host before it{end}"
    yield f"It waits, at {frontier.order} {priority}, {before}"
    yield _way(link.url, link.depth, link.redirects, link.via)
    if link.retries:
        yield f"It was tried {_count(link.retries, 'time')} before."


def _of_status(status: rows.UrlStatus, frontier: Inspection) -> Iterator[str]:
    at = _utc(status.time)
    if status.what in _REFUSED:
        yield f"{_REFUSED[status.what]}, at {at}."
    elif status.what in _CAPS:
        cap = _CAPS[status.what]
        yield f"It was refused by {cap} = {frontier.settings.get(cap)}, at {at}."
    elif status.what[-1:].isdigit():
        method, _, code = status.what.rpartition(" ")
        asked = "It was asked for with HEAD only" if method else "It was fetched"
        yield f"{asked}: the answer was {code}, at {at}."
    else:
        yield f"It could not be fetched: {status.what}, at {at}, at the last try."
    if status.duplicate_of:
        yield f"It is a duplicate: {status.duplicate_of} had the same content before."


def _way(url: str, depth: int, redirects: int, via: str) -> str:
    level = f"It is of level {level_of(url)}"
    if not (depth or redirects or via):
        return f"{level}, and a seed."
    where = f", {'as a redirect of' if redirects else 'on'} {via}" if via else ""
    return f"{level}, and was found {_count(depth, 'hop')} from a seed{where}."


def _of_robots(url: str, host: Host, frontier: Inspection) -> Iterator[str]:
    origin = origin_of(url)
    known, rules = host.rules.get(origin), frontier.rules(origin)
    if known is None:
        yield f"The robots.txt of {origin} is not known yet."
    elif known.reason:
        yield f"All of {origin} is refused until {_utc(known.expires_at)}: {known.reason}."
    elif rules is not None:
        rule = rules.deciding(target_of(url))
        word = "Disallow" if rule[:1] == "-" else "Allow"
        says = f'has the line "{word}: {rule[1:]}" for it' if rule else "has no line against it"
        yield f"The robots.txt of {origin} {says}."


def _of_host(host: Host, frontier: Inspection, now: float) -> Iterator[str]:
    name, queue = host.name, queue_of(host)
    if host.retired_until > now and host.deferrals:
        yield f"{name} is left alone until {_utc(host.retired_until)}: {host.retired_reason}."
    elif host.retired_until > now:
        yield f"{name} is given up until {_utc(host.retired_until)}: {host.retired_reason}."
    elif queue.stored()[0]:
        at = max(host.next_at, host.resolve_at)
        if at > now:
            yield f"{name} is not asked before {_utc(at)}{_delayed(host)}."
        if host.state is State.WAITING:
            before = _count(frontier.hosts_before(queue), "host")
            yield f"{name} waits for a place among the active hosts, behind {before}."
        elif at <= now:
            yield f"{name} may be asked now."
    if host.addresses:
        yield f"{name} is at {', '.join(host.addresses)}."


def _delayed(host: Host) -> str:
    if host.resolve_at > host.next_at:
        return ": DNS did not answer"
    if host.failures:
        return f": the last {_count(host.failures, 'try', 'tries')} had no answer"
    if host.crawl_delay_s:
        return f": its robots.txt has Crawl-delay: {host.crawl_delay_s:g}"
    return ""


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _utc(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
