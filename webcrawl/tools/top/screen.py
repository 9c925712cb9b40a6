"""A snapshot of a crawl as tables of rich, for a terminal. Pure: no terminal, no clock.

Hosts, reasons and names may be hostile: all characters but printable ASCII are escaped, so no line
has a control character, and each character takes one column. `console` reads no markup in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from webcrawl.base.wording import counted, size_text

_STATES: Final = ("ready", "leased", "snoozed", "parked", "waiting", "deferred", "idle", "retired")
Values = Mapping[str, Any]


def console(**options: Any) -> Console:
    """A terminal, or a file, that shows text as it is."""
    return Console(emoji=False, highlight=False, markup=False, **options)


def screen(snapshot: Values) -> Group:
    """The most important lines come first: a low terminal shows less of the lists of hosts."""
    s = snapshot
    whole = s.get("whole")
    hubs: list[RenderableType] = []
    if whole is not None:
        hubs = [_row("All hubs", [*_totals(whole), _hubs(whole["hubs"])]), ""]
    return Group(
        _title(s),
        *hubs,
        _row("" if whole is None else "This hub", _totals(s)),
        Padding(Text(f"Limit: {in_ascii(s['limited_by']['text'])}", "bold"), (0, 1)),
        "",
        Columns([_stages(s["stages"]), _hosts(s["hosts"])], padding=(0, 3)),
        "",
        *(_row(name, parts) for name, parts in _counts(s)),
        "",
        _lists(s),
    )


def in_ascii(text: object) -> str:
    """`text` with escapes for all characters but printable ASCII."""
    text = str(text)
    if text.isascii() and text.isprintable():
        return text
    return text.encode("unicode_escape").decode("ascii")


def duration(seconds: float) -> str:
    """Such as 1:02:03, or 3 d 04:05:06."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours:02}:{minutes:02}:{rest:02}"
    return f"{hours}:{minutes:02}:{rest:02}"


def _title(s: Values) -> Table:
    bar = Table.grid(expand=True, padding=(0, 1))
    bar.style = "reverse"
    bar.add_column(ratio=1, no_wrap=True)
    bar.add_column(justify="right", no_wrap=True)
    processes = counted(s["processes"], "process", "processes")
    state = f"{in_ascii(s['state'])}  {duration(s['elapsed_s'])}  {processes}"
    bar.add_row(f" {in_ascii(s['spider'])} {in_ascii(s['crawl'])}", state)
    return bar


def _row(name: str, parts: Iterable[str]) -> Text:
    """One line: as much of `parts` as it has room for."""
    start = f" {name:<9}" if name else " "
    return Text(start + "   ".join(parts), no_wrap=True, overflow="ellipsis")


def _table(*heads: str, wide: bool = False) -> Table:
    """A table whose first column is text, and whose others are numbers."""
    table = Table(box=None, expand=wide, header_style="bold", padding=(0, 0, 0, 1), pad_edge=True)
    first, *others = heads
    table.add_column(first, ratio=1 if wide else None, no_wrap=True)
    for head in others:
        table.add_column(head, justify="right", no_wrap=True, min_width=8)
    return table


def _totals(s: Values) -> Iterator[str]:
    counts = s["counts"]
    yield f"{counts.get('crawled', 0):,.0f} pages"
    yield f"{s['pages_per_s']:,.1f} pages/s"
    yield f"{s['mbps']:,.1f} Mbit/s"
    yield f"{counts.get('pending', 0):,.0f} URLs queued"
    if s.get("target"):
        left_s = s["target_left_s"]
        left = f", {duration(left_s)} left" if left_s is not None else ""
        yield f"target {s['target']:,}{left}"


def _hubs(hubs: list[dict[str, Any]]) -> str:
    away = [f"hub {each['hub']} since {each['away_since']}" for each in hubs if each["away_since"]]
    return f"away: {in_ascii(', '.join(away))}" if away else f"all {len(hubs)} are there"


def _stages(stages: list[dict[str, Any]]) -> Table:
    table = _table("Stage", "under way", "per s", "mean ms")
    for each in stages:
        limit = f" / {each['limit']:,}" if each["limit"] else ""
        table.add_row(
            in_ascii(each["name"]),
            f"{each['under_way']:,}{limit}",
            *(f"{each[name]:,.1f}" for name in ("per_s", "mean_ms")),
        )
    return table


def _hosts(hosts: Values) -> Table:
    table = _table("Hosts", "", "", "")
    table.columns[2].justify = "left"
    cells = [(state, f"{hosts.get(state, 0):,}") for state in _STATES]
    for left, right in zip(cells[::2], cells[1::2], strict=True):
        table.add_row(*left, *right)
    return table


def _counts(s: Values) -> Iterator[tuple[str, Iterable[str]]]:
    counts, busy, disk = s["counts"], s["busy"], s["disk"]
    codes = {name: counts.get(f"codes/{name}", 0) for name in ("2xx", "3xx", "4xx", "5xx", "other")}
    for name, numbers in (("Answers", codes), ("Dropped", s["drops"]), ("Kept", s["kept"])):
        yield name, (f"{in_ascii(reason)} {count:,.0f}" for reason, count in numbers.items())
    levels = zip(s["levels"]["found"], s["levels"]["ended"], strict=True)
    queued = {level: found - ended for level, (found, ended) in enumerate(levels, 1)}
    numbers = [f"{level}: {count:,}" for level, count in queued.items() if count > 0]
    yield "Queued", [f"level {numbers[0]}", *numbers[1:]] if numbers else []
    yield (
        "Memory",
        (
            f"{in_ascii(name)} {size_text(rss)}"
            + (f", {busy[name]:.0%} busy" if name in busy else "")
            for name, rss in s["rss_bytes"].items()
        ),
    )
    names = {"free_bytes": "free", "warc_bytes": "WARC", "jobdir_bytes": "JOBDIR"}
    yield "Disk", (f"{names[key]} {size_text(disk[key])}" for key in names if key in disk)


def _lists(s: Values) -> Table:
    """The largest queues beside the slowest hosts."""
    queues = _table("Largest queues", "URLs", "wait s", wide=True)
    for host in s["largest_queues"]:
        queues.add_row(in_ascii(host["host"]), f"{host['urls']:,}", f"{host['ready_in_s']:,.1f}")
    slow = _table("Slowest hosts", "ms", "URLs", wide=True)
    for host in s["slowest_hosts"]:
        slow.add_row(in_ascii(host["host"]), f"{host['mean_ms']:,.0f}", f"{host['urls']:,}")
    both = Table.grid(expand=True, padding=(0, 1))
    both.add_column(ratio=1)
    both.add_column(ratio=1)
    both.add_row(queues, slow)
    return both
