"""Figures of small crawl logs that are counted by hand."""

from __future__ import annotations

import gzip
import io
import json
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import each_of
from webcrawl.cluster.claims import Claim, write_claim
from webcrawl.frontier.disk.folderlock import LOCK, hold
from webcrawl.report.card import Card, write_card
from webcrawl.tools.report.archive import Place, Task, is_in, read_task
from webcrawl.tools.report.distributions import binned, counted, quantiles
from webcrawl.tools.report.folder import NoCrawlError, find_crawl, find_crawls, is_locked
from webcrawl.tools.report.page import html
from webcrawl.tools.report.printed import lines_of
from webcrawl.tools.report.report import Report, make_report, open_crawl
from webcrawl.tools.report.state import CrawlState, merged, read_points, speeds
from webcrawl.tools.report.tables import listed, write_csv

CRAWL = "20261123045000-abcdef"


def line(url: str, **fields: Any) -> bytes:
    values = {"time": "2026-11-23T05:00:00.000Z", "kind": "page", "end": "done", "url": url}
    values |= {"host": url.split("/")[2]} | fields
    return json.dumps(values).encode() + b"\n"


def page(url: str, **fields: Any) -> bytes:
    return line(url, **{"status": 200, "tries": 1, "ip": "192.0.2.1"} | fields)


def write(folder: Path, *lines: bytes, crawl: str = CRAWL) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / f"crawl-{crawl}-00001.jsonl").write_bytes(b"".join(lines))
    return folder


@contextmanager
def reported(*folders: Path) -> Iterator[Report]:
    found = find_crawls(folders, Path("not used without a store"))
    with open_crawl(found) as (log, state):
        yield make_report(log, found, state)


def rows(report: Report, name: str) -> list[dict[str, Any]]:
    return report.tables[name].records()


def test_missing_fields_are_zero_and_an_empty_log_is_a_report(tmp_path: Path) -> None:
    with reported(write(tmp_path / "empty")) as report:
        assert report.totals["pages_answered"] == 0
        assert html(report).startswith("<!DOCTYPE html>")
    with reported(write(tmp_path / "one", page("http://a.com/"))) as report:
        assert report.totals["pages_answered"] == report.totals["html_pages_kept"] == 1
        assert report.totals["links_found"] == report.totals["html_bytes_kept"] == 0
        assert [row["lang"] for row in rows(report, "languages")] == ["(none)"]


def test_torn_and_damaged_lines_are_counted_and_left_out(tmp_path: Path) -> None:
    torn = page("http://a.com/")[:40]
    folder = write(tmp_path, page("http://a.com/"), b"no json\n", b'{"url":"\\ud800"}\n', torn)
    with reported(folder) as report:
        assert report.totals["pages_answered"] == 1
        assert report.unreadable == 3


def test_packed_files_of_many_members_are_read(tmp_path: Path) -> None:
    packed = b"".join(gzip.compress(page(f"http://a.com/{n}")) for n in range(20))
    (tmp_path / f"crawl-{CRAWL}-00001.jsonl.gz").write_bytes(packed)
    # The same file before it was packed: a kill between the two steps leaves both.
    (tmp_path / f"crawl-{CRAWL}-00001.jsonl").write_bytes(page("http://a.com/0"))
    (tmp_path / f"crawl-{CRAWL}-00002.jsonl").write_bytes(page("http://a.com/20"))
    (tmp_path / f"series-{CRAWL}.jsonl").write_bytes(b'{"t": 1}\n')
    with reported(tmp_path) as report:
        assert report.totals["pages_answered"] == 21


