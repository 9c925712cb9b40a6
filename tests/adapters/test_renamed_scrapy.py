"""Real commands with a copy of Scrapy in which one private name is renamed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import scrapy

from tests.adapters.test_debugging import site

ROOT = Path(__file__).parents[2]


def with_another_scrapy(
    folder: Path, name: str, *arguments: str
) -> subprocess.CompletedProcess[str]:
    package = folder / "scrapy"
    source = Path(scrapy.__file__).parent
    shutil.copytree(source, package, ignore=shutil.ignore_patterns("__pycache__"))
    for path in package.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        path.write_text(re.sub(rf"\b{name}\b", f"{name}_now", text), encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-m", "scrapy", *arguments, "-s", "ALLOW_PRIVATE_ADDRESSES=1"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def refusal(name: str) -> str:
    return f"Scrapy {scrapy.__version__} has no scrapy.core.{name}, and without it "


def test_a_scrapy_without_a_name_of_a_promise_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "log"
    arguments = ("crawl", "broad", "-a", "seeds=127.0.0.1:8", "-s", f"LOG_FILE={log}")
    done = with_another_scrapy(tmp_path, "_enqueue_request", *arguments)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(refusal("downloader.Downloader._enqueue_request"))
    assert line in log.read_text()


def test_a_scrapy_that_is_only_slower_fetches_with_one_warning(tmp_path: Path) -> None:
    with site() as url:
        done = with_another_scrapy(tmp_path, "_scrape", "fetch", url)
    assert done.returncode == 0
    assert "<p>page" in done.stdout
    warnings = [line for line in done.stderr.splitlines() if "runs its own engine" in line]
    assert len(warnings) == 1
    assert warnings[0].endswith("it has no scrapy.core.scraper.Scraper._scrape")
