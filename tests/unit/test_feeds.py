"""What is left of a feed after a kill, and how it is mended."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from pathlib import Path

import pytest
from scrapy import Spider
from scrapy.crawler import Crawler

from webcrawl.extensions import feeds
from webcrawl.extensions.feeds import FeedExporter, mend

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


class Engine:
    """Stands in for Scrapy's: remembers why it was told to close."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    async def close_spider_async(self, *, reason: str) -> None:
        self.reasons.append(reason)


async def batches_of(folder: Path, items: int) -> Engine:
    """Export that many in batches of two, as one run does."""
    uri = str(folder / "pages-%(batch_id)d.jsonl")
    feeds = {uri: {"format": "jsonlines", "batch_item_count": 2}}
    crawler = Crawler(Spider, {"TWISTED_REACTOR_ENABLED": False, "FEEDS": feeds})
    crawler._apply_settings()
    crawler.engine = engine = Engine()  # type: ignore[assignment]  # all that a feed asks of it
    exporter = FeedExporter.from_crawler(crawler)
    spider = Spider("users")
    exporter.open_spider(spider)
    for number in range(items):
        exporter.item_scraped({"number": number}, spider)
    await exporter.close_spider(spider)
    return engine


def test_the_torn_last_line_of_each_batch_is_cut_off(tmp_path: Path) -> None:
    torn = {number: tmp_path / f"pages-{number}.jsonl" for number in (1, 2, 3)}
    for path in torn.values():
        path.write_bytes(b'{"number": 7}\n{"numb')
    assert asyncio.run(batches_of(tmp_path, 5)).reasons == []
    numbers = [
        [json.loads(line)["number"] for line in path.read_text().splitlines()]
        for path in torn.values()
    ]
    assert numbers == [[7, 0, 1], [7, 2, 3], [7, 4]]


def test_a_later_batch_that_cannot_be_written_ends_the_crawl(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "pages-2.jsonl").mkdir()
    assert asyncio.run(batches_of(tmp_path, 5)).reasons == ["feed_error"]
    errors = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    assert errors == [f"FEEDS: {tmp_path}/pages-2.jsonl cannot be written: Is a directory"]
    assert (tmp_path / "pages-1.jsonl").read_text() == '{"number": 0}\n{"number": 1}\n'