def test_of_a_url_that_was_kept_the_last_line_counts(tmp_path: Path) -> None:
    kept = {"end": "kept", "reason": "timeout", "tries": 3}
    folder = write(
        tmp_path,
        line("http://a.com/", time="2026-11-23T05:00:01.000Z", **kept),
        line("http://a.com/", time="2026-11-23T05:00:02.000Z", **kept),
        page("http://a.com/", time="2026-11-23T05:00:03.000Z"),
        line("http://b.com/", time="2026-11-23T05:00:01.000Z", **kept),
        line("http://b.com/", time="2026-11-23T05:00:01.000Z", **kept),
    )
    with reported(folder) as report:
        assert report.totals["pages_answered"] == 1
        assert report.totals["urls_kept_for_a_later_try"] == 1
        assert rows(report, "reasons") == [{"reason": "timeout", "ended_as": "kept", "urls": 1}]
        visited = {row["host"]: row["visited_urls"] for row in rows(report, "hosts")}
        assert visited == {"a.com": 1, "b.com": 1}


def test_lines_of_records_that_end_no_turn_are_left_out(tmp_path: Path) -> None:
    folder = write(
        tmp_path,
        page("http://a.com/", time="2026-11-23T05:00:01.000Z", end="retried", status=503),
        page("http://a.com/", time="2026-11-23T05:00:02.000Z"),
        page("http://a.com/", time="2026-11-23T05:00:03.000Z", end="lost", status=404),
        page("http://b.com/", time="2026-11-23T05:00:03.000Z", end="lost"),
    )
    with reported(folder) as report:
        assert report.totals["pages_answered"] == report.totals["html_pages_kept"] == 1
        assert [row["host"] for row in rows(report, "hosts")] == ["a.com"]
        assert report.unreadable == 0


def test_a_page_that_is_visited_again_is_what_its_last_answer_was(tmp_path: Path) -> None:
    def visits(url: str, *found: tuple[str, dict[str, Any]]) -> list[bytes]:
        lines = [page(url, time="2026-11-23T05:00:00.000Z", **FIRST)]
        for minute, (visit, fields) in enumerate(found, 1):
            time = f"2026-11-23T05:0{minute}:00.000Z"
            lines.append(page(url, visit=visit, **{"time": time, "size_bytes": 100} | fields))
        return lines

    same = {"body_bytes": 40, "digest": "sha1:A", "warc": "w", "offset": 700}
    not_modified = ("not_modified", {"status": 304, "warc": "w", "offset": 900})
    kept = {"end": "kept", "status": None, "reason": "timeout", "size_bytes": None}
    folder = write(
        tmp_path,
        *visits("http://a.com/", not_modified, ("unanswered", kept)),
        *visits("http://b.com/", ("unchanged", same), not_modified, not_modified),
        *visits("http://c.com/", ("changed", same | {"digest": "sha1:B"}), not_modified),
        *visits("http://d.com/", not_modified, ("error", {"status": 404})),
        *visits("http://e.com/", ("redirect", {"status": 304})),  # not asked for
    )
    with reported(folder) as report:
        assert report.totals["pages_answered"] == 5
        assert report.totals["html_pages_kept"] == 3
        assert report.totals["urls_kept_for_a_later_try"] == 0
        assert report.totals["later_visits"] == 9
        assert report.totals["page_bytes_on_the_wire"] == 5 * 1000 + 9 * 100
        funnel = {row["stage"]: row["count"] for row in rows(report, "funnel")}
        assert funnel["C"] == 14
        codes = {row["status"]: row["pages"] for row in rows(report, "codes")}
        assert codes == {200: 3, 304: 1, 404: 1}
        found = {row["visit"]: row["visits"] for row in rows(report, "visits")}
        assert found["not_modified"] == 5
        assert (found["unanswered"], found["error"], found["redirect"]) == (1, 1, 1)
    with open_crawl(find_crawl(folder)) as (log, _):
        places = log.execute('SELECT url, "offset" FROM body ORDER BY url').fetchall()
        assert places == [("http://a.com/", 500), ("http://b.com/", 500), ("http://c.com/", 700)]


