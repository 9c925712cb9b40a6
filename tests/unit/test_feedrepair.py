"""The end of a feed's file after a kill: what is cut off, and what is kept."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from webcrawl.extensions import feedrepair
from webcrawl.extensions.feedrepair import repair

LINES = b'{"url": "http://a/"}\n{"url": "http://b/", "via": "caf\xc3\xa9"}\n'
ROWS = [["url", "title"], ["http://a/", 'two\r\nlines, "quoted"'], ["http://b/", ""], ['"', "\n"]]


def repaired(path: Path, data: bytes, format_: str = "jsonlines") -> tuple[bytes, int]:
    """The file's content after the repair of `data`, and the number of bytes cut off."""
    path.write_bytes(data)
    cut = repair(path, format_)
    return path.read_bytes(), cut


@pytest.fixture
def feed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of a feed that is read in blocks of 3 bytes."""
    monkeypatch.setattr(feedrepair, "_BLOCK_BYTES", 3)
    return tmp_path / "feed"


def test_repair_restores_json_lines_cut_at_any_byte(feed: Path) -> None:
    for end in range(len(LINES) + 1):
        whole = LINES.rfind(b"\n", 0, end) + 1
        if LINES[end : end + 1] == b"\n":  # the line break alone is missing
            assert repaired(feed, LINES[:end]) == (LINES[: end + 1], 0)
        else:
            assert repaired(feed, LINES[:end]) == (LINES[:whole], end - whole)


@pytest.mark.parametrize("tail", [b"\0" * 20, b'{"url": "http://c/\0\0\0', b'{"a": 1}\0\0', b"{"])
def test_repair_cuts_off_what_a_loss_of_power_leaves(feed: Path, tail: bytes) -> None:
    assert repaired(feed, LINES + tail) == (LINES, len(tail))


@pytest.mark.parametrize("tail", [b"a note", b"[1, 2", b'"text', b"a note that is long"])
def test_repair_keeps_a_last_line_that_no_feed_has_written(
    feed: Path, tail: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feedrepair, "_LINE_MAX_BYTES", 10)
    assert repaired(feed, LINES + tail) == (LINES + tail + b"\n", 0)


def test_repair_cuts_off_a_last_line_too_long_to_parse(
    feed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feedrepair, "_LINE_MAX_BYTES", 10)
    assert repaired(feed, LINES + b'{"url": "http://c/"}') == (LINES, 20)


def test_repair_restores_csv_rows_cut_at_any_byte(feed: Path) -> None:
    """Quoted fields may contain line breaks and quotes."""
    text = io.StringIO()
    writer = csv.writer(text)
    ends = [0]
    for row in ROWS:
        writer.writerow(row)
        ends.append(len(text.getvalue()))
    data = text.getvalue().encode()
    for cut_at in range(len(data) + 1):
        end = max(end for end in ends if end <= cut_at)
        assert repaired(feed, data[:cut_at], "csv") == (data[:end], cut_at - end)


def test_repair_leaves_other_formats_alone(feed: Path) -> None:
    assert repaired(feed, b'[{"url": ', "json") == (b'[{"url": ', 0)
