"""`scrapy sweep`: small experiments from end to end, on a simulated web and on seeds."""

from __future__ import annotations

import csv
import signal
import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path

import pytest
from scrapy.exceptions import UsageError
from scrapy.utils.project import get_project_settings

from simweb import faults
from tests.conftest import ROOT
from tests.crawl.crawling import WAIT_S, until
from tests.forked import python, running
from webcrawl.tools.sweep.command import Command

pytestmark = pytest.mark.slow
QUICK = ("--pages=15", "--latency=0.1")


def command(out: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "scrapy", "sweep", f"--out={out}", *arguments]


def sweep(out: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = python(*command(out, *arguments)[1:])
    assert "Traceback" not in done.stderr
    return done


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_memory_against_disk(tmp_path: Path) -> None:
    done = sweep(tmp_path, "--memory-vs-disk", *QUICK)
    assert done.returncode == 0, done.stderr
    assert [line[:6] for line in done.stdout.splitlines()] == ["memory", "disk  "]
    assert [row["store"] for row in rows(tmp_path / "memory-vs-disk.csv")] == ["memory", "disk"]
    assert (tmp_path / "memory-vs-disk-samples.csv").exists()


def test_a_crawl_over_time(tmp_path: Path) -> None:
    arguments = ("--long", "--longest=4", "-s", "DOWNLOAD_DELAY=30", "--keep")
    done = sweep(tmp_path, *arguments)
    assert done.returncode == 0, done.stderr
    (row,) = rows(tmp_path / "long.csv")
    assert row["finish_reason"] == "closespider_timeout"
    assert list((tmp_path / "long" / "warc").glob("*.warc.gz"))
    assert done.stdout.splitlines()[-1] == str(tmp_path / "long" / "report" / "index.html")


def test_own_seeds_are_crawled_in_two_steps_with_the_delays_of_a_crawl(tmp_path: Path) -> None:
    out = tmp_path / "out"
    world = ("--hosts=60", "--seeds=60", "--host-delay=1", "--partial", "--features=none")
    with running(*world) as web:
        seeds = tmp_path / "seeds.txt"
        seeds.write_text("\n".join(web.seeds))
        settings = (f"DNS_SERVERS={web.dns}", "ALLOW_PRIVATE_ADDRESSES=1", "DOWNLOAD_DELAY=1")
        options = [part for each in (*settings, "IP_DELAY=0") for part in ("-s", each)]
        done = sweep(out, "-a", f"seeds={seeds}", "--steps=4,8", "--pages=15", *options)
        ledger = web.ledger()
    assert done.returncode == 0, done.stderr
    assert "waits 1 s, the delay of hosts" in done.stderr
    ledger["violations"]["twice"]["count"] = 0  # each step crawls the same pages
    assert faults(ledger) == []
    assert [line.partition(" pages")[0].split() for line in done.stdout.splitlines()] == [
        ["fetches-004:", "15"],
        ["fetches-008:", "15"],
    ]
    table = rows(out / "concurrency.csv")
    assert [row["fetches"] for row in table] == ["4", "8"]
    for row in table:
        assert row["pages"] == "15"
        assert row["finish_reason"] == "closespider_pagecount"
        assert int(row["html_bytes"]) > 10_000
        assert int(row["warc_bytes"]) > 10_000
    assert (out / "concurrency.svg").read_text().startswith("<?xml")
    left = {path.name for path in (out / "fetches-004").iterdir()}
    assert "report.json" in left
    assert not left & {"warc", "job"}
    again = sweep(out, "--steps=4", *QUICK)
    assert again.returncode == 2
    assert again.stderr.endswith(f"--out {out} is not empty: choose another folder\n")


def test_ctrl_c_keeps_the_steps_that_are_done(tmp_path: Path) -> None:
    with subprocess.Popen(
        command(tmp_path, "--steps=8,1", *QUICK),
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        until((tmp_path / "fetches-001" / "out.txt").exists)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=WAIT_S)
    assert process.returncode == 130
    assert len(out.splitlines()) == 1
    assert err.endswith(f"sweep: stopped; {tmp_path} has the crawls before\n")
    assert "Traceback" not in err
    assert [row["fetches"] for row in rows(tmp_path / "concurrency.csv")] == ["8"]
    assert (tmp_path / "concurrency.svg").exists()
    assert not (tmp_path / "fetches-001" / "warc").exists()


def test_a_crawl_that_fails_ends_the_sweep(tmp_path: Path) -> None:
    arguments = ("-a", "seeds=http://127.0.0.1:2/", "--steps=4,8", "--pages=5")
    done = sweep(tmp_path, *arguments, "-s", "ALLOW_PRIVATE_ADDRESSES=1", "-s", "RETRY_TIMES=0")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "sweep: " in done.stderr.splitlines()[-1]
    assert str(tmp_path / "fetches-004" / "log.txt") in done.stderr
    assert not (tmp_path / "fetches-008").exists()


MISTAKES = {
    "--steps=0": "--steps 0: different numbers from 1",
    "--steps=8,8": "--steps 8,8: different numbers from 1",
    "--steps=8:512": "--steps 8:512: different numbers from 1",
    "--steps=1:1000000000000:1": "--steps 1:1000000000000:1: different numbers from 1",
    "--steps=1:100:1": "--steps 1:100:1: different numbers from 1, such as 8,16,32 or 8:512:8, at",
    "--pages=0": "--pages 0: more than 0 is needed",
    "--longest=-1": "--longest -1.0: more than 0 is needed",
    "--latency=-1": "--latency -1.0: 0 or more is needed",
    "-aseed=x": "-a seed=x: only -a seeds=... is known",
    "-aseeds=-": "-a seeds=-: standard input cannot be read twice",
    "-sJOBDIR=x": "JOBDIR is set by the sweep",
    "-sDOWNLOAD_DELAY=x": "DOWNLOAD_DELAY = 'x' cannot be used: a number of seconds, 0 or more",
    "--out=/proc/x": "--out /proc/x: ",
}


@pytest.mark.parametrize("argument", MISTAKES)
def test_a_mistake_is_one_line(tmp_path: Path, argument: str) -> None:
    command = Command()
    command.settings = get_project_settings()
    parser = ArgumentParser(conflict_handler="resolve")
    command.add_options(parser)
    opts, args = parser.parse_known_args([f"--out={tmp_path}", argument])
    command.process_options(args, opts)
    with pytest.raises(UsageError) as refused:
        command.run(args, opts)
    assert MISTAKES[argument] in str(refused.value)
    assert not refused.value.print_help
    assert list(tmp_path.iterdir()) == []


def test_a_missing_seed_list_is_one_line(tmp_path: Path) -> None:
    done = sweep(tmp_path, "-aseeds=gone.txt")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("bad seed: ")
    assert list(tmp_path.iterdir()) == []


def test_without_a_checkout_there_is_no_simulated_web(tmp_path: Path) -> None:
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = webcrawl.settings\n")
    (tmp_path / "webcrawl").symlink_to(ROOT / "webcrawl")
    done = subprocess.run(  # a fork has imported it
        command(tmp_path / "out"), cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "needs a checkout" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()