def test_a_bot_wall_is_answered_and_is_no_document(tmp_path: Path) -> None:
    later = {"time": "2026-11-23T05:01:00.000Z"}
    wall = {"wall": "cloudflare", "status": 403}
    folder = write(
        tmp_path,
        page("http://a.com/", **FIRST),
        page("http://a.com/", **later, **wall, visit="wall", size_bytes=200),
        page("http://b.com/", **later, wall="akamai", body_bytes=700),
        page("http://b.com/2", **wall),
        page("http://c.com/", **wall),
    )
    with reported(folder) as report:
        assert report.totals["html_pages_kept"] == 1
        assert {row["status"]: row["pages"] for row in rows(report, "codes")} == {200: 2, 403: 2}
        assert [list(row.values()) for row in rows(report, "walls")] == [
            ["akamai", "b.com", 1, 0, "2026-11-23 05:01:00"],
            ["cloudflare", "a.com", 1, 1, "2026-11-23 05:01:00"],
            ["cloudflare", "b.com", 1, 0, "2026-11-23 05:00:00"],
            ["cloudflare", "c.com", 1, 0, "2026-11-23 05:00:00"],
        ]
        assert report.walls == [("cloudflare", 3, 3), ("akamai", 1, 1)]
        assert lines_of(report)[10] == (
            "Bot walls in the place of pages: cloudflare 3 (on 3 hosts), akamai 1 (on 1 host)"
        )
        assert "cloudflare: 3 answers of 3 hosts; akamai: 1 answer of 1 host" in html(report)


FIRST = {"size_bytes": 1000, "body_bytes": 40, "digest": "sha1:A", "warc": "w", "offset": 500}


def test_robots_txt_is_no_page(tmp_path: Path) -> None:
    folder = write(
        tmp_path,
        line("http://a.com/robots.txt", kind="robots", status=404, size_bytes=1000, total_ms=500),
        page("http://a.com/", total_ms=1500, size_bytes=3000),
    )
    with reported(folder) as report:
        assert report.totals["pages_answered"] == 1
        assert report.totals["mean_request_s"] == 1.5
        (host,) = rows(report, "hosts")
        assert (host["time_s"], host["visited_urls"]) == (2, 1)
        found = {row["figure"]: row["value"] for row in rows(report, "questions")}
        assert found["robots.txt with 4xx"] == 1
        assert found["average page"] == 3000


def test_bodies_that_were_not_read_are_no_documents(tmp_path: Path) -> None:
    folder = write(
        tmp_path,
        page("http://a.com/a", links=5, body_bytes=10),
        page("http://a.com/b", reason="content_type", media_type="image/png"),
        page("http://a.com/c", status=404, links=7),
    )
    with reported(folder) as report:
        assert report.totals["html_pages_kept"] == 1
        found = {row["figure"]: row["value"] for row in rows(report, "questions")}
        assert found["links a page"] == 5
        assert {row["status"]: row["pages"] for row in rows(report, "codes")} == {200: 2, 404: 1}


HOSTILE = "</script><img src=x onerror=alert(1)>\u202e\x1b[31m"


def test_duplicates_and_near_duplicates_are_counted(tmp_path: Path) -> None:
    of = "http://a.com/"
    folder = write(
        tmp_path,
        page(of),
        page("http://b.com/", duplicate_of=of, near_duplicate_of=of),
        page("http://c.com/", near_duplicate_of=of),
    )
    with reported(folder) as report:
        assert (report.totals["duplicates"], report.totals["near_duplicates"]) == (1, 2)
        said = "1 of them duplicates, 2 near-duplicates whose links were not followed"
        assert lines_of(report)[2].endswith(said)
        assert "near-duplicates, links not followed" in html(report)


def test_the_page_has_words_where_the_csv_has_codes(tmp_path: Path) -> None:
    folder = write(
        tmp_path,
        page("http://a.com/", total_ms=9, first_byte_ms=5),
        page("http://a.com/b", reason="content_type", media_type="image/png"),
    )
    with reported(folder) as report:
        assert rows(report, "reasons")[0]["ended_as"] == "done"
        assert {row["stage"] for row in rows(report, "latency")} >= {"first_byte", "total"}
        text = html(report)
        assert "URLs lost: content_type 1 (answered, not kept)" in lines_of(report)
    assert '["content_type","answered, not kept",1]' in text
    assert '["first byte",' in text
    assert '["first_byte",' not in text


