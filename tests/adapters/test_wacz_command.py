"""`scrapy wacz` and `scrapy warcrecover`."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from tests.conftest import Scrapy
from tests.exchanges import EXCHANGES, capture, write
from webcrawl.warc.records import Original, payload_digest

PLAIN = EXCHANGES["plain"]
COPY = capture(PLAIN, Original("http://a.test/earlier", 0.0, payload_digest(PLAIN)))


def test_a_killed_crawl_becomes_a_wacz(scrapy: Scrapy, tmp_path: Path) -> None:
    folder, wacz = tmp_path / "warc", tmp_path / "crawl.wacz"
    whole, killed = write(folder, [capture(PLAIN), COPY], 1)
    running = killed.with_name(killed.name.replace("-00001-", "-00002-") + ".open")
    running.write_bytes(killed.read_bytes())
    data = killed.read_bytes()
    killed.rename(f"{killed}.open").write_bytes(data[:-9])
    with running.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        done = scrapy("wacz", str(folder), "-o", str(wacz))
        assert (done.returncode, done.stdout) == (2, "")
        assert f"run scrapy warcrecover {folder} first" in done.stderr
        done = scrapy("warcrecover", str(folder))
        assert (done.returncode, done.stderr) == (0, "")
        recovered, left = done.stdout.splitlines()
        assert recovered.startswith(f"Recovered {killed} of an earlier crawl: 3 records, ")
        assert left.startswith(f"Left {running}: a running crawl writes it")
        done = scrapy("wacz", str(folder), "-o", str(wacz))
    assert done.returncode == 0
    assert done.stdout.startswith(f"{wacz}: 2 WARC files, 2 captures, ")
    left_out, lost, example = done.stderr.splitlines()
    assert left_out == f"{running} is left out: a running crawl writes it"
    assert lost.startswith("1 revisit will not replay: the original is in none of these files.")
    assert example.endswith(": http://a.test/earlier of 1970-01-01T00:00:00Z")
    running.unlink()
    assert scrapy("warcrecover", str(folder)).stdout == f"{folder} has no files of a killed crawl\n"
    assert whole.exists()


def test_what_cannot_be_read_or_written_is_one_line(scrapy: Scrapy, tmp_path: Path) -> None:
    (path,) = write(tmp_path / "warc", [capture(PLAIN)])
    nowhere = tmp_path / "none" / "crawl.wacz"
    done = scrapy("wacz", str(path), "-o", str(nowhere))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"{nowhere}.part: No such file or directory\n"
    os.truncate(path, path.stat().st_size - 5)
    done = scrapy("wacz", str(path), "-o", str(tmp_path / "crawl.wacz"))
    assert (done.returncode, done.stdout) == (1, "")
    assert "see scrapy warccheck" in done.stderr
    assert done.stderr.count("\n") == 1
