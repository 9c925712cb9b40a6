"""The screen of `scrapy top`: fits the terminal, and shows hostile text as text."""

from __future__ import annotations

import io
from typing import Any

from tests.cases import each_of
from tests.unit.snapshots import HOSTILE, of_hubs, snapshot
from webcrawl.tools.top.command import ended
from webcrawl.tools.top.screen import console, duration, in_ascii, screen


def lines_of(value: dict[str, Any], width: int = 80) -> list[str]:
    out = io.StringIO()
    console(file=out, width=width).print(screen(value))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def text(width: int = 80, **changes: object) -> str:
    return "\n".join(lines_of(snapshot() | changes, width))


def test_a_terminal_of_80_by_24_shows_what_matters() -> None:
    shown = "\n".join(text(80).splitlines()[:24])
    for part in (
        *("broad 20261123050000-abcdef", "running  1:02:03  2 processes"),
        *("190 pages   87.5 pages/s   12.3 Mbit/s   1,234,567 URLs queued",),
        "Limit: 2 hosts wait for their delay.",
        *("head      3 / 512     12.0     31.2    waiting        0 deferred", "leased"),
        *("2xx 180", "robots 3   host_cap 1", "Kept     dns 2"),
        *("level 2: 1   3: 2", "main 100 MB, 25% busy   process 2 90 MB, 75% busy"),
        "free 80 GB   WARC 2 MB   JOBDIR 1 MB",
        *("big.example", "12,345", "slow.example", "812"),
    ):
        assert part in shown


@each_of("width", [1, 40, 79, 80, 81, 132, 300])
def test_the_lines_fit(width: int) -> None:
    value = snapshot()
    value["largest_queues"] = [
        {"host": "x" * 253, "urls": 10**9, "ready_in_s": 1e6} for _ in range(20)
    ]
    value["drops"] = {f"scope_reason_{n}": 10**9 for n in range(100)}
    value["limited_by"]["text"] = "word " * 100
    assert all(len(line) <= width for line in lines_of(value, width))


@each_of("hostile", HOSTILE)
def test_hostile_text_has_no_control_character(hostile: str) -> None:
    value = snapshot()
    value["spider"] = hostile
    value["drops"] = {hostile: 1}
    value["largest_queues"] = [{"host": hostile, "urls": 1, "ready_in_s": 0.0}]
    value["slowest_hosts"] = [{"host": hostile, "mean_ms": 1.0, "urls": 0}]
    value["rss_bytes"] = {hostile: 1}
    value["limited_by"] = {"stage": "x", "text": hostile}
    for line in lines_of(value, 100):
        assert line.replace("…", "").isascii()
        assert line.isprintable()


def test_a_target_shows_the_time_that_is_left() -> None:
    assert "target 20,000, 0:01:23 left" in text(100, target=20_000, target_left_s=83.4)
    assert "target 20,000" in text(100, target=20_000)


def test_a_crawl_of_which_nothing_is_known_has_a_screen() -> None:
    empty = {"hosts": {}, "stages": [], "rss_bytes": {}, "busy": {}, "disk": {}, "drops": {}}
    assert "Limit" in text(**empty, largest_queues=[], slowest_hosts=[], counts={})


def test_durations_and_names_are_short_and_plain() -> None:
    assert [duration(s) for s in (0, 59.9, 3600, 90_061)] == [
        *("0:00:00", "0:00:59", "1:00:00", "1 d 01:01:01"),
    ]
    assert in_ascii("a\x1b") == "a\\x1b"


def test_an_end_that_was_not_seen_may_be_a_kill() -> None:
    last = snapshot()
    assert ended(last) == "The crawl has ended or was killed: 190 pages after 1:02:03."
    assert ended(last | {"state": "closing"}) == "The crawl has ended: 190 pages after 1:02:03."


def test_a_hub_shows_the_whole_crawl_and_who_is_away() -> None:
    lines = lines_of(of_hubs(), 120)
    text = " ".join(" ".join(lines[1:3]).split())
    assert text.startswith("All hubs 380 pages 175.0 pages/s 24.6 Mbit/s 2,469,134 URLs queued")
    assert "away: hub 2 since 2026-11-23T05:00:00Z" in text
    assert any(line.startswith(" This hub 190 pages") for line in lines)