def test_values_of_the_web_never_become_markup(tmp_path: Path) -> None:
    hostile = page(f"http://a.com/{HOSTILE}", lang=HOSTILE, media_type=HOSTILE, charset=HOSTILE)
    with reported(write(tmp_path, hostile)) as report:
        text = html(report)
    assert "onerror" in text
    assert "<img" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_csv_holds_neither_formulas_nor_control_characters() -> None:
    out = io.StringIO()
    values = [("=1+1", 1), ("@x", -2), ("-a.com", 0.5), ("a\x1bb\nc", None), ('say "a,b"', 10**13)]
    write_csv(listed("t", ("text", "n"), values), out)
    assert out.getvalue() == (
        "text,n\n'=1+1,1\n'@x,-2\n'-a.com,0.5\na\\x1bb\\nc,\n" + '"say ""a,b""",10000000000000\n'
    )


def test_the_latest_of_several_crawls_is_chosen(tmp_path: Path) -> None:
    write(tmp_path, page("http://a.com/"))
    write(tmp_path, page("http://b.com/"), crawl="20261124000000-000000")
    assert find_crawl(tmp_path).crawl == "20261124000000-000000"
    assert find_crawl(tmp_path).others == (CRAWL,)
    assert find_crawl(tmp_path, CRAWL).crawl == CRAWL
    with pytest.raises(NoCrawlError, match="no crawl-2-"):
        find_crawl(tmp_path, "2")


def test_a_folder_without_a_crawl_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoCrawlError, match="has no crawl log"):
        find_crawl(tmp_path)
    with pytest.raises(NoCrawlError, match="is not a folder"):
        find_crawl(tmp_path / "none")
    gone = str(tmp_path / "gone")
    card = Card(
        crawl=CRAWL, spider="broad", started="", pid=1, warc_dir=gone, report_dir=gone, version=""
    )
    write_card(tmp_path, card)
    with pytest.raises(NoCrawlError, match="gone"):
        find_crawl(tmp_path)


def test_a_time_series_gives_rates_between_its_points(tmp_path: Path) -> None:
    path = tmp_path / "series.jsonl"
    points = [
        {"t": 2.0, "counts": {"crawled": 10, "page_bytes": 0}, "under_way": {"page": 3, "dns": 1}},
        {"t": 4.0, "counts": {"crawled": 30, "page_bytes": 500_000, "under_way": 5}},
        {"t": 4.0, "counts": {}},
    ]
    points[1]["under_way"] = {"page": 5, "archive": 2}  # archived pages are in both
    text = "\n".join(map(json.dumps, points)) + '\n{"t": 5, "cou'
    path.write_text(text)
    (speed,) = speeds(read_points(path))
    assert (speed["pages_per_s"], speed["mbps"], speed["under_way"]) == (10, 2, 5)
    assert read_points(tmp_path / "absent") == []


@settings(max_examples=8)
@given(st.lists(st.integers(0, 10**15), max_size=8))
def test_each_number_has_one_bin(values: list[int]) -> None:
    with duckdb.connect() as log:
        bins = binned(log, "of", counted(log, Counter(values))).rows()
        lows = [low for low, *_ in bins]
        for low, below, documents, total in bins:
            inside = [value for value in values if low <= value < below]
            assert (len(inside), sum(inside)) == (documents, total)
            log.execute("DROP TABLE counted")
            bounds = binned(log, "of", counted(log, Counter([low, below]))).rows()
            assert [bound for bound, *_ in bounds] == [low, below]
    assert len(lows) == len(set(lows))


