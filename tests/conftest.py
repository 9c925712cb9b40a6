"""What tests of several folders share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from tests.crawl.crawling import STARTED

ROOT = Path(__file__).parents[1]

Scrapy = Callable[..., "subprocess.CompletedProcess[str]"]

# Nothing is timed in tests: a machine may stop for a while inside any example. The gate draws the
# same examples in each run; `make fuzz` draws others, and more of them.
untimed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("gate", untimed, derandomize=True, database=None)
settings.register_profile("fuzz", untimed, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "gate"))


# Modules whose tests look at one costly crawl: with `-n N --dist loadscope` it is made once.
SHARED = frozenset(
    f"tests/{name}.py"
    for name in (
        "adapters/test_package",
        "crawl/test_archive",
        "crawl/test_cluster_views",
        "crawl/test_real_sites",
        "crawl/test_replay",
        "crawl/test_report",
        "crawl/test_watching",
    )
)


class Scheduling(LoadScopeScheduling):
    """Gives a test to each process that is free, and a module of SHARED to one process."""

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.partition("::")[0]
        return module if module in SHARED else nodeid


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling | None:
    return Scheduling(config, log) if config.getvalue("dist") == "loadscope" else None


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
