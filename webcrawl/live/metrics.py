"""A snapshot in Prometheus' text format, version 0.0.4. docs/watching.md has each metric.

Pure: a snapshot in, bytes out. Cardinality: no label has a host or a URL, and a label has
LABELS_MAX values at most, since a user's own scope rule may name any reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

EXPOSITION_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
LABELS_MAX: Final = 100  # values of one label; the rest is added up as "more"
STATES: Final = ("running", "paused", "outage", "closing")
_FUNNEL: Final = ("extracted", "host_passed", "ip_passed", "robots_passed", "crawled")

# Name, meaning, and the name in the snapshot's counts. A name that ends in _total is a counter.
_COUNTS: Final = (
    ("pages_total", "Pages answered", "crawled"),
    ("pending_urls", "URLs queued in the frontier", "pending"),
    ("robots_requests_total", "robots.txt requests", "robots_attempted"),
    ("dns_hosts_total", "Hosts looked up in DNS", "lookups"),
    ("dns_hosts_found_total", "Hosts for which DNS has an address", "resolved"),
    ("links_total", "Links found in pages, repeats included", "links"),
    ("html_pages_total", "2xx pages with a wanted type", "html_pages"),
    ("html_bytes_total", "Bytes of these pages, decoded", "html_bytes"),
    ("outage_seconds_total", "Seconds that our own network was out", "outage_s"),
)
# Name, meaning, label, and the group of counts ("dropped/dns") whose reasons are its values.
_GROUPS: Final = (
    ("answers_total", "Final answers by class of status", "code", "codes"),
    ("refused_access_total", "Final answers 401, 402 and 451", "status", "refused_access"),
    ("walls_total", "Final answers that are bot walls", "service", "walls"),
    ("dropped_urls_total", "URLs that are not fetched", "reason", "dropped"),
    ("kept_urls", "URLs kept for a later try", "reason", "kept"),
    ("failed_requests_total", "Tries of a page without an answer", "reason", "failed"),
    ("retried_requests_total", "Tries that are made again", "reason", "retried"),
    ("robots_answers_total", "Answers to robots.txt", "answer", "robots"),
)
_DISK: Final = {
    "free_bytes": "Free space on the disk of WARC_DIR",
    "warc_bytes": "Size of the WARC files in WARC_DIR",
    "jobdir_bytes": "Size of JOBDIR",
}

Numbers = Mapping[str, float]
Sample = tuple[str, Mapping[str, str], float]  # suffix of the name, labels, value
Family = tuple[str, str, list[Sample]]  # name without "webcrawl_", meaning, samples


def exposition(snapshot: dict[str, Any]) -> bytes:
    """`snapshot` (`live.snapshot`) as the body of an answer to a scrape. 0.3 ms."""
    lines: list[str] = []
    whole = snapshot.get("whole")
    hub = {"hub": str(whole["hub"])} if whole is not None else {}
    for short_name, meaning, samples in families(snapshot):
        name = f"webcrawl_{short_name}"
        kind = "counter" if name.endswith("_total") else "gauge"
        if short_name == "request_seconds":
            kind = "summary"
        lines += [f"# HELP {name} {_escaped(meaning, quotes=False)}", f"# TYPE {name} {kind}"]
        for suffix, labels, value in samples:
            every = {**hub, **labels}
            pairs = ",".join(f'{label}="{_escaped(text)}"' for label, text in every.items())
            lines.append(f"{name}{suffix}{{{pairs}}} {value!r}" if pairs else f"{name} {value!r}")
    return ("\n".join(lines) + "\n").encode("utf-8", "backslashreplace")


def families(snapshot: dict[str, Any]) -> Iterator[Family]:
    """Each metric with its samples."""
    counts: Numbers = snapshot["counts"]
    names = {name: str(snapshot[name]) for name in ("crawl", "spider", "version")}
    yield "info", "The crawl: always 1", [("", names, 1)]
    for name, meaning, value in _single(snapshot):
        yield name, meaning, [("", {}, value)]
    for name, meaning, label, values in _labelled(snapshot):
        yield name, meaning, [("", {label: each}, n) for each, n in _bounded(values).items()]
    took: list[Sample] = []
    for labels in ({"stage": stage["name"]} for stage in snapshot["stages"]):
        took.append(("_sum", labels, counts.get(f"stage_us/{labels['stage']}", 0) / 1e6))
        took.append(("_count", labels, counts.get(f"stage_ended/{labels['stage']}", 0)))
    yield "request_seconds", "Time of requests that have ended", took


def _single(snapshot: dict[str, Any]) -> Iterator[tuple[str, str, float]]:
    """The metrics of one number: name, meaning, value."""
    yield "elapsed_seconds", "Seconds of all runs of the crawl", snapshot["elapsed_s"]
    yield "processes", "Processes of the crawl", snapshot["processes"]
    yield "target_pages", "CLOSESPIDER_PAGECOUNT; 0: no target", snapshot["target"]
    for name, meaning, count in _COUNTS:
        yield name, meaning, snapshot["counts"].get(count, 0)
    for name, size_bytes in snapshot["disk"].items():
        yield name, _DISK[name], size_bytes
    if (whole := snapshot.get("whole")) is not None:  # all hubs have about the same values
        away = sum(bool(each["away_since"]) for each in whole["hubs"])
        pages, pending = (whole["counts"].get(name, 0) for name in ("crawled", "pending"))
        yield "hubs", "Hubs of the crawl", len(whole["hubs"])
        yield "hubs_away", "Hubs that this one does not hear", away
        yield "whole_pages", "Pages answered, of all hubs", pages
        yield "whole_pending_urls", "URLs queued, at all hubs", pending
        yield "whole_pages_per_second", "Pages per second, of all hubs", whole["pages_per_s"]
        unapplied = whole["unapplied"]
        yield "whole_unapplied_links", "Links not known to be applied by their hub", unapplied


def _labelled(snapshot: dict[str, Any]) -> Iterator[tuple[str, str, str, Numbers]]:
    """The metrics of several numbers: name, meaning, label, and the numbers by its values."""
    counts: Numbers = snapshot["counts"]
    stages: dict[str, dict[str, float]] = {each["name"]: each for each in snapshot["stages"]}
    states = {state: int(state == snapshot["state"]) for state in STATES}
    yield "state", "1 for the state of the crawl, else 0", "state", states
    limit = {snapshot["limited_by"]["stage"]: 1}
    yield "limited_by", "1 for the stage that limits the crawl now", "stage", limit
    for name, meaning, label, group in _GROUPS:
        prefix = f"{group}/"
        named = {each: count for each, count in counts.items() if each.startswith(prefix)}
        numbers = {each.removeprefix(prefix): count for each, count in named.items()}
        yield name, meaning, label, numbers
    passed = {step: counts.get(step, 0) for step in _FUNNEL}
    yield "funnel_urls_total", "URLs that passed each step, in this order", "step", passed
    received = {kind: counts.get(f"{kind}_bytes", 0) for kind in ("page", "robots")}
    yield "received_bytes_total", "Bytes on the wire, of pages and of the rest", "kind", received
    under_way = {name: each["under_way"] for name, each in stages.items()}
    yield "requests_under_way", "Requests under way by stage", "stage", under_way
    limits = {name: each["limit"] for name, each in stages.items() if each["limit"]}
    yield "requests_limit", "How many requests may be under way", "stage", limits
    yield "hosts", "Hosts by state", "state", snapshot["hosts"]
    for name, meaning in (("found", "New URLs"), ("ended", "URLs done or dropped")):
        levels = {str(n): count for n, count in enumerate(snapshot["levels"][name], 1)}
        yield f"{name}_urls_total", f"{meaning} by level", "level", levels
    yield "resident_memory_bytes", "Memory of each process", "process", snapshot["rss_bytes"]
    busy = "Part of the time in which a process ran or waited to run"
    yield "busy_ratio", busy, "process", snapshot["busy"]


def _bounded(values: Numbers) -> Numbers:
    """LABELS_MAX of the numbers at most, and the sum of the others."""
    if len(values) <= LABELS_MAX:
        return values
    ranked = sorted(values.items(), key=lambda each: -each[1])
    more = sum(value for _, value in ranked[LABELS_MAX - 1 :])
    return dict(ranked[: LABELS_MAX - 1]) | {"more": more}


def _escaped(text: str, *, quotes: bool = True) -> str:
    """`text` as a label's value, or without `quotes` as a help text."""
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quotes else text
