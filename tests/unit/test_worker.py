"""The settings of a worker: its share of the requests, its files, its log lines."""

from __future__ import annotations

import logging
import pickle
from pathlib import Path
from typing import Any

import pytest
from scrapy.settings import Settings

from tests.cases import each_of
from tests.projectsettings import of_a_crawl
from webcrawl.base.wording import SettingError
from webcrawl.config.build import processes_from, share_of
from webcrawl.extensions.worker import numbered, settings_of


def settings(**overrides: Any) -> Settings:
    made = of_a_crawl(**overrides)
    made.freeze()
    return made


@each_of(
    ("total", "processes", "shares"),
    [
        (512, 1, [512]),
        (512, 2, [56, 456]),
        (512, 4, [20, 164, 164, 164]),
        (3, 3, [1, 1, 1]),
        (2, 8, [1, 1]),
    ],
)
def test_requests_are_divided_without_remainder(
    total: int, processes: int, shares: list[int]
) -> None:
    crawl = settings(CONCURRENT_REQUESTS=total, CRAWL_PROCESSES=processes)
    numbers = range(1, processes_from(crawl) + 1)
    assert [share_of(crawl, number) for number in numbers] == shares
    for number in numbers[1:]:
        own = settings_of(crawl, number)
        assert share_of(own) == shares[number - 1]


def test_a_worker_gets_the_crawls_settings_without_its_target() -> None:
    crawl = settings(
        CRAWL_PROCESSES=3,
        JOBDIR="job",
        CLOSESPIDER_PAGECOUNT=9,
        CLOSESPIDER_TIMEOUT=9,
        DOWNLOAD_DELAY=3,
        SPIDER_MIDDLEWARES={"their.Middleware": 5},
    )
    own = pickle.loads(pickle.dumps(settings_of(crawl, 2)))
    assert processes_from(own) == 1
    assert own["JOBDIR"] is None
    assert own.getint("CLOSESPIDER_PAGECOUNT") == own.getint("CLOSESPIDER_TIMEOUT") == 0
    assert own["DOWNLOAD_DELAY"] == 3
    assert own.getdict("SPIDER_MIDDLEWARES")["their.Middleware"] == 5
    own.set("JOBDIR", "job", "spider")  # a spider's custom_settings come after
    assert own["JOBDIR"] is None


def test_a_workers_log_lines_name_its_number() -> None:
    own = settings_of(settings(CRAWL_PROCESSES=2), 2)
    record = logging.LogRecord("name", logging.INFO, "", 0, "words", None, None)
    assert logging.Formatter(own["LOG_FORMAT"]).format(record).endswith("INFO: [process 2] words")


@each_of(
    ("uri", "own"),
    [
        ("items.jsonl", "items-2.jsonl"),
        ("out/items", "out/items-2"),
        ("out.d/items", "out.d/items-2"),
        ("items.v1.csv", "items.v1-2.csv"),
        ("items.jsonl.gz", "items-2.jsonl.gz"),
        ("s3://bucket/%(name)s/%(time)s.json", "s3://bucket/%(name)s/%(time)s-2.json"),
        (Path("/data/items.xml"), "/data/items-2.xml"),
    ],
)
def test_a_worker_gets_a_feed_of_its_own(uri: str | Path, own: str) -> None:
    assert numbered(uri, 2) == own


def test_a_feed_to_standard_output_is_refused() -> None:
    with pytest.raises(SettingError, match="FEEDS = 'stdout:' cannot be used: a file"):
        settings_of(settings(CRAWL_PROCESSES=2, FEEDS={"stdout:": {"format": "csv"}}), 2)


def test_zero_processes_means_one_per_core() -> None:
    assert processes_from(settings(CRAWL_PROCESSES=0)) >= 1
