"""The lines that a crawl shows while it runs and at its end, as text; and their legend.

Owns the format (docs/watching.md) and nothing else: no clock, no output. The format is that of a
homework of Texas A&M's CSCE 463, "Networks and Distributed Processing". Its text does not define
two points; its traces (sample outputs) show them:

- Rates and thousands are rounded, not cut. Only then do all rates of one trace agree on one
  elapsed time (7.79 to 7.81 s, 103.458 to 103.461 s). So 3,256,521 links show as `3257K`.
- Speeds are over the measured time since the last line, not over the nominal two seconds.

MB and Mbps are powers of ten, as is usual for bits per second.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from webcrawl.base.wording import by_reason, printable
from webcrawl.frontier.counters import NO_VISITS, Counters, CrawlTotals

# Keys of `Counters.visits` that count later answers to a page: part of `Counters.crawled`.
_ANSWERED = ("changed", "unchanged", "not_modified", "unknown", "redirect", "error")
_OUTAGE_ENDS_S = 1.0  # without a further second: the pump counts four times a second
CODES = ("2xx", "3xx", "4xx", "5xx", "other")

LEGEND = (
    "Legend of the stats lines (docs/watching.md explains every number):",
    "  [seconds since the start] fetches under way, then",
    "  Q  URLs queued in the frontier                E  URLs taken from Q",
    "  H  of E: within the caps per host and domain  D  hosts found in DNS",
    "  I  of H: within the cap per IP address        R  of I: robots.txt allows",
    "  C  of R: answered (pages crawled)             L  links found, in thousands",
    "  *** pages and megabits per second since the previous line",
)
LEGEND_OF_WHOLE = "  === the whole crawl, of all hubs; the lines above it are this hub's"


def stats_line(elapsed_s: float, counters: Counters) -> str:
    """The funnel in one line. Any thread may call this function during the crawl."""
    # The funnel is read from its end. A count that is read later can only have grown: so
    # E >= H >= I >= R >= C holds in the line too.
    crawled = counters.crawled
    robots_passed = counters.robots_passed
    ip_passed = counters.ip_passed
    host_passed = counters.host_passed
    return (
        f"[{elapsed_s:3.0f}] {counters.under_way} Q {counters.pending:6d}"
        f" E {counters.extracted:7d} H {host_passed:6d} D {counters.resolved:6d}"
        f" I {ip_passed:5d} R {robots_passed:5d} C {crawled:5d} L {counters.links / 1000:4.0f}K"
    )


def speed_line(pages: int, bits: int, over_s: float) -> str:
    """Pages and megabits per second, from the counts of the last `over_s` seconds."""
    pages_per_s, mbps = per_second(pages, over_s), per_second(bits, over_s) / 1e6
    return f"    *** crawling {pages_per_s:.1f} pps @ {mbps:.1f} Mbps"


class OutageLines:
    """Says once when an outage of our own network begins, and once when it ends.

    Its only evidence is the count of the outage's seconds, which each process of a crawl adds to.
    """

    def __init__(self, outage_s: float) -> None:
        self._counted_s = outage_s
        self._began_at = self._grown_at = 0.0  # 0.0: no outage

    def next(self, outage_s: float, now: float) -> tuple[str, ...]:
        """The line for a change since the last call, mostly none."""
        grown_s, self._counted_s = outage_s - self._counted_s, outage_s
        if grown_s > 0:
            self._grown_at = now
            if not self._began_at:
                self._began_at = now - grown_s
                return ("    --- our own network is out: the crawl pauses until it is back",)
        elif self._began_at and now > self._grown_at + _OUTAGE_ENDS_S:
            took_s, self._began_at = self._grown_at - self._began_at, 0.0
            return (f"    --- our own network is back after {took_s:.0f} s: the crawl continues",)
        return ()


def held_lines(before: str, held: str) -> tuple[str, ...]:
    """The line for a pause of the crawl by itself, mostly none. `held`: why, "" for no pause."""
    if bool(before) == bool(held):
        return ()
    return (f"    --- {held}: the crawl pauses" if held else "    --- the crawl continues",)


def summary(counters: Counters, elapsed_s: float) -> list[str]:
    """The six lines at the end of a crawl that took `elapsed_s`.

    One more if owners have refused access, one for bot walls, one for near-duplicates, one for
    page requisites, one with LANGUAGES, and one with RECRAWL.
    """

    def rate(count: int) -> str:
        return f"{per_second(count, elapsed_s):.0f}/s"

    c = counters
    codes = ", ".join(f"{name} = {c.codes[name]}" for name in CODES)
    refused = ", ".join(
        f"{name.replace('_', ' ')} = {count}" for name, count in sorted(c.refused_access.items())
    )
    return [
        f"Extracted {c.extracted} URLs @ {rate(c.extracted)}",
        f"Looked up {c.lookups} DNS names @ {rate(c.lookups)}",
        f"Attempted {c.robots_attempted} robots @ {rate(c.robots_attempted)}",
        f"Crawled {c.crawled} pages @ {rate(c.crawled)} ({c.page_bytes / 1e6:.2f} MB)",
        f"Parsed {c.links} links @ {rate(c.links)}",
        f"HTTP codes: {codes}",
        *([f"Refused access: {refused}"] if refused else []),
        *([f"Bot walls in the place of pages: {by_reason(c.walls)}"] if c.walls else []),
        *([f"Near-duplicates, not followed: {c.near_duplicates}"] if c.near_duplicates else []),
        *([f"Page requisites: {by_reason(c.requisites)}"] if c.requisites else []),
        *([f"Languages of the pages looked at: {by_reason(c.languages)}"] if c.languages else []),
        *([visits_line(c)] if c.in_cycle or c.visits else []),
    ]


def visits_line(counters: Counters) -> str:
    """The visits of pages and sitemaps that were fetched before (RECRAWL)."""
    made = {kind: n for kind, n in counters.visits.items() if kind not in NO_VISITS}
    return (
        f"Visited again: {by_reason(made)}; {counters.in_cycle} pages and sitemaps in the cycle."
        " The lines above count each visit of a page"
    )


def hubs_text(whole: CrawlTotals) -> str:
    """The hubs of a crawl, and those that are away."""
    if not whole.away:
        return f"all {whole.hubs} hubs"
    away = ", ".join(f"hub {hub} is away since {since}" for hub, since in whole.away.items())
    return f"{whole.hubs - len(whole.away)} of {whole.hubs} hubs ({away})"


def whole_line(whole: CrawlTotals) -> str:
    """The crawl of all hubs in one line."""
    c = whole.counters
    return (
        f"    === {hubs_text(whole)}, C {c.crawled}, Q {max(c.pending, 0)},"
        f" {whole.pages_per_s:.1f} pps @ {whole.mbps:.1f} Mbps"
    )


def whole_summary(whole: CrawlTotals) -> list[str]:
    """The lines below the summary of a hub: what all have done."""
    lines = [
        "",
        f"Above: hub {whole.hub} of {whole.hubs}. The whole crawl:",
        *summary(whole.counters, whole.elapsed_s),
    ]
    if whole.away:
        lines.append(f"Hubs that are away are counted as they were last heard: {hubs_text(whole)}")
    return [printable(line) for line in lines]


def whole_values(whole: CrawlTotals) -> dict[str, Any]:
    """The crawl of all hubs as JSON values (docs/watching.md)."""
    return {
        "hub": whole.hub,
        "elapsed_s": round(whole.elapsed_s, 3),
        "pages_per_s": round(whole.pages_per_s, 2),
        "mbps": round(whole.mbps, 3),
        "unapplied": whole.unapplied,
        "counts": named_counts(whole.counters),
        "hubs": [{"hub": n, "away_since": whole.away.get(n, "")} for n in range(whole.hubs)],
    }


def outcome_line(counters: Counters, elapsed_s: float) -> str:
    """The result of the crawl: pages, total time, average request time, HTML pages kept, and URLs
    that were dropped or are kept for a later try. Dropped URLs exclude links out of scope.
    """
    c = counters
    dropped = {
        reason: count for reason, count in c.dropped.items() if not reason.startswith("scope_")
    }
    share = ""
    if only := c.sitemaps["only"]:
        once = ", each counted once" if c.visits else ""  # these pages are answers, visits too
        of = "pages" if c.visits else "of these pages"
        share = f"; only sitemaps gave {only} {of} ({only_sitemaps_share(c):.1%}{once})"
    return (
        f"{c.crawled} pages in {elapsed_s:.1f} s, {mean_request_s(c):.3f} s a request on average,"
        f" {c.html_pages} HTML pages kept ({c.html_bytes / 1e6:.2f} MB);"
        f" URLs dropped: {by_reason(dropped)}; kept for a later try: {by_reason(c.kept)}{share}"
    )


def only_sitemaps_share(counters: Counters) -> float:
    """The share of the pages to which no page links, so far; each page counts once.

    Sitemaps that were visited again and not read count as pages: they are few.
    """
    pages = counters.crawled - sum(counters.visits[kind] for kind in _ANSWERED)
    return min(counters.sitemaps["only"] / pages, 1.0) if pages > 0 else 0.0


def mean_request_s(counters: Counters) -> float:
    """Seconds from request to last byte, averaged over the pages; 0.0 before the first page."""
    return counters.fetch_s / counters.crawled if counters.crawled else 0.0


def per_second(count: float, over_s: float) -> float:
    """`count` per second; 0.0 if no time has passed."""
    return count / over_s if over_s > 0 else 0.0


def named_counts(counters: Counters) -> dict[str, float]:
    """Every count by its name; a count by reason as "dropped/host_cap".

    `dict` copies in one step: the frontier's thread may add a reason meanwhile.
    """
    values: dict[str, float] = {f"codes/{name}": 0 for name in CODES}
    for field in fields(counters):
        value = getattr(counters, field.name)
        if isinstance(value, (int, float)):
            values[field.name] = value
        else:
            values.update(
                (f"{field.name}/{reason}", count) for reason, count in dict(value).items()
            )
    return values


def named_rates(counters: Counters, elapsed_s: float) -> dict[str, float]:
    """The rates and the mean of the summary, by name."""
    names = ("extracted", "lookups", "robots_attempted", "crawled", "links")
    rates = {f"{name}_per_s": per_second(getattr(counters, name), elapsed_s) for name in names}
    rates["mean_request_s"] = mean_request_s(counters)
    if counters.sitemaps:
        rates["only_sitemaps_share"] = only_sitemaps_share(counters)
    return rates
