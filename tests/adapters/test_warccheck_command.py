"""`scrapy warccheck`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT, Scrapy
from tests.exchanges import EXCHANGES, capture, write


def test_a_good_file_prints_no_line(scrapy: Scrapy, tmp_path: Path) -> None:
    (path,) = write(tmp_path, [capture(EXCHANGES["plain"])])
    done = scrapy("warccheck", str(path))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_each_problem_prints_one_line(scrapy: Scrapy, tmp_path: Path) -> None:
    (good,) = write(tmp_path, [capture(EXCHANGES["plain"])])
    torn, absent = tmp_path / "torn.warc.gz", tmp_path / "absent.warc.gz"
    torn.write_bytes(good.read_bytes()[:-9])
    os.mkfifo(pipe := tmp_path / "pipe.warc.gz")
    done = scrapy("warccheck", str(good), str(torn), str(absent), str(pipe))
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    files = [line.partition(": ")[0] for line in lines]
    assert files == [str(torn), str(absent), f"{pipe} is a pipe"]
    assert "the last record is cut" in lines[0]
    assert "No such file" in lines[1]
    assert done.stderr == ""


def test_a_full_disk_under_standard_output_is_one_line(tmp_path: Path) -> None:
    command = (sys.executable, "-m", "scrapy", "warcrecover", str(tmp_path))
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    assert done.stderr == "standard output: No space left on device\n"


def test_a_closed_standard_output_is_no_error(tmp_path: Path) -> None:
    command = (sys.executable, "-m", "scrapy", "warcrecover", str(tmp_path))
    done = subprocess.run(
        ("sh", "-c", 'exec "$@" >&-', "sh", *command),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_reader_of_standard_output_that_has_exited_is_no_error(tmp_path: Path) -> None:
    command = (sys.executable, "-u", "-m", "scrapy", "warcrecover", str(tmp_path))
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:
        done = subprocess.run(
            command, cwd=ROOT, stdout=pipe, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (0, "")
