"""Reads the crawl log of a crawl, and asserts that it agrees with all else that a crawl left."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

from fastwarc.warc import ArchiveIterator, WarcRecordType

from tests.crawl.crawling import Result
from webcrawl.crawllog.files import log_files

Line = dict[str, Any]


def log_lines(folder: Path) -> list[Line]:
    """The lines of all crawl logs in `folder`, each with `end`."""
    lines = []
    for _, _, path in log_files(folder):
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        assert data.endswith(b"\n")
        lines += [json.loads(line) for line in data.splitlines()]
    return lines


def assert_log(result: Result) -> list[Line]:
    """Assert that the log has each turn once, and leads to the records. Returns its lines."""
    folder = result.folder / "warc"
    assert not list(folder.glob("crawl-*.jsonl")), "the last file is compressed"
    assert not list(folder.glob("*.part"))
    lines = log_lines(folder)
    turns = [line for line in lines if line["end"] not in ("retried", "lost")]
    pages = [line for line in turns if line["kind"] not in ("robots", "requisite")]
    final = Counter(line["url"] for line in pages if line["end"] != "kept")
    assert max(final.values()) == 1, "a URL has its turn once"
    counts = result.report["counts"]
    done = [line for line in pages if line["end"] == "done"]
    assert len(done) == counts["crawled"]
    urls = {line["url"] for line in pages}
    assert len(urls) == counts["extracted"], "every URL that was taken has a line"
    dropped = Counter(f"dropped/{line['reason']}" for line in pages if line["end"] == "dropped")
    dropped["dropped/content_type"] = sum(line.get("reason") == "content_type" for line in done)
    kinds = {name: n for name, n in counts.items() if name.startswith("dropped/")}
    assert +dropped == {n: c for n, c in kinds.items() if c and "/scope_" not in n}
    assert_places(folder, lines)
    return lines


def assert_places(folder: Path, lines: list[Line]) -> None:
    """Assert that `warc` and `offset` lead to the record of the URL."""
    places: dict[str, dict[int, Line]] = {}
    for line in lines:
        if "warc" in line:
            places.setdefault(line["warc"], {})[line.get("offset", 0)] = line
    answers = WarcRecordType.response | WarcRecordType.revisit
    for name, wanted in places.items():
        with (folder / name).open("rb") as file:
            for record in ArchiveIterator(file, record_types=answers, parse_http=True):
                line = wanted.pop(record.stream_pos, None)
                if line is not None:
                    assert record.headers["WARC-Target-URI"] == line["url"]
                    assert record.http_headers.status_code == line["status"]
        assert not wanted, f"no record at these places: {wanted}"