def test_quantiles_of_counted_values() -> None:
    with duckdb.connect() as log:
        values = counted(log, Counter({1: 50, 10: 49, 1000: 1}))
        mean, *found, largest = quantiles(log, values)
        assert (mean, found, largest) == (15.4, [1, 1, 1, 10, 10, 10], 1000)
        assert quantiles(log, f"{values} WHERE value < 0") == []


@each_of(
    ("host", "inside"),
    [
        ("tamu.edu", True),
        ("irl.cs.tamu.edu", True),
        ("tamu.edu.cn", False),
        ("nottamu.edu", False),
        ("www.x.com", False),
    ],
)
def test_a_subdomain_is_in_its_domain(host: str, inside: bool) -> None:
    assert is_in(host, "tamu.edu") is inside


def test_torn_absent_and_foreign_archives_cost_only_their_pages(tmp_path: Path) -> None:
    torn, text = tmp_path / "torn.warc.gz", tmp_path / "text.warc.gz"
    torn.write_bytes(gzip.compress(b"WARC/1.1\r\n" * 1000)[:60])
    text.write_text("no archive")
    for path in (torn, text, tmp_path / "absent"):
        found = read_task(Task(path, [Place("http://a.com/", 0)] * 2, True, "a.com"))
        assert (found.pages, found.unread) == (0, 2)


def test_the_log_of_a_running_or_killed_crawl_outlasts_its_time_series(
    tmp_path: Path,
) -> None:
    point = {"t": 10.0, "time": "2026-11-23T05:00:00.000Z", "counts": {"extracted": 1}}
    lines = [page(f"http://a.com/{n}", time="2026-11-23T05:00:06.500Z") for n in range(33)]
    (tmp_path / f"series-{CRAWL}.jsonl").write_text(json.dumps(point) + "\n")
    with reported(write(tmp_path, *lines)) as report:
        assert report.totals["elapsed_s"] == pytest.approx(16.5)
        assert report.totals["pages_per_s"] == pytest.approx(2)
    (tmp_path / f"series-{CRAWL}.jsonl").write_text(json.dumps(point | {"time": "?"}) + "\n")
    with reported(tmp_path) as report:
        assert report.totals["elapsed_s"] == 10


def test_a_time_series_that_is_older_than_the_log_makes_no_stage_too_small(tmp_path: Path) -> None:
    write(tmp_path, *(page(f"http://a.com/{n}") for n in range(4)))
    counts = {"extracted": 3, "host_passed": 2, "resolved": 1, "ip_passed": 2, "robots_passed": 2}
    point = {"t": 1, "counts": counts}
    (tmp_path / f"series-{CRAWL}.jsonl").write_text(json.dumps(point) + "\n")
    with reported(tmp_path) as report:
        stages = {row["stage"]: row["count"] for row in rows(report, "funnel")}
    assert stages == {"E": 4, "H": 4, "D": 1, "I": 4, "R": 4, "C": 4}


def test_a_crawl_has_finished_if_its_last_run_has(tmp_path: Path) -> None:
    packed = tmp_path / f"crawl-{CRAWL}-00001.jsonl.gz"
    packed.write_bytes(gzip.compress(page("http://a.com/")))
    ended = {"crawl": CRAWL, "finished": "2026-11-23T06:00:00Z", "elapsed_s": 9.5}
    ended |= {"finish_reason": "finished", "counts": {"extracted": 3, "resolved": 2}}
    (tmp_path / "report.json").write_text(json.dumps(ended))
    with reported(tmp_path) as report:
        assert report.state.text == "finished"
        assert report.totals["elapsed_s"] == 9.5
        assert [row["count"] for row in rows(report, "funnel")] == [3, 2, 1]
        assert [row["being_visited"] for row in rows(report, "hosts")] == ["no"]
    (tmp_path / f"crawl-{CRAWL}-00002.jsonl").write_bytes(page("http://a.com/2"))
    with reported(tmp_path) as report:
        assert report.state.text == "running or killed"
        assert [row["being_visited"] for row in rows(report, "hosts")] == ["unknown"]


