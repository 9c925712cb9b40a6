"""A snapshot as lines of text, for a terminal. Pure: no terminal, no clock.

Hosts, reasons and names may be hostile: all characters but printable ASCII are escaped, so no line
has a control character, and each character takes one column.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import zip_longest
from textwrap import wrap
from typing import Any, Final, Literal, NamedTuple

from webcrawl.wording import counted, size_text

WIDTH_MIN: Final = 40
_STATES: Final = ("ready", "leased", "snoozed", "parked", "waiting", "deferred", "idle", "retired")
_STAGES_WIDTH: Final = 41  # of the table of stages
_HOSTS_WIDTH: Final = 36
_HUBS_MAX: Final = 12


class Line(NamedTuple):
    """One line of the screen."""

    text: str
    style: Literal["", "title", "head", "limit"] = ""


def screen(snapshot: Mapping[str, Any], width: int, height: int | None = None) -> list[Line]:
    """The lines for a terminal of `width` columns and `height` lines; None: all lines.

    The most important lines come first: a low terminal shows less of the lists of hosts.
    """
    width = max(width, WIDTH_MIN)
    lines = [
        Line(_title(snapshot, width), "title"),
        *_whole(snapshot, width),
        Line(_totals(snapshot, width, "This hub" if "whole" in snapshot else "")),
        *_limit(snapshot, width),
        Line(""),
        *_stages_and_hosts(snapshot, width),
        Line(""),
        *(Line(text) for text in _counts(snapshot, width)),
        Line(""),
        *_lists(snapshot, width),
    ]
    return [line._replace(text=line.text[:width]) for line in lines[:height]]


def in_ascii(text: object) -> str:
    """`text` with escapes for all characters but printable ASCII."""
    text = str(text)
    if text.isascii() and text.isprintable():
        return text
    return text.encode("unicode_escape").decode("ascii")


def _title(s: Mapping[str, Any], width: int) -> str:
    left = " ".join(filter(None, (in_ascii(s["spider"]), in_ascii(s["crawl"]))))
    processes = counted(s["processes"], "process", "processes")
    right = f"{in_ascii(s['state'])}  {duration(s['elapsed_s'])}  {processes}"
    return f" {left[: width - len(right) - 4]}".ljust(width - len(right) - 1) + right + " "


def _totals(s: Mapping[str, Any], width: int, name: str = "") -> str:
    counts = s["counts"]
    parts = [
        f"{counts.get('crawled', 0):,.0f} pages",
        f"{s['pages_per_s']:,.1f} pages/s",
        f"{s['mbps']:,.1f} Mbit/s",
        f"{counts.get('pending', 0):,.0f} URLs queued",
    ]
    if s.get("target"):
        left_s = s["target_left_s"]
        left = f", {duration(left_s)} left" if left_s is not None else ""
        parts.append(f"target {s['target']:,}{left}")
    return _row(name, parts, width)


def _whole(s: Mapping[str, Any], width: int) -> Iterable[Line]:
    """The crawl of all hubs, and a table of them; nothing with one hub."""
    whole = s.get("whole")
    if whole is None:
        return
    yield Line(_totals(whole, width, "All hubs"))
    place = max(width - 72, 8)
    heads = f"{'pages':>12}{'pages/s':>9}{'URLs queued':>13}"
    yield Line(f" {'Hub':<5}{'':<{place}} {heads}  state", "head")
    for each in whole["hubs"][:_HUBS_MAX]:
        state = f"away {each['away_since']}" if each["away_since"] else each["state"]
        here = f"{state}, here" if each["is_own"] else state
        yield Line(
            f" {each['hub']:<5}{in_ascii(each['place'])[:place]:<{place}} {each['pages']:>12,}"
            f"{each['pages_per_s']:>9,.1f}{each['pending']:>13,}  {in_ascii(here)}"
        )
    if len(whole["hubs"]) > _HUBS_MAX:
        more = counted(len(whole["hubs"]) - _HUBS_MAX, "more hub")
        yield Line(f" {more}: the live page has all")
    yield Line("")


def _limit(s: Mapping[str, Any], width: int) -> list[Line]:
    text = f"Limit: {in_ascii(s['limited_by']['text'])}"
    return [Line(f" {part}", "limit") for part in wrap(text, width - 2)]


def _stages_and_hosts(s: Mapping[str, Any], width: int) -> list[Line]:
    left = [f" {'Stage':<7}{'under way':>11}{'per s':>11}{'mean ms':>9}"]
    for stage in s["stages"]:
        limit = f" / {stage['limit']:,}" if stage["limit"] else ""
        left.append(
            f" {in_ascii(stage['name']):<8}{stage['under_way']:>5,}{limit:<8}"
            f"{stage['per_s']:>8,.1f}{stage['mean_ms']:>9,.1f}"
        )
    cells = [f"{state:<8}{s['hosts'].get(state, 0):>9,}" for state in _STATES]
    right = ["Hosts", *("  ".join(cells[row : row + 2]) for row in range(0, len(cells), 2))]
    if width < _STAGES_WIDTH + _HOSTS_WIDTH:
        rows = [*left, "", *(f" {cell}" for cell in right)]
    else:
        rows = [
            f"{one:<{_STAGES_WIDTH}}{other}"
            for one, other in zip_longest(left, right, fillvalue="")
        ]
    heads = (left[0], " Hosts")
    return [Line(row, "head" if row.startswith(heads) else "") for row in rows]


def _counts(s: Mapping[str, Any], width: int) -> Iterable[str]:
    counts = s["counts"]
    codes = {name: counts.get(f"codes/{name}", 0) for name in ("2xx", "3xx", "4xx", "5xx", "other")}
    yield _row("Answers", _pairs(codes), width)
    yield _row("Dropped", _pairs(s["drops"]), width)
    yield _row("Kept", _pairs(s["kept"]), width)
    levels = zip(s["levels"]["found"], s["levels"]["ended"], strict=True)
    pending = {str(n): max(found - ended, 0) for n, (found, ended) in enumerate(levels, 1)}
    queued = [f"{level}: {count:,}" for level, count in pending.items() if count]
    yield _row("Queued", [f"level {queued[0]}", *queued[1:]] if queued else [], width)
    busy = s["busy"]
    memory = [
        f"{in_ascii(name)} {size_text(rss)}" + (f", {busy[name]:.0%} busy" if name in busy else "")
        for name, rss in s["rss_bytes"].items()
    ]
    yield _row("Memory", memory, width)
    names = {"free_bytes": "free", "warc_bytes": "WARC", "jobdir_bytes": "JOBDIR"}
    disk = [
        f"{name} {size_text(s['disk'][key])}" for key, name in names.items() if key in s["disk"]
    ]
    yield _row("Disk", disk, width)


def _row(name: str, parts: Iterable[str], width: int) -> str:
    """One line with as many of `parts` as it has room for."""
    line = f" {name:<9}" if name else " "
    parts = list(parts)
    for number, part in enumerate(parts):
        text = f"{'   ' if number else ''}{part}"
        is_last = number == len(parts) - 1
        if len(line) + len(text) > width - (1 if is_last else 5):
            return f"{line} ..."
        line += text
    return line


def _pairs(counts: Mapping[str, float]) -> list[str]:
    return [f"{in_ascii(name)} {count:,.0f}" for name, count in counts.items()]


def _lists(s: Mapping[str, Any], width: int) -> list[Line]:
    """The largest queues beside the slowest hosts."""
    half = (width - 3) // 2
    numbers = 16  # columns at the right of a host's name
    name = half - numbers
    queues = [f"{'Largest queues':<{name}}{'URLs':>8}{'wait s':>8}"]
    for host in s["largest_queues"]:
        text = in_ascii(host["host"])[: name - 1]
        queues.append(f"{text:<{name}}{host['urls']:>8,}{host['ready_in_s']:>8,.1f}")
    slow = [f"{'Slowest hosts':<{name}}{'ms':>8}{'URLs':>8}"]
    for host in s["slowest_hosts"]:
        text = in_ascii(host["host"])[: name - 1]
        slow.append(f"{text:<{name}}{host['mean_ms']:>8,.0f}{host['urls']:>8,}")
    return [
        Line(f" {one:<{half}} {other}", "" if number else "head")
        for number, (one, other) in enumerate(zip_longest(queues, slow, fillvalue=""))
    ]


def duration(seconds: float) -> str:
    """Such as 1:02:03, or 3 d 04:05:06."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours:02}:{minutes:02}:{rest:02}"
    return f"{hours}:{minutes:02}:{rest:02}"
