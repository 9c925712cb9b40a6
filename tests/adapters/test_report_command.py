"""`scrapy report`: what it prints, and its exit codes."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.conftest import Scrapy

CRAWL = "20261123045000-abcdef"
URL = "http://www.ufmg.br/a"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    line = {"time": "2026-11-23T05:00:00.000Z", "kind": "page", "end": "done", "status": 200}
    line |= {"url": URL, "host": "www.ufmg.br", "tries": 1, "warc": "gone.warc.gz"}
    (tmp_path / f"crawl-{CRAWL}-00001.jsonl").write_text(json.dumps(line) + "\n")
    return tmp_path


def test_it_prints_the_page_and_ten_lines(scrapy: Scrapy, folder: Path) -> None:
    done = scrapy("report", str(folder))
    assert (done.returncode, done.stderr) == (0, "")
    path, *lines = done.stdout.splitlines()
    assert path == str(folder / "report" / "index.html")
    assert len(lines) == 10
    assert lines[1].startswith("1 pages in ")
    assert Path(path).exists()
    assert not list(Path(path).parent.glob(".new-*"))


def test_hosts_as_csv_and_summary_as_json(scrapy: Scrapy, folder: Path) -> None:
    done = scrapy("report", str(folder), "--hosts", "-o", str(folder / "page"))
    (row,) = csv.DictReader(done.stdout.splitlines())
    assert (row["host"], row["registered_domain"], row["pages"]) == ("www.ufmg.br", "ufmg.br", "1")
    assert done.stderr.strip() == str(folder / "page" / "index.html")
    assert not (folder / "report").exists()


def test_a_missing_archive_is_one_line(scrapy: Scrapy, folder: Path) -> None:
    done = scrapy("report", str(folder), "--in-degree", "ufmg.br", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["pages_answered"] == 1
    assert "1 pages cannot be read from" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_page_that_cannot_be_written_is_one_line(scrapy: Scrapy, folder: Path) -> None:
    (folder / "file").write_text("")
    done = scrapy("report", str(folder), "-o", str(folder / "file" / "page"))
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "Not a directory" in line
