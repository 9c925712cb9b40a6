"""Names the stage that limits a running crawl, and the setting that moves the limit.

Plain values in, one to three sentences out: no crawl, no clock. The tests are in order: the first
one that holds names the limit, so a cause comes before its effects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from webcrawl.base.wording import counted

Stage = Literal[
    "closing", "paused", "outage", "target", "seeds", "cpu", "archive", "page", "dns", "robots",
    "head", "places", "address", "politeness", "servers", "leases", "none",
]  # fmt: skip

_ADMISSIONS: Final[tuple[Stage, ...]] = ("dns", "robots", "head")
_BUSY: Final = 0.8  # a process can hardly do more: the rest of the time it waits for data
_FULL: Final = 0.95  # of a limit: some places are always free for a moment
_READY_MIN: Final = 10  # fewer hosts are ready at any moment: leases are taken in turns
_FASTER: Final = "To go faster,"


class Limit(NamedTuple):
    """The stage that limits the crawl now, and why, with the remedy, in full sentences."""

    stage: Stage
    text: str


@dataclass(slots=True, frozen=True)
class Load:
    """How busy each part of a crawl is.

    state -- "running", "paused", "outage" or "closing"
    outage_s -- how long our own network has been out, in this outage
    queued, kept -- URLs in the frontier, and those of them kept for a later try
    is_short -- all pages that the target still needs are under way
    hosts -- number of hosts by state (`frontier.overview`)
    under_way -- requests by stage (`counters.STAGES`)
    requests_max, active_max -- CONCURRENT_REQUESTS, FRONTIER_ACTIVE_HOSTS
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
    requests_max: int
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
    def is_behind(self) -> bool:
        """Whether many hosts may be asked and are not: neither they nor their delays limit."""
        ready = self.hosts.get("ready", 0)
        return ready >= _READY_MIN and ready > self.hosts.get("leased", 0) / 2

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
            text = f"The crawl is ending: {counted(count, 'request is', 'requests are')} under way."
            return Limit("closing", text)
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
            "target",
            "Every page that the target still needs is under way. The crawl ends with the answers.",
        )
    if load.queued > load.kept or load.pages + load.admissions > load.requests_max // 10:
        return None
    if any(load.hosts.get(state) for state in ("ready", "snoozed", "parked", "waiting")):
        return None  # URLs that are taken from the queue wait for their host, as after robots.txt
    remedy = f"{_FASTER} add seeds, or widen the scope."
    if load.kept:
        failed = counted(load.kept, "URL is", "URLs are")
        return Limit(
            "seeds", f"Only {failed} queued, kept for a later try after a failure. {remedy}"
        )
    return Limit("seeds", f"No URL is queued. {remedy}")


def _processor(load: Load) -> Limit | None:
    name = max(load.busy, key=lambda name: load.busy[name], default="")
    if not name or load.busy[name] < _BUSY:
        return None
    process = _process(load, name)
    if (waited := load.waited.get(name, 0.0)) > load.busy[name] / 2:
        return Limit(
            "cpu",
            f"{process} waits for a processor for {waited:.0%} of the time. {_FASTER} stop other"
            f" work on this machine, or use one with more processors (it has {load.processors}).",
        )
    busy = f"{process} is busy for {load.busy[name]:.0%} of the time."
    return Limit("cpu", f"{busy} {_more_processes(load)}")


def _process(load: Load, name: str) -> str:
    """The process `name`, as the subject of a sentence."""
    if len(load.busy) <= 1:
        return "The process"
    return "The first process" if name == "main" else name.capitalize()


def _more_processes(load: Load) -> str:
    count = max(len(load.busy), 1)
    if count < load.processors:
        return f"{_FASTER} raise CRAWL_PROCESSES (now {count})."
    return f"{_FASTER} use a machine with more processors (this one has {load.processors})."


def _archive(load: Load) -> Limit | None:
    waiting = load.under_way.get("archive", 0)
    if waiting <= 1 or waiting < load.pages / 2:
        return None
    return Limit(
        "archive",
        f"{waiting:,} of {load.pages:,} pages wait until their records are written."
        f" {_FASTER} put WARC_DIR on a faster disk.",
    )


def _requests_full(load: Load) -> Limit | None:
    if load.pages < _FULL * load.requests_max:
        return None
    return Limit(
        "page",
        f"All {load.requests_max:,} page requests that CONCURRENT_REQUESTS allows are under way."
        f" {_FASTER} raise it.",
    )


def _admissions_full(load: Load) -> Limit | None:
    if load.admissions < _FULL * load.requests_max:
        return None
    stage = max(_ADMISSIONS, key=lambda stage: load.under_way.get(stage, 0))
    what = {"dns": "look-ups in DNS", "robots": "for robots.txt"}.get(stage, "HEAD")
    remedy = ", or set DNS_SERVERS to servers that answer faster" if stage == "dns" else ""
    return Limit(
        stage,
        f"All {load.requests_max:,} requests that CONCURRENT_REQUESTS allows beside pages are under"
        f" way, most of them {what}. {_FASTER} raise it{remedy}.",
    )


def _places(load: Load) -> Limit | None:
    waiting = load.hosts.get("waiting", 0)
    if not waiting or load.active < load.active_max or load.hosts.get("ready", 0):
        return None
    return Limit(
        "places",
        f"{waiting:,} hosts wait for a place among the active hosts. {_FASTER} raise"
        f" FRONTIER_ACTIVE_HOSTS (now {load.active_max:,}).",
    )


def _delays(load: Load) -> Limit | None:
    parked, snoozed = load.hosts.get("parked", 0), load.hosts.get("snoozed", 0)
    if load.is_behind:
        return None
    if parked > snoozed and load.ip_delay_s:
        return Limit(
            "address",
            f"{parked:,} hosts wait for their IP address (IP_DELAY = {load.ip_delay_s:g} s)."
            f" {_FASTER} add hosts at other addresses, or lower IP_DELAY.",
        )
    if snoozed > load.hosts.get("leased", 0):
        return Limit(
            "politeness",
            f"{snoozed:,} hosts wait for their delay (DOWNLOAD_DELAY = {load.delay_s:g} s, or"
            f" longer if the host asks for it). {_FASTER} add hosts, or lower DOWNLOAD_DELAY.",
        )
    return None


def _servers(load: Load) -> Limit | None:
    leased = load.hosts.get("leased", 0)
    if not leased or load.is_behind:
        return None
    hosts = counted(leased, "host has its", "hosts have their")
    return Limit(
        "servers",
        f"{hosts} one request under way, and few others may be asked now. {_FASTER} add hosts.",
    )


def _leases(load: Load) -> Limit | None:
    """Hosts are ready, fetches have room, and no process is busy: each turn takes too long."""
    if not load.is_behind:
        return None
    they = "the processes do" if len(load.busy) > 1 else "the process does"
    text = f"{load.hosts['ready']:,} hosts may be asked now, but {they} not lease them fast enough"
    if load.busy:
        name = max(load.busy, key=lambda name: load.busy[name])
        text += f". {_process(load, name)} is busy for {load.busy[name]:.0%} of the time"
    return Limit("leases", f"{text}. {_more_processes(load)}")


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
    _leases,
)