# A crawl with several hubs


def test_the_logs_of_all_hubs_are_one(tmp_path: Path) -> None:
    one = write(tmp_path / "1", page("http://a.com/"), page("http://b.com/"))
    other = write(tmp_path / "2", page("http://c.com/"))
    with reported(one) as report:
        assert report.totals["pages_answered"] == 2
    with reported(one, other) as report:
        assert report.totals["pages_answered"] == report.totals["hosts_answered"] == 3
        assert report.folder.missing_hubs == ""
        text = html(report)
        assert all(str(folder) in text for folder in (one, other))
        assert "One hub of" not in text


def test_of_a_url_in_two_folders_the_last_line_counts(tmp_path: Path) -> None:
    """Its hub was lost with one machine, and restored from a checkpoint on the other one."""
    url, early, late = "http://a.com/", "2026-11-23T05:00:01.000Z", "2026-11-23T05:09:00.000Z"
    lost = [page(url, time=early, size_bytes=1), page("http://a.com/lost", time=early)]
    one = write(tmp_path / "1", *lost)
    other = write(tmp_path / "2", page(url, time=late, size_bytes=20, status=404))
    for folders in ((one, other), (other, one)):
        with reported(*folders) as report:
            assert report.totals["pages_answered"] == 2
            assert report.totals["page_bytes_on_the_wire"] == 20
            assert {row["status"] for row in rows(report, "codes")} == {200, 404}


def test_of_two_folders_of_a_hub_the_one_that_ran_last_has_the_state(tmp_path: Path) -> None:
    """The machine of hub 1 came back after its hub was restored on another one."""

    def job(name: str, hub: int, started: str, crawled: int) -> Path:
        folder = write(tmp_path / name, page(f"http://{name}.com/"))
        dirs = {"warc_dir": str(folder), "report_dir": str(folder)}
        write_card(
            folder, Card(crawl=CRAWL, spider="broad", started=started, pid=1, version="0", **dirs)
        )
        write_claim(folder, Claim(CRAWL, hub, 3))
        point = {"t": 1, "counts": {"crawled": crawled}}
        (folder / f"series-{CRAWL}.jsonl").write_text(json.dumps(point) + "\n")
        return folder

    lost = job("lost", 1, "2026-11-23T05:00:00Z", 100)
    restored = job("restored", 1, "2026-11-23T06:00:00Z", 20)
    other = job("other", 0, "2026-11-23T05:00:00Z", 3)
    for folders in ((lost, restored, other), (other, restored, lost)):
        with reported(*folders) as report:
            assert report.state.counts["crawled"] == 23
            assert report.totals["pages_answered"] == 3, "the logs of all"
            assert lines_of(report)[-1].startswith("2 hubs of 3: the figures are their part")


def test_folders_of_two_crawls_or_one_twice_are_refused(tmp_path: Path) -> None:
    one = write(tmp_path / "1", page("http://a.com/"))
    other = write(tmp_path / "2", crawl="20261124000000-000000")
    with pytest.raises(NoCrawlError, match=r"1 has the crawl .* and .*2 the crawl"):
        find_crawls([one, other], tmp_path)
    with pytest.raises(NoCrawlError, match="given twice"):
        find_crawls([one, one], tmp_path)


def test_a_report_without_all_hubs_says_so(tmp_path: Path) -> None:
    one = write(tmp_path / "1", page("http://a.com/"))
    whole = {"hub": 1, "hubs": [{}, {}, {}]}
    report = {"crawl": CRAWL, "finished": "2026-11-23T06:00:00Z", "whole": whole}
    (one / "report.json").write_text(json.dumps(report))
    with reported(one) as one_of_three:
        assert lines_of(one_of_three)[-1].startswith("One hub of 3: the figures are its part")
        assert "One hub of 3" in html(one_of_three)
    other = write(tmp_path / "2", page("http://b.com/"))
    with reported(one, other) as two_of_three:
        assert "2 hubs of 3: the figures are their part" in html(two_of_three)


