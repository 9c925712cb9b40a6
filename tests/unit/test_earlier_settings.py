"""DEDUP_INDEX: where its index is made, and what is said if it cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scrapy.settings import Settings

from webcrawl.base.wording import SettingError
from webcrawl.config.earlier import open_earlier_of, prepare_earlier
from webcrawl.crawl.crawl import Crawl

LINE = (
    'test,a)/ 20260301120041 {"url": "http://a.test/", "mime": "text/html", "status": "200",'
    ' "digest": "sha1:SBLPTWL7XW27OSKLYLCVWESR5SECX3QG", "length": "1", "offset": "0",'
    ' "filename": "a.warc.gz"}\n'
)


@pytest.fixture
def archives(tmp_path: Path) -> Path:
    folder = tmp_path / "archives"
    folder.mkdir()
    (folder / "a.cdxj").write_text(LINE)
    return folder


def settings(**values: Any) -> Settings:
    return Settings({"WARC_ENABLED": True, "DEDUP_INDEX": []} | values)


@pytest.mark.parametrize("has_jobdir", [True, False])
def test_the_index_is_made_once_and_opened(
    archives: Path, tmp_path: Path, has_jobdir: bool
) -> None:
    job = tmp_path / "job"
    chosen = settings(DEDUP_INDEX=str(archives), JOBDIR=str(job) if has_jobdir else None)
    crawl = Crawl()
    earlier = open_earlier_of(crawl, chosen)
    assert earlier is not None
    assert (crawl.earlier_folder == job / "earlier") is has_jobdir
    assert earlier.entries == 1
    earlier.close()


def test_without_it_there_is_nothing(archives: Path) -> None:
    assert prepare_earlier(settings()) is None
    assert prepare_earlier(settings(DEDUP_INDEX=[archives], WARC_ENABLED=False)) is None


def test_an_index_that_is_gone_is_named(archives: Path, tmp_path: Path) -> None:
    crawl = Crawl()
    crawl.earlier_folder = tmp_path / "gone"
    with pytest.raises(SettingError, match="has no index"):
        open_earlier_of(crawl, settings(DEDUP_INDEX=str(archives)))
