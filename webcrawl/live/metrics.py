"""A snapshot in Prometheus' text format, version 0.0.4. docs/watching.md has each metric.

Pure: a snapshot in, bytes out. Cardinality: no label has a host or a URL, and a label has
LABELS_MAX values at most, since a user's own scope rule may name any reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple

EXPOSITION_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
LABELS_MAX: Final = 100  # values of one label; the rest is added up as "more"
STATES: Final = ("running", "paused", "outage", "closing")
_FUNNEL: Final = ("extracted", "host_passed", "ip_passed", "robots_passed", "crawled")

Labels = Mapping[str, str]
Samples = Iterable[tuple[str, Labels, float]]  # suffix of the name, labels, value


class Metric(NamedTuple):
    """A metric family: its name without "webcrawl_", its type, and its help text."""

    name: str
    kind: Literal["counter", "gauge", "summary"]
    meaning: str


def exposition(snapshot: dict[str, Any]) -> bytes:
    """`snapshot` (`live.snapshot`) as the body of an answer to a scrape. 0.3 ms."""
    lines: list[str] = []
    whole = snapshot.get("whole")
    hub = {"hub": str(whole["hub"])} if whole is not None else {}
    for metric, samples in families(snapshot):
        name = f"webcrawl_{metric.name}"
        lines += [
            f"# HELP {name} {_escaped(metric.meaning, quotes=False)}",
            f"# TYPE {name} {metric.kind}",
        ]
        for suffix, labels, value in samples:
            every = {**hub, **labels}
            pairs = ",".join(f'{label}="{_escaped(text)}"' for label, text in every.items())
            lines.append(f"{name}{suffix}{{{pairs}}} {value!r}" if pairs else f"{name} {value!r}")
    return ("\n".join(lines) + "\n").encode("utf-8", "backslashreplace")


def families(snapshot: dict[str, Any]) -> Iterable[tuple[Metric, Samples]]:
    """Each metric with its samples."""
    counts: dict[str, float] = snapshot["counts"]
    yield from _state(snapshot)
    yield from _of_urls(counts)
    yield from _of_requests(counts)
    yield from _stages(snapshot["stages"], counts)
    yield Metric("hosts", "gauge", "Hosts by state"), _labelled("state", snapshot["hosts"])
    for name, meaning in (("found", "New URLs"), ("ended", "URLs done or dropped")):
        numbered = enumerate(snapshot["levels"][name], 1)
        samples: Samples = [("", {"level": str(level)}, count) for level, count in numbered]
        yield Metric(f"{name}_urls_total", "counter", f"{meaning} by level"), samples
    yield from _of_the_machine(snapshot)
    if "whole" in snapshot:
        yield from _of_all_hubs(snapshot["whole"])


def _state(snapshot: dict[str, Any]) -> Iterable[tuple[Metric, Samples]]:
    yield Metric("info", "gauge", "The crawl: always 1"), [("", _info(snapshot), 1)]
    yield (
        Metric("state", "gauge", "1 for the state of the crawl, else 0"),
        [("", {"state": state}, int(state == snapshot["state"])) for state in STATES],
    )
    yield (
        Metric("limited_by", "gauge", "1 for the stage that limits the crawl now"),
        [("", {"stage": snapshot["limited_by"]["stage"]}, 1)],
    )
    yield _gauge("elapsed_seconds", "Seconds of all runs of the crawl", snapshot["elapsed_s"])
    yield _gauge("processes", "Processes of the crawl", snapshot["processes"])
    yield _gauge("target_pages", "CLOSESPIDER_PAGECOUNT; 0: no target", snapshot["target"])


def _of_urls(counts: Mapping[str, float]) -> Iterable[tuple[Metric, Samples]]:
    yield _counter("pages_total", "Pages answered", counts, "crawled")
    yield (
        Metric("answers_total", "counter", "Final answers by class of status"),
        _by("code", counts, "codes"),
    )
    yield (
        Metric("refused_access_total", "counter", "Final answers 401, 402 and 451"),
        _by("status", counts, "refused_access"),
    )
    yield (
        Metric("walls_total", "counter", "Final answers that are bot walls"),
        _by("service", counts, "walls"),
    )
    yield (
        Metric("funnel_urls_total", "counter", "URLs that passed each step, in this order"),
        [("", {"step": step}, counts.get(step, 0)) for step in _FUNNEL],
    )
    yield _gauge("pending_urls", "URLs queued in the frontier", counts.get("pending", 0))
    yield (
        Metric("dropped_urls_total", "counter", "URLs that are not fetched"),
        _by("reason", counts, "dropped"),
    )
    yield (
        Metric("kept_urls", "gauge", "URLs kept for a later try"),
        _by("reason", counts, "kept"),
    )


def _of_requests(counts: Mapping[str, float]) -> Iterable[tuple[Metric, Samples]]:
    yield (
        Metric("failed_requests_total", "counter", "Tries of a page without an answer"),
        _by("reason", counts, "failed"),
    )
    yield (
        Metric("retried_requests_total", "counter", "Tries that are made again"),
        _by("reason", counts, "retried"),
    )
    yield (
        Metric("robots_answers_total", "counter", "Answers to robots.txt"),
        _by("answer", counts, "robots"),
    )
    yield _counter("robots_requests_total", "robots.txt requests", counts, "robots_attempted")
    yield _counter("dns_hosts_total", "Hosts looked up in DNS", counts, "lookups")
    yield _counter(
        "dns_hosts_found_total", "Hosts for which DNS has an address", counts, "resolved"
    )
    yield _counter("links_total", "Links found in pages, repeats included", counts, "links")
    yield (
        Metric("received_bytes_total", "counter", "Bytes on the wire, of pages and of the rest"),
        [("", {"kind": kind}, counts.get(f"{kind}_bytes", 0)) for kind in ("page", "robots")],
    )
    yield _counter("html_pages_total", "2xx pages with a wanted type", counts, "html_pages")
    yield _counter("html_bytes_total", "Bytes of these pages, decoded", counts, "html_bytes")
    yield _counter(
        "outage_seconds_total", "Seconds that our own network was out", counts, "outage_s"
    )


def _of_the_machine(snapshot: dict[str, Any]) -> Iterable[tuple[Metric, Samples]]:
    yield (
        Metric("resident_memory_bytes", "gauge", "Memory of each process"),
        _labelled("process", snapshot["rss_bytes"]),
    )
    yield (
        Metric("busy_ratio", "gauge", "Part of the time in which a process ran or waited to run"),
        _labelled("process", snapshot["busy"]),
    )
    disk = snapshot["disk"]
    for name, meaning in (
        ("free_bytes", "Free space on the disk of WARC_DIR"),
        ("warc_bytes", "Size of the WARC files in WARC_DIR"),
        ("jobdir_bytes", "Size of JOBDIR"),
    ):
        if name in disk:
            yield _gauge(name, meaning, disk[name])


def _of_all_hubs(whole: dict[str, Any]) -> Iterable[tuple[Metric, Samples]]:
    """The crawl of all hubs, as this one knows it: all have about the same values."""
    counts = whole["counts"]
    away = sum(bool(each["away_since"]) for each in whole["hubs"])
    for name, meaning, value in (
        ("hubs", "Hubs of the crawl", len(whole["hubs"])),
        ("hubs_away", "Hubs that this one does not hear", away),
        ("whole_pages", "Pages answered, of all hubs", counts.get("crawled", 0)),
        ("whole_pending_urls", "URLs queued, at all hubs", counts.get("pending", 0)),
        ("whole_pages_per_second", "Pages per second, of all hubs", whole["pages_per_s"]),
        ("whole_unapplied_links", "Links not known to be applied by their hub", whole["unapplied"]),
    ):
        yield _gauge(name, meaning, value)


def _stages(
    stages: list[dict[str, Any]], counts: Mapping[str, float]
) -> Iterable[tuple[Metric, Samples]]:
    under_way: Samples = [("", {"stage": each["name"]}, each["under_way"]) for each in stages]
    yield Metric("requests_under_way", "gauge", "Requests under way by stage"), under_way
    limits: Samples = [("", {"stage": s["name"]}, s["limit"]) for s in stages if s["limit"]]
    yield Metric("requests_limit", "gauge", "How many requests may be under way"), limits
    samples: list[tuple[str, Labels, float]] = []
    for name in (each["name"] for each in stages):
        took_s = counts.get(f"stage_us/{name}", 0) / 1e6
        samples.append(("_sum", {"stage": name}, took_s))
        samples.append(("_count", {"stage": name}, counts.get(f"stage_ended/{name}", 0)))
    yield Metric("request_seconds", "summary", "Time of requests that have ended"), samples


def _counter(
    name: str, meaning: str, counts: Mapping[str, float], count: str
) -> tuple[Metric, Samples]:
    return Metric(name, "counter", meaning), [("", {}, counts.get(count, 0))]


def _gauge(name: str, meaning: str, value: float) -> tuple[Metric, Samples]:
    return Metric(name, "gauge", meaning), [("", {}, value)]


def _info(snapshot: dict[str, Any]) -> Labels:
    return {name: str(snapshot[name]) for name in ("crawl", "spider", "version")}


def _by(label: str, counts: Mapping[str, float], group: str) -> Samples:
    return _labelled(label, _group(counts, group))


def _group(counts: Mapping[str, float], group: str) -> dict[str, float]:
    """The counts of one group, such as "dropped/dns", by the rest of their names."""
    prefix = f"{group}/"
    return {
        name.removeprefix(prefix): count
        for name, count in counts.items()
        if name.startswith(prefix)
    }


def _labelled(label: str, values: Mapping[str, float]) -> Samples:
    """A sample per value, LABELS_MAX at most."""
    if len(values) > LABELS_MAX:
        ranked = sorted(values.items(), key=lambda each: -each[1])
        more = sum(value for _, value in ranked[LABELS_MAX - 1 :])
        values = dict(ranked[: LABELS_MAX - 1]) | {"more": more}
    return [("", {label: name}, value) for name, value in values.items()]


def _escaped(text: str, *, quotes: bool = True) -> str:
    """`text` as a label's value, or without `quotes` as a help text."""
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quotes else text
