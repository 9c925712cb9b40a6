"""`scrapy corpus`: filters, formats, a kill, and what it prints."""

from __future__ import annotations

import gzip
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
from warcio.archiveiterator import ArchiveIterator

from tests.conftest import Scrapy
from tests.exchanges import CHUNKED, HTML, capture, chunked, exchange, head, write
from tests.fasttextmodel import write_model
from tests.forked import Forked
from webcrawl.tools.corpus.corpus import PARTS
from webcrawl.tools.warccheck.check import check
from webcrawl.warc.index import index_path
from webcrawl.warc.records import Capture

SENTENCE = "A casa da praia tem uma janela para o mar, e o vento traz o cheiro do sal. "
ENGLISH = "The house at the beach has a window to the sea, and the wind brings a smell of salt. "


def page(path: str, text: str, *headers: bytes) -> Capture:
    body = chunked(f"<!doctype html><title>{path}</title><p>{text}".encode())
    return capture(exchange(head(HTML, CHUNKED, *headers), body, f"http://a.test/{path}"))


PAGES = [
    page("long", SENTENCE * 9),
    page("copy", SENTENCE * 9),
    page("short", SENTENCE),
    page("english", ENGLISH * 9),
    page("untrained", SENTENCE * 8 + "Fim.", b"Content-Usage: train-ai=n"),
]


def warcs(folder: Path, number: int = 1) -> list[str]:
    return [
        str(path)
        for n in range(number)
        for path in write(folder / str(n), [*PAGES, page(f"{n}", SENTENCE * (n + 10))])
    ]


def offsets(warc: str) -> dict[str, int]:
    """Of the responses, by URL."""
    lines = index_path(Path(warc)).read_text().splitlines()
    return {
        each["url"]: int(each["offset"])
        for each in (json.loads(ln[ln.index("{") :]) for ln in lines)
    }


def rows_of(folder: Path) -> Iterator[str]:
    for path in sorted(folder.glob("test*.parquet")):
        yield from pq.read_table(path)["url"].to_pylist()


