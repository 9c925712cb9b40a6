"""Why a URL was fetched, refused or is waiting, by the frontier: caps, robots.txt, queue, delays.

Reads the frontier's rows by `inspection`. Does not know scope: `explanation` explains it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from webcrawl.base.wording import counted
from webcrawl.frontier.backlog import was_kept
from webcrawl.frontier.disk.clock import clock_warning
from webcrawl.frontier.disk.clock import utc as _utc
from webcrawl.frontier.disk.inspection import InLine, Inspection
from webcrawl.frontier.host import Host, State, real_address
from webcrawl.frontier.lease import REQUISITE, DropReason
from webcrawl.frontier.requisites import NAME_END
from webcrawl.frontier.revisit import DAY_S
from webcrawl.frontier.store import UrlStatus
from webcrawl.parse.jointrules import decision
from webcrawl.parse.urls import host_of, level_of, origin_of, target_of
from webcrawl.scope import SEQUENCE_MAX, is_numbered
from webcrawl.scope.hostrules import NO_VALUES, Values

_CAPS = {
    "host_cap": "MAX_PAGES_PER_HOST",
    "domain_cap": "MAX_PAGES_PER_DOMAIN",
    "ip_cap": "MAX_PAGES_PER_IP",
    "host_bytes": "MAX_BYTES_PER_HOST",
    "depth": "DEPTH_LIMIT",
}
# Caps that a rule (RULES) may set: the names of their values.
_RULED_CAPS = {"host_cap": "max_pages", "host_bytes": "max_bytes", "depth": "max_depth"}
# By reason of `counters.dropped`. The other reasons are how the last try to fetch ended.
_REFUSED: dict[DropReason, str] = {
    "robots": "Refused by robots.txt",
    "scope_deny": "Dropped from the queue: SCOPE_DENY or `scrapy ctl deny` has an entry for it",
    "deny": "Refused by a deny rule",
    "sitemap": "Read as a sitemap, so it is not fetched as a page",
    "sitemap_cap": "Refused: its host has 100 sitemaps already",
    "dns": "Dropped: its host has no address",
    "blocked_address": "Dropped: every address of its host is blocked (ALLOW_PRIVATE_ADDRESSES)",
    "middleware": "Refused by a downloader middleware",
    "replaced": "Replaced by another request in a downloader middleware",
    "unsendable": "Dropped: the spider's request is not an HTTP request",
    "unreadable": "Dropped: the spider's request cannot be read back",
}
# By the word before the status of an answer.
_ASKED = {
    "head": "Requested with HEAD only",
    "sitemap": "Read as a sitemap",
    "requisite": "Fetched as a page requisite",
    "wall": "Not fetched: a bot wall answered in its place",
}

# By reason of `counters.kept`. The other reasons are how the last try to fetch ended.
_KEPT = {
    "dns": "the name servers did not resolve its host",
    "host_retired": "its host gave no page in 20 tries in a row",
    "robots_unreachable": "robots.txt could not be fetched",
}


def is_requisite(frontier: Inspection, url: str) -> bool:
    """Whether `url` was queued as a page requisite, and not as a page."""
    return not frontier.has(url) and frontier.has(url + NAME_END)


def explain(frontier: Inspection, url: str, now: float, values: Values = NO_VALUES) -> list[str]:
    """The frontier's knowledge of `url` (canonical), in sentences. O(queue of its host).

    `values`: those that rules (RULES) set for its host.
    """
    name = url + NAME_END if is_requisite(frontier, url) else url
    if not frontier.has(name):
        return [_never_queued(url, frontier, values)]
    status = frontier.status(name)
    host = frontier.host(host_of(url))
    in_line = host and frontier.in_line(url, host.queue)
    lines = clock_warning(frontier.last_time, now)
    now = max(now, frontier.last_time)
    if in_line:
        assert host is not None
        lines += _of_line(in_line, host, frontier, now)
    elif status is None:
        lines.append("Taken from the queue; the outcome was not recorded.")
    if status is not None:
        lines += _of_status(status, frontier, values)
        if not in_line:
            lines += _of_visit(url, status, frontier, now)
        if not in_line:
            lines.append(_way(url, status.depth, status.redirects, status.via))
    if host is not None:
        lines += [*_of_robots(url, host, frontier), *_of_host(host, frontier, now)]
    return lines


def _never_queued(url: str, frontier: Inspection, values: Values) -> str:
    if values.denies(url):
        return "Never queued: a rule denies it."
    if target_of(url) == "/robots.txt":
        return "Never queued: the crawler fetches robots.txt for the host, outside of the queue."
    if not frontier.settings.get("FOLLOW_LINKS", True):
        return "Never queued: not a seed, and FOLLOW_LINKS is off."
    limits = []  # checked before the URL-seen test: a URL that they refuse has no row
    if values.max_depth:
        limits.append(f"max_depth = {values.max_depth} of a rule")
    elif values.max_depth is None and (depth_max := frontier.settings.get("DEPTH_LIMIT")):
        limits.append(f"DEPTH_LIMIT = {depth_max}")
    if frontier.settings.get("TRAPS", True) and is_numbered(url):
        limits.append(f"{SEQUENCE_MAX} numbered pages in a row (TRAPS)")
    beyond = f", unless beyond {' or '.join(limits)}" if limits else ""
    near = ""
    if frontier.counters.near_duplicates:
        near = ", or only near-duplicates have one (FOLLOW_NEAR_DUPLICATES)"
    no_link = f"no fetched page has a followable link to it{beyond}{near}"
    return f"Never queued: not a seed, and {no_link}."


def _of_kept(reason: str, due: float, now: float) -> str:
    why = f"Kept for a later try: {_KEPT.get(reason, f'the last try ended with {reason}')}."
    if due <= now:
        return f"{why} The next try is due, as soon as its host has a place among the active hosts."
    return (
        f"{why} The next try is at {_utc(due)} if the crawl still has other work then, else when"
        " the next run begins."
    )


def _of_line(in_line: InLine, host: Host, frontier: Inspection, now: float) -> Iterator[str]:
    ahead, priority, _, link = in_line
    if was_kept(priority):
        yield _of_kept(link.kept, frontier.due(in_line, host), now)
        yield _way(link.url, link.depth, link.redirects, link.via)
        return
    if link.visit:
        yield "Queued for another visit (RECRAWL), before the new URLs of its host."
        yield _way(link.url, link.depth, link.redirects, link.via)
        return
    if link.sitemap <= REQUISITE:
        yield "Queued as a page requisite."
    before = f"behind {counted(ahead, 'URL')} of its host"
    place = before if ahead else "the next of its host, or being fetched now"
    yield f"Waiting at {frontier.order} {max(priority - frontier.shift, 0)}: {place}."
    yield _way(link.url, link.depth, link.redirects, link.via)
    if link.retries:
        yield f"Tried {counted(link.retries, 'time')} so far."


def _of_status(status: UrlStatus, frontier: Inspection, values: Values) -> Iterator[str]:
    at, outcome = _utc(status.time), status.outcome
    if outcome in _REFUSED:
        yield f"{_REFUSED[outcome]}, at {at}."
    elif outcome in _CAPS:
        cap, ruled = _CAPS[outcome], _RULED_CAPS.get(outcome, "")
        limit = getattr(values, ruled, None)
        by = f"{cap} = {frontier.settings.get(cap)}" if limit is None else f"the rule's {ruled}"
        yield f"Refused by {by}, at {at}."
    elif outcome[-1:].isdigit():
        method, _, code = outcome.rpartition(" ")
        asked = _ASKED.get(method, "Fetched")
        yield f"{asked} at {at}: status {code}."
    else:
        yield f"Not fetched: the last try, at {at}, ended with {outcome}."
    if status.duplicate_of:
        yield f"Duplicate: {status.duplicate_of} had the same content first."
    if status.near_duplicate_of:
        yield (
            f"Near-duplicate: {status.near_duplicate_of} had nearly the same text first, so no link"
            " of this page is followed (FOLLOW_NEAR_DUPLICATES)."
        )


def _of_visit(url: str, status: UrlStatus, frontier: Inspection, now: float) -> Iterator[str]:
    """When a page is visited again, and why then (RECRAWL)."""
    visit = frontier.visit(url)
    if visit is None:
        if status.visit_ms:
            yield "Due for another visit (RECRAWL), as soon as its host is free."
        elif frontier.counters.in_cycle and status.outcome[-3:] in ("404", "410"):
            yield "Not visited again: it was gone, twice."
        elif frontier.counters.in_cycle and status.outcome.removeprefix("sitemap ").isdigit():
            yield (
                "Not visited again (RECRAWL) so far: fetched by a run without it, and no link to it"
                " was found since; or a Request of a spider."
            )
        return
    due, state = visit
    when = f"at {_utc(due)}" if due > now else f"as soon as its host is free, due since {_utc(due)}"
    yield f"The next visit (RECRAWL) is {when}; the last one was at {_utc(state.last_at)}."
    rate = state.rate
    if not state.sitemap:
        # Visits cannot tell more changes between two of them from one.
        often = " or more often" if 1 / rate.per_s < 0.9 * state.planned_s else ""
        yield (
            f"It seems to change each {_span(1 / rate.per_s)}{often} ({rate.changes:.3g} changes in"
            f" {_span(rate.seconds)}); its weight is {state.weight:.3g}."
        )
    if state.is_check:
        yield "The last answer, 304 Not Modified, is checked: the next visit has no condition."
    if not frontier.is_trusted(host := host_of(url)):
        yield f"{host} gets no conditional requests: it answered 304 for pages that had changed."
    if state.misses:
        yield f"The last {counted(state.misses, 'visit')} got no answer."


def _span(seconds: float) -> str:
    return f"{seconds / DAY_S:.3g} days" if seconds >= DAY_S else f"{seconds:.3g} s"


def _way(url: str, depth: int, redirects: int, via: str) -> str:
    level = f"Level {level_of(url)}"
    if not (depth or redirects or via):
        return f"{level}, a seed."
    where = f", {'as a redirect of' if redirects else 'on'} {via}" if via else ""
    return f"{level}, found {counted(depth, 'hop')} from a seed{where}."


def _of_robots(url: str, host: Host, frontier: Inspection) -> Iterator[str]:
    origin = origin_of(url)
    known, rules = host.rules.get(origin), frontier.rules(origin)
    if known is None:
        yield f"The robots.txt of {origin} is not known yet."
    elif known.reason:
        yield f"All URLs of {origin} are refused until {_utc(known.expires_at)}: {known.reason}."
    elif rules is not None:
        rule, names = decision(rules, target_of(url))
        word = "Disallow" if rule[:1] == "-" else "Allow"
        says = (
            f'has the rule "{word}: {rule[1:]}" for this URL' if rule else "has no rule against it"
        )
        yield f"The robots.txt of {origin} {says}{_as(known.agent, names)}."


def _as(agent: str, names: Sequence[str]) -> str:
    """For which of the names `agent` a rule was found: those of `names`, or all."""
    every = agent.split(",")
    if len(every) == 1:
        return ""
    return f", read as {' and '.join(names)}" if names else f", read as each of {', '.join(every)}"


def _of_host(host: Host, frontier: Inspection, now: float) -> Iterator[str]:
    name, queue = host.name, host.queue
    if host.retired_until > now and host.deferrals:
        yield f"{name} is not asked before {_utc(host.retired_until)}: {host.retired_reason}."
    elif host.retired_until > now:
        yield f"{name} is given up until {_utc(host.retired_until)}: {host.retired_reason}."
    elif queue.stored()[0]:
        at = max(host.next_at, host.resolve_at)
        if at > now:
            yield f"{name} is not asked before {_utc(at)}{_delayed(host)}."
        if host.state is State.WAITING:
            before = counted(frontier.hosts_before(queue), "host")
            yield f"{name} waits for a place among the active hosts, behind {before}."
        elif at <= now:
            yield f"{name} may be asked now."
    if any(map(real_address, host.addresses)):
        yield f"IP address of {name}: {', '.join(host.addresses)}."


def _delayed(host: Host) -> str:
    if host.resolve_at > host.next_at:
        return ": DNS did not answer"
    if host.failures:
        return f": the last {counted(host.failures, 'try', 'tries')} got no answer, or a bot wall"
    if host.pace.doublings:
        times = counted(host.pace.doublings, "time")
        return f": it answered 429 or 503, so its delay is doubled {times}"
    if host.crawl_delay_s:
        return f": its robots.txt has Crawl-delay: {host.crawl_delay_s:g}"
    if host.pace.first_byte_us:
        return f": its first byte comes after {host.pace.first_byte_s:.2g} s"
    return ""