def test_the_state_of_all_hubs() -> None:
    def point(t: float, clock: str, crawled: int) -> dict[str, Any]:
        return {"t": t, "time": clock, "counts": {"crawled": crawled}, "rss_bytes": 10}

    long = CrawlState(
        counts={"crawled": 9, "earlier_s": 5.0, "dropped/dns": 1},
        source="frontier",
        elapsed_s=8.0,
        points=[point(0, "05:00:00", 0), point(4, "05:00:04", 4), point(8, "05:00:08", 8)],
        finish_reason="finished",
        is_running=False,
        spider="broad",
    )
    late = CrawlState(
        counts={"crawled": 3, "earlier_s": 2.0},
        source="frontier",
        elapsed_s=6.0,
        points=[point(0, "05:00:03", 0), point(3, "05:00:06", 2), point(6, "05:00:09", 3)],
        finish_reason="finished",
        is_running=False,
    )
    both = merged([late, long])
    assert both.counts == {"crawled": 12, "earlier_s": 5.0, "dropped/dns": 1}
    assert (both.elapsed_s, both.source, both.spider) == (8.0, "frontier", "broad")
    assert both.text == "finished"
    assert [(p["t"], p["counts"]["crawled"], p["rss_bytes"]) for p in both.points] == [
        (0, 0, 10),
        (4, 4, 20),
        (8, 11, 20),
    ]
    assert merged([long, CrawlState(is_running=True)]).text == "running"
    assert merged([long, CrawlState(is_running=False)]).text == "killed"


def test_a_final_line_counts_though_the_clock_was_set_back(tmp_path: Path) -> None:
    folder = write(
        tmp_path,
        line("http://a.com/", time="2026-11-23T05:10:00.000Z", end="kept", reason="timeout"),
        page("http://a.com/", time="2026-11-23T05:00:00.000Z"),
    )
    with reported(folder) as report:
        assert report.totals["urls_kept_for_a_later_try"] == 0
        assert report.totals["pages_answered"] == 1


class Counted(io.BytesIO):
    """A file that is no path, and counts what is read of it."""

    bytes_read = 0

    def open(self, _mode: str) -> Counted:
        return self

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self.bytes_read += len(data)
        return data


def test_a_wrong_offset_costs_no_search_of_the_file() -> None:
    file = Counted(gzip.compress(b"WARC/1.1\r\n" * 1000, 0) * 1000)
    found = read_task(Task(cast("Path", file), [Place("http://a.com/", 5)], True, "a.com"))
    assert found.unread == 1
    assert file.bytes_read < 10_000


def test_a_host_over_the_cap_of_its_address_has_a_dns_record(tmp_path: Path) -> None:
    lost = {"end": "dropped", "dns_ms": 5}
    over = line("http://b.com/", reason="ip_cap", **lost)
    unknown = line("http://c.com/", reason="dns", **lost)
    with reported(write(tmp_path, page("http://a.com/"), over, unknown)) as report:
        found = {row["figure"]: row["value"] for row in rows(report, "questions")}
        assert found["valid DNS record of a new host"] == pytest.approx(2 / 3)


def test_an_answer_to_head_counts_once_in_the_megabits(tmp_path: Path) -> None:
    head = line("http://a.com/pdf", kind="head", status=200, tries=1, size_bytes=1_000)
    robots = line("http://a.com/robots.txt", kind="robots", status=404, size_bytes=250)
    (tmp_path / f"series-{CRAWL}.jsonl").write_text('{"t": 0.01}\n')
    with reported(write(tmp_path, head, robots)) as report:
        assert report.totals["mbps"] == pytest.approx(1)


def test_the_lock_of_another_user_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", refuse)  # as another user's process does
    lock = hold(tmp_path)
    assert is_locked(tmp_path / LOCK)
    os.close(lock)
    assert not is_locked(tmp_path / LOCK)
