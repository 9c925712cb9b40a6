"""What is left of a feed after a kill, and how it is mended."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from webcrawl.extensions import feeds
from webcrawl.extensions.feeds import mend

LINES = b'{"url": "http://a/"}\n{"url": "http://b/", "via": "caf\xc3\xa9"}\n'
ROWS = [["url", "title"], ["http://a/", 'two\r\nlines, "quoted"'], ["http://b/", ""], ['"', "\n"]]


def mended(path: Path, data: bytes, format_: str = "jsonlines") -> tuple[bytes, int]:
    path.write_bytes(data)
    cut = mend(path, format_)
    return path.read_bytes(), cut


@pytest.fixture
def feed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A feed that is read in blocks as small as can be."""
    monkeypatch.setattr(feeds, "_BLOCK_BYTES", 3)
    return tmp_path / "feed"


def test_lines_that_are_cut_anywhere_are_whole_again(feed: Path) -> None:
    for end in range(len(LINES) + 1):
        whole = LINES.rfind(b"\n", 0, end) + 1
        if LINES[end : end + 1] == b"\n":  # the line break alone is missing
            assert mended(feed, LINES[:end]) == (LINES[: end + 1], 0)
        else:
            assert mended(feed, LINES[:end]) == (LINES[:whole], end - whole)


@pytest.mark.parametrize("tail", [b"\0" * 20, b'{"url": "http://c/\0\0\0', b'{"a": 1}\0\0', b"{"])
def test_what_a_loss_of_power_leaves_is_cut_off(feed: Path, tail: bytes) -> None:
    assert mended(feed, LINES + tail) == (LINES, len(tail))


@pytest.mark.parametrize("tail", [b"a note", b"[1, 2", b'"text'])
def test_a_last_line_that_no_feed_has_left_stays(feed: Path, tail: bytes) -> None:
    assert mended(feed, LINES + tail) == (LINES + tail + b"\n", 0)


def test_a_line_that_is_too_long_to_be_tried_is_cut_off(
    feed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "_LINE_MAX_BYTES", 10)
    assert mended(feed, LINES + b'{"url": "http://c/"}') == (LINES, 20)


def test_rows_that_are_cut_anywhere_are_whole_again(feed: Path) -> None:
    """Line breaks and quotes may stand in quotes."""
    text = io.StringIO()
    writer = csv.writer(text)
    ends = [0]
    for row in ROWS:
        writer.writerow(row)
        ends.append(len(text.getvalue()))
    data = text.getvalue().encode()
    for cut_at in range(len(data) + 1):
        end = max(end for end in ends if end <= cut_at)
        assert mended(feed, data[:cut_at], "csv") == (data[:end], cut_at - end)


def test_other_formats_are_left_alone(feed: Path) -> None:
    assert mended(feed, b'[{"url": ', "json") == (b'[{"url": ', 0)
