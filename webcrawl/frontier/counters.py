"""The crawl in numbers: the funnel of the stats lines and all that the summary prints.

Plain integers that the parts of the crawl add to. One reporter reads them, from any thread. Each is
mirrored to Scrapy's stats as `webcrawl/<name>` (docs/watching.md).

Invariant, at any time: extracted >= host_passed >= ip_passed >= robots_passed >= crawled. A URL
moves through these in this order and is counted once in each, however often it is retried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, Final, NamedTuple

from webcrawl.parse.urls import MAX_LEVEL, level_of

# Keys of `Counters.visits` that count no visit.
NO_VISITS: Final = frozenset({"gone", "lie", "brought_forward"})

STAGES: Final = ("dns", "robots", "head", "page", "archive")  # in the order of a URL's way
MOMENTARY: Final = frozenset({"under_way", "stage_under_way"})  # requests under way
# Answers by which an owner refuses access: they are final (RFC 9110, 15.5.2, 15.5.3; RFC 7725, 3).
REFUSED_ACCESS: Final = {
    401: "401_unauthorized",
    402: "402_payment_required",
    451: "451_unavailable_for_legal_reasons",
}

# By level; there is no level 0.
_FOUND: Final = tuple(f"found/{level}" for level in range(MAX_LEVEL + 1))
_ENDED: Final = tuple(f"ended/{level}" for level in range(MAX_LEVEL + 1))


@dataclass(slots=True)
class Counters:
    """All counts since the crawl began, earlier runs included. All begin at 0.

    The letter in brackets is that of the stats lines; behind it stands the writer.

    pending -- [Q] URLs waiting in the frontier; goes up and down (candidates)
    under_way -- requests under way, robots.txt included; goes up and down (scheduler)
    earlier_s -- seconds that earlier runs of this crawl took (core)
    extracted -- [E] URLs taken from the queue, including those that a cap then refuses (candidates)
    host_passed -- [H] URLs that passed the host test (candidates)
    lookups -- hosts looked up in DNS for the first time (core)
    resolved -- [D] hosts for which an address was found (disposition)
    ip_passed -- [I] URLs that passed the IP test (candidates)
    robots_attempted -- robots.txt requests: one per origin each time its rules expire (distributor)
    robots_passed -- [R] URLs that robots.txt allows (candidates)
    crawled -- [C] URLs whose final answer has a valid HTTP status (outcomes)
    links -- [L] http(s) links found in pages, repeats included (scheduler)
    page_bytes -- bytes on the wire of answers to pages (scheduler)
    robots_bytes -- bytes on the wire of answers to all but pages: robots.txt, HEAD, sitemaps,
        requisites (scheduler)
    fetch_s -- seconds from request to last byte, summed over all pages (scheduler)
    html_pages -- pages with a 2xx status and a wanted type (scheduler)
    html_bytes -- bytes of these pages, transfer and content codings removed (scheduler)
    parser_failed -- pages that no parser could read, or not in time (spider)
    near_duplicates -- pages whose links are not followed (FOLLOW_NEAR_DUPLICATES) (outcomes)
    codes -- final answers by "2xx" ... "5xx", "other" (outcomes)
    refused_access -- of these, answers 401, 402 and 451, by REFUSED_ACCESS
        (outcomes)
    walls -- of these, bot walls in the place of a page, by service (outcomes)
    dropped -- URLs that are not fetched, by reason (candidates, outlinks, scheduler, spider)
    failed -- tries of a page or HEAD without an answer, by reason (outcomes)
    retried -- retries, by reason or status (outcomes, disposition)
    robots -- answers to robots.txt, by "2xx", "4xx", "redirects" or a reason (disposition)
    sitemaps -- of sitemaps (docs/crawling.md): "found", URLs that a sitemap gave first; "only",
        answered pages that no page has linked to so far (candidates); files by "2xx" ... "5xx"
        (outcomes); files by format and by problem, "entries", and "foreign" entries (admissions)
    kept -- URLs kept for a later try, by reason; goes up and down (backlog)
    in_cycle -- pages and sitemaps that are visited again (RECRAWL); goes up and down (visits)
    visits -- their visits by what was found: "changed", "unchanged", "not_modified" (304),
        "unknown", "redirect", "error" (4xx and 5xx), "wall", "unanswered", "refused" (no request);
        "sitemap", sitemaps that were read again; and "gone", pages that have left the cycle;
        "lie", hosts whose 304s proved false; "brought_forward" by a sitemap's date
        (visits)
    outage_s -- seconds that the crawl waited for its own network (scheduler)
    levels -- URLs by level, "found/1" ... "found/10": new, whether a cap refuses them or not
        (candidates); "ended/1" ...: done or dropped (outcomes, candidates). Pending is
        found - ended
    stage_under_way -- requests under way by STAGES; goes up and down (scheduler, WARC pipeline)
    stage_ended -- requests that have ended by STAGES; of pages only those that were answered (same)
    stage_us -- microseconds that these took, summed: of pages from request to last byte (same)
    warc_bytes -- bytes written to WARC files (WarcPipeline)
    conditional -- conditional requests of the crawl: "asked"; of these answered by 304
        "not_modified"; 304 to requests without a condition "unasked"; 304 with bytes after their
        head "with_body"; "bad_validator", validators of a last visit that may not be sent (download
        handler)
    requisites -- of page requisites (PAGE_REQUISITES): final answers by "2xx" ... "5xx" (outcomes),
        and those that are not fetched, by reason (candidates). The funnel does not count them
    languages -- pages whose text was looked at (LANGUAGES), by ISO 639-3 or "und" (outcomes)
    dedup -- "found", pages that an earlier archive (DEDUP_INDEX) has in the same bytes (spider)
    """

    pending: int = 0
    under_way: int = 0
    earlier_s: float = 0.0
    extracted: int = 0
    host_passed: int = 0
    lookups: int = 0
    resolved: int = 0
    ip_passed: int = 0
    robots_attempted: int = 0
    robots_passed: int = 0
    crawled: int = 0
    links: int = 0
    page_bytes: int = 0
    robots_bytes: int = 0
    fetch_s: float = 0.0
    html_pages: int = 0
    html_bytes: int = 0
    parser_failed: int = 0
    near_duplicates: int = 0
    codes: Counter[str] = field(default_factory=Counter)
    refused_access: Counter[str] = field(default_factory=Counter)
    walls: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    retried: Counter[str] = field(default_factory=Counter)
    robots: Counter[str] = field(default_factory=Counter)
    kept: Counter[str] = field(default_factory=Counter)
    sitemaps: Counter[str] = field(default_factory=Counter)
    in_cycle: int = 0
    visits: Counter[str] = field(default_factory=Counter)
    outage_s: float = 0.0
    warc_bytes: int = 0
    levels: Counter[str] = field(default_factory=Counter)
    stage_under_way: Counter[str] = field(default_factory=Counter)
    stage_ended: Counter[str] = field(default_factory=Counter)
    stage_us: Counter[str] = field(default_factory=Counter)
    conditional: Counter[str] = field(default_factory=Counter)
    languages: Counter[str] = field(default_factory=Counter)
    dedup: Counter[str] = field(default_factory=Counter)
    requisites: Counter[str] = field(default_factory=Counter)

    @property
    def wire_bytes(self) -> int:
        """Bytes on the wire of all answers."""
        return self.page_bytes + self.robots_bytes

    def count_found(self, urls: Iterable[str]) -> None:
        """Count new URLs by level."""
        levels = self.levels
        for url in urls:
            levels[_FOUND[level_of(url)]] += 1

    def count_ended(self, url: str) -> None:
        """Count a URL that is done or dropped, by level."""
        self.levels[_ENDED[level_of(url)]] += 1

    def count_stage(self, stage: str, took_s: float) -> None:
        """Count a request that has ended."""
        self.stage_ended[stage] += 1
        self.stage_us[stage] += int(took_s * 1e6)

    def count_code(self, status: int, wall: str = "") -> None:
        """Count the final answer to one URL."""
        self.crawled += 1
        if wall:
            self.walls[wall] += 1
        family = status // 100
        self.codes[f"{family}xx" if 2 <= family <= 5 else "other"] += 1
        if status in REFUSED_ACCESS:
            self.refused_access[REFUSED_ACCESS[status]] += 1

    def count_visit(self, status: int, wall: str = "") -> None:
        """Count the final answer to a URL that had one before, in all of the funnel."""
        self.extracted += 1
        self.host_passed += 1
        self.ip_passed += 1
        self.robots_passed += 1
        self.count_code(status, wall)

    def to_dict(self) -> dict[str, Any]:
        """All counts as JSON values: what a store keeps for the next run."""
        values: dict[str, Any] = dict(zip(_NUMBERS, _numbers_of(self), strict=True))
        # `dict` copies in one step: another thread may add to the Counter meanwhile.
        values.update(zip(_COUNTERS, map(dict, _counters_of(self)), strict=True))
        return values

    def restore(self, values: dict[str, Any]) -> None:
        """Continue from the values of `to_dict`, except MOMENTARY: a new run has no requests."""
        for name in _NAMES:
            if name in values and name not in MOMENTARY:
                value = values[name]
                setattr(self, name, Counter(value) if isinstance(value, dict) else value)

    def add(self, changed: dict[str, Any]) -> None:
        """Add what another process has counted: the values of `Tracked.changes`."""
        for name, value in changed.items():
            if isinstance(value, dict):
                getattr(self, name).update(value)  # a Counter's update adds
            else:
                setattr(self, name, getattr(self, name) + value)

    def take_part(self, whole: Counters, number: int, parts: int) -> None:
        """Have part `number` of `parts` equal parts of the requests under way in `whole`."""
        self.under_way = (whole.under_way + number) // parts
        for stage, n in whole.stage_under_way.items():
            self.stage_under_way[stage] = (n + number) // parts

    def take_back(self, part: Counters) -> None:
        """Subtract `part` of the requests under way, of a process that has ended."""
        self.under_way -= part.under_way
        self.stage_under_way.subtract(part.stage_under_way)


_NAMES: Final = tuple(each.name for each in fields(Counters))  # `fields` takes 4 µs
_COUNTERS: Final = tuple(each.name for each in fields(Counters) if each.default_factory is Counter)
_NUMBERS: Final = tuple(name for name in _NAMES if name not in _COUNTERS)
_counters_of: Final = attrgetter(*_COUNTERS)
_numbers_of: Final = attrgetter(*_NUMBERS)
_differs: Final = dict.__ne__  # a Counter's own `!=` is a loop in Python


class Tracked:
    """Finds what is added to `counters` from call to call."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._numbers = list(_numbers_of(counters))
        self._counts = [dict(each) for each in _counters_of(counters)]

    def changes(self) -> dict[str, Any]:
        """What was added since the last call, by name; without names of no change. 4 µs."""
        changed: dict[str, Any] = {}
        numbers = list(_numbers_of(self._counters))
        if numbers != self._numbers:
            pairs = zip(_NUMBERS, numbers, self._numbers, strict=True)
            changed = {name: value - was for name, value, was in pairs if value != was}
            self._numbers = numbers
        for n, counts in enumerate(_counters_of(self._counters)):
            was = self._counts[n]
            if _differs(counts, was):
                self._counts[n] = now = dict(counts)
                changed[_COUNTERS[n]] = {
                    key: count - was.get(key, 0)
                    for key, count in now.items()
                    if count != was.get(key, 0)
                }
        return changed

    def say_again(self, names: Iterable[str]) -> None:
        """The next `changes` has the whole values of `names`: its receiver counts them anew."""
        for name in names:
            if name in _COUNTERS:
                self._counts[_COUNTERS.index(name)] = {}
            else:
                self._numbers[_NUMBERS.index(name)] = 0


class CrawlTotals(NamedTuple):
    """The crawl of all hubs, as hub `hub` knows it.

    counters -- the sum; requests under way are left out
    elapsed_s -- of the hub with the most
    hubs -- their number
    away -- those that are away, and since when, UTC
    """

    hub: int
    elapsed_s: float
    pages_per_s: float
    mbps: float
    unapplied: int
    counters: Counters
    hubs: int
    away: Mapping[int, str]
