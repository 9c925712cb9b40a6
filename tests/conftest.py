"""What tests of several folders share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.crawl.crawling import STARTED

ROOT = Path(__file__).parents[1]

Scrapy = Callable[..., "subprocess.CompletedProcess[str]"]

# Nothing is timed in tests: a machine may stop for a while inside any example. The gate draws the
# same examples in each run; `make fuzz` draws others, and more of them.
untimed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("gate", untimed, derandomize=True, database=None)
settings.register_profile("fuzz", untimed, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "gate"))


@pytest.fixture(scope="module", autouse=True)
def no_crawl_is_left() -> Iterator[None]:
    """End the crawls that failed tests have left running. Some serve a whole module."""
    yield
    while STARTED:
        process = STARTED.pop()
        if process.poll() is None:
            process.kill()
            process.wait()


@pytest.fixture
def scrapy(tmp_path: Path) -> Scrapy:
    """Runs `scrapy ARGUMENTS` in the project, with archives in the test's own folder."""

    def run(
        *arguments: str, stdin: str = "", timeout_s: float = 300
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "scrapy", *arguments, "-s", f"WARC_DIR={tmp_path / 'warc'}"],
            cwd=ROOT, input=stdin, capture_output=True, text=True, timeout=timeout_s, check=False,
        )  # fmt: skip

    return run
