"""Feeds without items, and batches: torn by an earlier run, or that cannot be written."""

from __future__ import annotations

import asyncio
import csv
import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.exporters import JsonLinesItemExporter

from webcrawl.extensions.feeds import FeedExporter


class Engine:
    """Replaces Scrapy's engine: records the reasons it is closed for."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    async def close_spider_async(self, *, reason: str) -> None:
        self.reasons.append(reason)


async def batches_of(folder: Path, items: int) -> Engine:
    """Export that many items in batches of two; return the engine."""
    uri = str(folder / "pages-%(batch_id)d.jsonl")
    return await exported({uri: {"format": "jsonlines", "batch_item_count": 2}}, items)


async def exported(feeds: dict[str, Any], items: int) -> Engine:
    """Export that many items, as one run does; return the engine."""
    crawler = Crawler(Spider, {"TWISTED_REACTOR_ENABLED": False, "FEEDS": feeds})
    crawler._apply_settings()
    crawler.engine = engine = Engine()  # type: ignore[assignment]  # the part that a feed uses
    exporter = FeedExporter.from_crawler(crawler)
    spider = Spider("users")
    exporter.open_spider(spider)
    for number in range(items):
        exporter.item_scraped({"number": number}, spider)
    await exporter.close_spider(spider)
    return engine


@pytest.mark.parametrize("format_", ["json", "xml", "csv"])
def test_feed_without_items_is_one_empty_document(
    tmp_path: Path, format_: str, caplog: pytest.LogCaptureFixture
) -> None:
    documents = {
        "json": "[\n\n]",
        "xml": '<?xml version="1.0" encoding="utf-8"?>\n<items>\n</items>',
        "csv": "",
    }
    path = tmp_path / "pages"
    asyncio.run(exported({str(path): {"format": format_}}, 0))
    assert path.read_text() == documents[format_]
    assert [each for each in caplog.records if each.levelname == "ERROR"] == []


def test_exporter_cuts_off_the_torn_last_line_of_each_batch(tmp_path: Path) -> None:
    torn = {number: tmp_path / f"pages-{number}.jsonl" for number in (1, 2, 3)}
    for path in torn.values():
        path.write_bytes(b'{"number": 7}\n{"numb')
    assert asyncio.run(batches_of(tmp_path, 5)).reasons == []
    numbers = [
        [json.loads(line)["number"] for line in path.read_text().splitlines()]
        for path in torn.values()
    ]
    assert numbers == [[7, 0, 1], [7, 2, 3], [7, 4]]


@pytest.mark.parametrize(
    "dialect",
    [
        {"quotechar": "'"},
        {"doublequote": False, "escapechar": "\\"},
        {"lineterminator": "\r"},
    ],
)
def test_a_csv_of_another_dialect_keeps_the_rows_of_earlier_runs(
    tmp_path: Path, dialect: dict[str, Any]
) -> None:
    path = tmp_path / "disks.csv"
    with path.open("w", newline="") as file:
        csv.writer(file, **dialect).writerows([["size"], ['5" disk'], ["1"], ["2"]])
    before = path.read_bytes()
    asyncio.run(exported({str(path): {"format": "csv", "item_export_kwargs": dialect}}, 1))
    assert path.read_bytes().startswith(before)


def test_exporter_ends_the_crawl_if_a_later_batch_cannot_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "pages-2.jsonl").mkdir()
    assert asyncio.run(batches_of(tmp_path, 5)).reasons == ["feed_error"]
    errors = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    assert errors == [f"FEEDS: {tmp_path}/pages-2.jsonl cannot be written: Is a directory"]
    assert (tmp_path / "pages-1.jsonl").read_text() == '{"number": 0}\n{"number": 1}\n'


def test_exporter_ends_the_crawl_if_a_full_batch_cannot_be_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(exporter: JsonLinesItemExporter) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(JsonLinesItemExporter, "finish_exporting", fail)
    assert asyncio.run(batches_of(tmp_path, 3)).reasons == ["feed_error"]
    errors = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    assert errors == [
        f"FEEDS: {tmp_path}/pages-1.jsonl cannot be written: {os.strerror(errno.ENOSPC)}"
    ]
    assert (tmp_path / "pages-1.jsonl").read_text() == '{"number": 0}\n{"number": 1}\n'
    assert not (tmp_path / "pages-2.jsonl").exists()