def test_filters_choose_the_records_of_a_wet_file(scrapy: Scrapy, tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    done = scrapy(
        *("corpus", *warcs(tmp_path / "in"), "-o", str(folder), "--text", "main"),
        *("--format", "wet", "--language", "por,spa", "--min-words", "30", "--no-duplicates"),
        *("--without", "train-ai=n"),
    )
    assert (done.returncode, done.stderr) == (0, "")
    (path,) = folder.glob("*.warc.wet.gz")
    with path.open("rb") as file:
        found = {
            record.rec_headers["WARC-Target-URI"]: record.content_stream().read().decode()
            for record in ArchiveIterator(file, check_digests="raise")
            if record.rec_type == "conversion"
            and record.rec_headers["WARC-Identified-Content-Language"] == "por"
        }
    assert sorted(found) == ["http://a.test/0", "http://a.test/long"] == sorted(rows_of(folder))
    assert SENTENCE.strip() in found["http://a.test/long"]
    assert check(path) == []
    assert f"{folder}: 2 captures of 6, 2 pages with text" in done.stdout


def test_files_of_a_store_or_folder_are_read_there_with_their_log(
    scrapy: Scrapy, tmp_path: Path
) -> None:
    (given,) = warcs(tmp_path / "in")
    store, folder = Path(given).parent, tmp_path / "corpus"
    line = {"end": "retried", "warc": Path(given).name, "offset": offsets(given)["http://a.test/0"]}
    log = store / "hub-1" / "crawl-20261126180000-abcdef-00001.jsonl.gz"
    log.parent.mkdir()
    log.write_bytes(gzip.compress(json.dumps(line).encode()))
    done = scrapy("corpus", f"file://{store}/", "-o", str(folder))
    assert (done.returncode, done.stderr) == (0, "")
    assert len([*rows_of(folder)]) == len(PAGES), "one is superseded"
    assert list(store.parent.rglob("*.warc.gz"))
    done = scrapy("corpus", f"file://{store.parent}", "-o", str(tmp_path / "none"))
    assert done.stderr == f"file://{store.parent} has no files *.warc.gz\n"
    done = scrapy("corpus", f"file://{store}/hub-1", "-o", str(tmp_path / "none"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"file://{store}/hub-1 has no files *.warc.gz\n"
    done = scrapy("corpus", str(store), "-o", str(tmp_path / "of a folder"))
    assert (done.returncode, done.stderr) == (0, "")
    assert {*rows_of(tmp_path / "of a folder")} == {*rows_of(folder), "http://a.test/0"}
    done = scrapy("corpus", f"{store}/hub-1", "-o", str(tmp_path / "none"))
    assert (done.returncode, done.stderr) == (2, f"{store}/hub-1 has no files *.warc.gz\n")


def test_a_model_of_the_users_finds_the_languages(scrapy: Scrapy, tmp_path: Path) -> None:
    model = write_model(tmp_path / "model.bin", {"por_Latn": "casa", "eng_Latn": "house"})
    command = ("corpus", *warcs(tmp_path / "in"), "-o", str(tmp_path / "corpus"))
    done = scrapy(*command, "-s", f"LANGUAGE_MODEL={model}")
    assert (done.returncode, done.stderr) == (0, "")
    (path,) = (tmp_path / "corpus").glob("test*.parquet")
    table = pq.read_table(path)
    found = dict(zip(table["url"].to_pylist(), table["language_score"].to_pylist(), strict=True))
    assert set(table["detected_language"].to_pylist()) == {"por", "eng"}
    assert set(found.values()) == {1.0}, "of this model"
    assert scrapy(*command).returncode == 2, "by another model it is another corpus"


def test_lines_have_the_columns_and_the_text(scrapy: Scrapy, tmp_path: Path) -> None:
    command = ("corpus", *warcs(tmp_path / "in"), "-o", str(tmp_path / "corpus"))
    options = ("--text", "all", "--format", "jsonl", "--crawl", "of May")
    assert scrapy(*command, *options).returncode == 0
    (path,) = (tmp_path / "corpus").glob("*.jsonl.gz")
    lines = list(map(json.loads, gzip.decompress(path.read_bytes()).splitlines()))
    assert [line["url"] for line in lines] == sorted(line["url"] for line in lines)
    english = next(line for line in lines if line["url"].endswith("english"))
    assert ENGLISH.strip() in english["text"]
    assert english["detected_language"] == "eng"
    assert english["fetch_time"] == "2023-11-14T22:13:20.123456Z"
    assert english["warc_record_id"].startswith("urn:uuid:")
    assert (english["crawl"], english["main_text_length"]) == ("of May", None)
    again = scrapy(*command, *options)
    assert (again.returncode, again.stdout) == (
        0,
        f"{tmp_path / 'corpus'} has this corpus already\n",
    )
    other = scrapy(*command, "--text", "all")
    assert (other.returncode, other.stdout) == (2, "")
    assert "has the corpus of other files or options" in other.stderr


def test_a_killed_corpus_goes_on_and_is_the_same(scrapy: Scrapy, tmp_path: Path) -> None:
    files = warcs(tmp_path / "in", 9)
    for n, name in enumerate(files):  # each has its own name
        files[n] = str(Path(name).rename(tmp_path / f"test-{n}.warc.gz"))
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    command = ("corpus", *files, "--text", "both", "-o")
    process = Forked(
        ["-m", "scrapy", *command, str(killed)],
        files=["/dev/null", tmp_path / "out", tmp_path / "err"],
    )
    while process.poll() is None and not list((killed / PARTS).glob("*.parquet")):
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (killed / "hosts.parquet").exists()
    kept = {path.name: path.stat().st_mtime_ns for path in (killed / PARTS).glob("*.parquet")}
    assert kept
    assert scrapy(*command, str(killed)).returncode == 0
    assert scrapy(*command, str(whole)).returncode == 0
    names = sorted(path.name for path in whole.iterdir())
    assert len(names) == len(files) + 2
    assert names == sorted(path.name for path in killed.iterdir())
    assert [n for n in names if (killed / n).read_bytes() != (whole / n).read_bytes()] == []


def test_a_file_that_is_broken_is_named_and_the_others_are_read(
    scrapy: Scrapy, tmp_path: Path
) -> None:
    (good,) = warcs(tmp_path / "in")
    torn, text = tmp_path / "torn.warc.gz", tmp_path / "text.warc"
    torn.write_bytes(Path(good).read_bytes()[:-9])
    text.write_text("no WARC file")
    (empty := tmp_path / "empty.warc.gz").touch()
    files = (good, *map(str, (torn, text, empty)))
    done = scrapy("corpus", *files, "-o", str(tmp_path / "corpus"))
    assert done.returncode == 1
    assert f"{torn}: " in done.stderr
    assert f"{text}: 0: no WARC record begins with b'no WARC file'" in done.stderr
    assert f"{empty}: 0: no record" in done.stderr
    assert "3 broken records left out; 3 named above" in done.stderr
    assert "12 captures of 12" in done.stdout
