"""Each benchmark does its work and prints one line. These tests measure no time."""

from __future__ import annotations

import re
import shutil
import signal
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from benchmarks import crawls
from benchmarks.__main__ import BENCHMARKS, main
from benchmarks.crawls import Cost, NotDone, check_same
from benchmarks.processes import NoBus, serving_bus
from tests.contracts.natsserver import binary

pytestmark = pytest.mark.slow
NUMBER = r"-?\d+\.\d+"
COSTS = rf"{NUMBER} ms CPU a page"


def test_a_benchmark_prints_its_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(crawls, "STARTS", 1)
    arguments = ["vs-scrapy", "--hosts=4", "--pages-per-host=6", "--turns=1"]
    monkeypatch.setattr("sys.argv", ["benchmarks", *arguments])
    assert not main()
    line = (
        rf"vs-scrapy: \d+ pages: webcrawl {COSTS}, plain Scrapy {NUMBER}, {NUMBER} times"
        rf" \(target 12\); {NUMBER} times with {NUMBER} and {NUMBER} s to start\n"
    )
    said = capsys.readouterr().out
    assert re.fullmatch(line, said), said


def test_each_benchmark_has_a_help(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["benchmarks", "--help"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert re.findall(r"^    ([a-z-]+)(?: |$)", said, re.MULTILINE) == list(BENCHMARKS)


def test_incomplete_work_is_no_result() -> None:
    ledger = {"violations": {}, "missing": {"count": 3, "examples": ["http://a.test/"]}}
    with pytest.raises(NotDone, match="3 pages missing"):
        check_same([Cost(5, 1.0, 1.0, [], {"violations": {}}), Cost(5, 1.0, 1.0, [], ledger)])
    with pytest.raises(NotDone, match="not the same work"):
        check_same([Cost(n, 1.0, 1.0, [], {"violations": {}}) for n in (4, 5)])


def test_without_a_nats_server_one_line_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(NoBus, match="apt-get install nats-server"), serving_bus(tmp_path):
        pass


def test_a_bus_ends_with_its_block(tmp_path: Path) -> None:
    binary()
    with serving_bus(tmp_path) as bus:
        url = urlsplit(bus.url)
        with socket.create_connection((url.hostname, url.port), 30) as connection:
            assert connection.recv(5) == b"INFO "
    assert bus.process.poll() == -signal.SIGKILL
    assert bus.process.cpu_s > 0
