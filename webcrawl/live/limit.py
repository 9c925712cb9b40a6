"""Names the stage that limits a running crawl, and the setting that moves the limit.

Plain values in, one sentence out: no crawl, no clock. The tests are in order: the first one that
holds names the limit, so a cause comes before its effects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

Stage = Literal[
    "closing", "paused", "outage", "target", "seeds", "cpu", "archive", "page", "dns", "robots",
    "head", "places", "address", "politeness", "servers", "none",
]  # fmt: skip

_ADMISSIONS: Final[tuple[Stage, ...]] = ("dns", "robots", "head")
_BUSY: Final = 0.8  # from here on a process does hardly more: it waits for data in between
_FULL: Final = 0.95  # of a limit: places become free and are taken again all the time


class Limit(NamedTuple):
    """The stage that limits the crawl now, and one plain sentence."""

    stage: Stage
    text: str


@dataclass(slots=True, frozen=True)
class Load:
    """How busy each part of a crawl is.

    state -- "running", "paused", "outage" or "closing"
    outage_s -- how long our own network has been out, in this outage
    queued, kept -- URLs in the frontier, and those of them kept for a later try
    is_short -- all places of the target are given out
    hosts -- number of hosts by state (`frontier.overview`)
    under_way -- requests by stage (`counters.STAGES`)
    pages_max, admissions_max, active_max -- CONCURRENT_REQUESTS, CONCURRENT_ADMISSIONS,
        FRONTIER_ACTIVE_HOSTS
    busy -- by process ("main", "process 2"): the part of the last seconds in which its event loop
        ran, or was ready to run and waited for a processor
    waited -- by process: the part of the last seconds in which it only waited for a processor
    processors -- that this machine has for the crawl
    delay_s -- DOWNLOAD_DELAY
    ip_delay_s -- IP_DELAY
    """

    state: str
    outage_s: float
    queued: int
    kept: int
    is_short: bool
    hosts: Mapping[str, int]
    under_way: Mapping[str, int]
    pages_max: int
    admissions_max: int
    active_max: int
    busy: Mapping[str, float]
    waited: Mapping[str, float]
    processors: int
    delay_s: float
    ip_delay_s: float

    @property
    def pages(self) -> int:
        return self.under_way.get("page", 0)

    @property
    def admissions(self) -> int:
        return sum(self.under_way.get(stage, 0) for stage in _ADMISSIONS)

    @property
    def active(self) -> int:
        return sum(self.hosts.get(state, 0) for state in ("ready", "parked", "snoozed", "leased"))


def limited_by(load: Load) -> Limit:
    """The limit of a crawl with this `load`."""
    for test in _TESTS:
        limit = test(load)
        if limit is not None:
            return limit
    return Limit("none", "Nothing is at its limit: hosts are asked as soon as they are ready.")


def _state(load: Load) -> Limit | None:
    match load.state:
        case "closing":
            count = load.pages + load.admissions
            return Limit("closing", f"The crawl is ending: {_requests(count)} under way.")
        case "paused":
            return Limit("paused", "The crawl is paused: no request is sent until it is resumed.")
        case "outage":
            return Limit(
                "outage",
                f"Our own network has been out for {load.outage_s:.0f} s: the crawl continues when"
                " it is back.",
            )
    return None


def _work(load: Load) -> Limit | None:
    if load.is_short:
        return Limit(
            "target", "Every page that the target still needs is under way: wait for the answers."
        )
    if load.queued > load.kept or load.pages + load.admissions > load.pages_max // 10:
        return None
    if any(load.hosts.get(state) for state in ("ready", "snoozed", "parked", "waiting")):
        return None  # URLs that are taken from the queue wait for their host, as after robots.txt
    if load.kept:
        kept = f"Only {load.kept:,} URLs that failed, and are kept for a later try, are queued"
        return Limit("seeds", f"{kept}: more seeds, or a wider scope.")
    return Limit("seeds", "No URL is queued: more seeds, or a wider scope.")


def _processor(load: Load) -> Limit | None:
    name = max(load.busy, key=lambda name: load.busy[name], default="")
    if not name or load.busy[name] < _BUSY:
        return None
    count = len(load.busy)
    process = "The first process" if name == "main" else name.capitalize()
    if count == 1:
        process = "The process"
    if (waited := load.waited.get(name, 0.0)) > load.busy[name] / 2:
        return Limit(
            "cpu",
            f"{process} waits for a processor for {waited:.0%} of the time: less other work on this"
            f" machine, or more processors (it has {load.processors}).",
        )
    remedy = (
        f"a higher CRAWL_PROCESSES (now {count})"
        if count < load.processors
        else f"a machine with more processors (this one has {load.processors})"
    )
    return Limit("cpu", f"{process} is busy for {load.busy[name]:.0%} of the time: {remedy}.")


def _archive(load: Load) -> Limit | None:
    waiting = load.under_way.get("archive", 0)
    if waiting <= 1 or waiting < load.pages / 2:
        return None
    return Limit(
        "archive",
        f"{waiting:,} of {load.pages:,} pages wait until their records are written: a faster disk"
        " for WARC_DIR.",
    )


def _requests_full(load: Load) -> Limit | None:
    if load.pages < _FULL * load.pages_max:
        return None
    return Limit(
        "page", f"All {load.pages_max:,} of CONCURRENT_REQUESTS are in use: a higher number."
    )


def _admissions_full(load: Load) -> Limit | None:
    if load.admissions < _FULL * load.admissions_max:
        return None
    stage = max(_ADMISSIONS, key=lambda stage: load.under_way.get(stage, 0))
    what = "look-ups in DNS" if stage == "dns" else {"robots": "robots.txt"}.get(stage, "HEAD")
    remedy = ", or DNS_SERVERS that answer faster" if stage == "dns" else ""
    return Limit(
        stage,
        f"All {load.admissions_max:,} of CONCURRENT_ADMISSIONS are in use, most for {what}: a"
        f" higher number{remedy}.",
    )


def _places(load: Load) -> Limit | None:
    waiting = load.hosts.get("waiting", 0)
    if not waiting or load.active < load.active_max or load.hosts.get("ready", 0):
        return None
    return Limit(
        "places",
        f"{waiting:,} hosts wait for one of {load.active_max:,} places: a higher"
        " FRONTIER_ACTIVE_HOSTS.",
    )


def _delays(load: Load) -> Limit | None:
    parked, snoozed = load.hosts.get("parked", 0), load.hosts.get("snoozed", 0)
    if load.hosts.get("ready", 0) > load.hosts.get("leased", 0):
        return None  # some are asked right now
    if parked > snoozed and load.ip_delay_s:
        return Limit(
            "address",
            f"{parked:,} hosts wait for their IP address (IP_DELAY = {load.ip_delay_s:g} s):"
            " hosts at more addresses, or a lower IP_DELAY.",
        )
    if snoozed > load.hosts.get("leased", 0):
        return Limit(
            "politeness",
            f"{snoozed:,} hosts wait for their delay (DOWNLOAD_DELAY = {load.delay_s:g} s, or"
            " longer if the host asks for it): more hosts, or a lower DOWNLOAD_DELAY.",
        )
    return None


def _servers(load: Load) -> Limit | None:
    leased = load.hosts.get("leased", 0)
    if not leased or load.hosts.get("ready", 0) > leased:
        return None
    return Limit(
        "servers",
        f"{leased:,} hosts have their one request under way, and few others may be asked: more"
        " hosts.",
    )


_TESTS: Final[tuple[Callable[[Load], Limit | None], ...]] = (
    _state,
    _work,
    _processor,
    _archive,
    _requests_full,
    _admissions_full,
    _places,
    _delays,
    _servers,
)


def _requests(count: int) -> str:
    return "1 request is" if count == 1 else f"{count:,} requests are"
