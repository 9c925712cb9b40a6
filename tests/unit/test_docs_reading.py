"""The scripts of the pages that read an archive reach its end, whatever a server has sent."""

import gzip
import re
import subprocess
import sys
from pathlib import Path

import brotli  # type: ignore[import-untyped]
import pytest

DOCS = Path(__file__).parents[2] / "docs"
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
URLS = ("http://a.example/1", "http://a.example/2")
LAST = "\nprint('the last:', record.rec_headers['WARC-Target-URI'])\n"


@pytest.mark.parametrize(("page", "folder"), [("tutorial.md", "crawl/warc"), ("output.md", "warc")])
def test_the_script_reads_all(tmp_path: Path, page: str, folder: str) -> None:
    (script,) = [block for block in _BLOCK.findall((DOCS / page).read_text()) if "warcio" in block]
    answer = b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n\r\n" + brotli.compress(b"text")
    (tmp_path / folder).mkdir(parents=True)
    with (tmp_path / folder / "a.warc.gz").open("wb") as file:
        for url in URLS:
            head = (
                f"WARC/1.1\r\nWARC-Type: response\r\nWARC-Target-URI: {url}\r\n"
                "Content-Type: application/http;msgtype=response\r\n"
                f"Content-Length: {len(answer)}\r\n\r\n"
            )
            file.write(gzip.compress(head.encode() + answer + b"\r\n\r\n"))
    command = [sys.executable, "-c", script + LAST]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.stderr == ""
    assert run.stdout.endswith(f"the last: {URLS[-1]}\n")
