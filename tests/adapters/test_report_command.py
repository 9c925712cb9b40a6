"""`scrapy report`: what it prints, and its exit codes."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import pytest

from tests.conftest import Scrapy
from tests.exchanges import EXCHANGES, capture, write
from webcrawl.warc.index import index_path

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


def test_page_requisites_have_a_line_and_are_among_the_kept(scrapy: Scrapy, folder: Path) -> None:
    (log,) = folder.iterdir()
    log.with_suffix(".jsonl.gz").write_bytes(gzip.compress(log.read_bytes()))
    log.unlink()
    counts = {"pending": 3, "kept/reset": 2, "requisites/2xx": 4, "requisites/dns": 1}
    report = {"crawl": CRAWL, "finish_reason": "finished", "counts": counts}
    (folder / "report.json").write_text(json.dumps(report))
    done = scrapy("report", str(folder))
    assert done.stdout.splitlines()[-2:] == [
        "URLs queued: 3, of these 2 kept for a later try",
        "Page requisites: 5 (2xx 4, dns 1)",
    ]


def test_what_has_left_for_a_store_is_in_the_report(scrapy: Scrapy, tmp_path: Path) -> None:
    store, job, here = (tmp_path / name for name in ("store", "job", "here"))
    (warc,) = write(store, [capture(EXCHANGES["plain"])])
    (entry,) = index_path(warc).read_text().splitlines()
    place = {"warc": warc.name, "offset": int(json.loads(entry[entry.index("{") :])["offset"])}
    line = {"time": "2026-11-23T05:00:00.000Z", "kind": "page", "end": "done", "status": 200}
    for folder, number, more in ((store, 1, place), (here, 2, {})):
        folder.mkdir(exist_ok=True)
        text = json.dumps(line | {"url": f"http://a.br/{number}", "host": "a.br"} | more)
        (folder / f"crawl-{CRAWL}-0000{number}.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    job.mkdir()
    folders = {"warc_dir": str(here), "report_dir": str(here), "store": f"file://{store}"}
    of_run = {"crawl": CRAWL, "spider": "broad", "started": "", "pid": 1, "version": ""}
    (job / "crawl.json").write_text(json.dumps(folders | of_run))
    done = scrapy("report", str(job), "--json", "--tokens")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["pages_answered"] == 2
    other = CRAWL.replace("2026", "2025")
    (store / f"crawl-{other}-00001.jsonl.gz").write_bytes(gzip.compress(b""))
    done = scrapy("report", f"file://{store}", "--json", "-o", str(tmp_path / "page"))
    also = f"Reports on crawl {CRAWL}; file://{store} also has another crawl: --crawl {other}\n"
    assert (done.returncode, done.stderr) == (0, also)
    assert json.loads(done.stdout)["pages_answered"] == 1
    assert (tmp_path / "page" / "index.html").exists()
    store.rename(tmp_path / "away")
    done = scrapy("report", str(job), "--json")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"file://{store}: the folder is not there\n"


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
