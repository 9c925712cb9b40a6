"""Debugging commands leave no archive, no report and no JOBDIR, and wait for 1 s only."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from stock_crawl import site

from tests.forked import python

ROBOTS = {"/robots.txt": (200, "User-agent: *\nDisallow: /secret")}


def scrapy(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    folder.mkdir(exist_ok=True)
    command = ["-m", "scrapy", *arguments, "-s", "ALLOW_PRIVATE_ADDRESSES=1"]
    for name in ("WARC_DIR", "REPORT_DIR", "JOBDIR"):
        command += ["-s", f"{name}={folder / name}"]
    return python(*command, cwd=folder, env={"SCRAPY_SETTINGS_MODULE": "webcrawl.settings"})


COMMANDS = [
    ("fetch",),
    ("fetch", "--spider=broad"),
    ("parse", "--spider=broad"),
    ("shell", "-c", "response.text"),
    ("shell", "--spider=broad", "-c", "response.text"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_debugging_command_leaves_nothing(tmp_path: Path, command: tuple[str, ...]) -> None:
    with site(ROBOTS) as pages:
        done = scrapy(tmp_path / "crawl", *command, pages.url(), "-s", "CRAWL_PROCESSES=2")
    assert done.returncode == 0, done.stderr
    assert ("<p>page" in done.stdout) or (command[0] == "parse" and pages.url() in done.stdout)
    assert "robots.txt is asked first, and the page 1 s later" in done.stderr
    assert "Traceback" not in done.stderr
    assert list((tmp_path / "crawl").iterdir()) == []


@pytest.mark.parametrize(
    ("path", "setting", "reason"),
    [("/secret", "SITEMAPS=1", "robots 1"), ("/", "SCOPE_SUFFIXES=.br", "scope_suffix 1")],
)
def test_a_refused_url_is_a_warning(tmp_path: Path, path: str, setting: str, reason: str) -> None:
    with site(ROBOTS) as pages:
        done = scrapy(tmp_path / "crawl", "fetch", pages.url(path), "-s", setting)
    assert done.stdout == ""
    assert f"WARNING: URLs without an answer: {reason} (" in done.stderr


def test_folders_that_a_debugging_command_does_not_use_may_have_any_value(tmp_path: Path) -> None:
    (tmp_path / "warc").touch()  # as in a folder that cannot be written
    folders = ("-s", "WARC_PREFIX=a", "-s", "REPORT_DIR=/dev/null")
    with site(ROBOTS) as pages:
        done = scrapy(tmp_path, "fetch", pages.url(), *folders)
    assert "<p>page" in done.stdout


def test_bench_measures_and_leaves_no_files(tmp_path: Path) -> None:
    done = scrapy(
        tmp_path / "crawl", "bench", "-s", "LOG_LEVEL=INFO", "-s", "CLOSESPIDER_TIMEOUT=1"
    )
    assert done.returncode == 0, done.stderr
    assert "'finish_reason': 'closespider_timeout'" in done.stderr
    assert "blocked_address" not in done.stderr
    assert "'response_received_count'" in done.stderr
    assert list((tmp_path / "crawl").iterdir()) == []


@pytest.mark.parametrize("command", [("check",), ("list",), ("version",), ("settings",)])
def test_other_commands_work_as_in_scrapy(tmp_path: Path, command: tuple[str, ...]) -> None:
    done = scrapy(tmp_path / "crawl", *command)
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "crawl").iterdir()) == []
