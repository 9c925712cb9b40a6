"""What tests of several folders share."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.crawl.crawling import STARTED
from tests.forked import end, python

ROOT = Path(__file__).parents[1]

Scrapy = Callable[..., "subprocess.CompletedProcess[str]"]

# Nothing is timed in tests: a machine may stop for a while inside any example. The gate draws the
# same examples in each run; `make fuzz` draws others, and more of them.
untimed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("gate", untimed, derandomize=True, database=None)
settings.register_profile("fuzz", untimed, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "gate"))

os.environ.pop("SCRAPY_SETTINGS_MODULE", None)

# `make test &` in a script ignores SIGINT, and each process that a test starts would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_teardown() -> None:
    """Forget the project that `get_project_settings` has named to all processes started later."""
    os.environ.pop("SCRAPY_SETTINGS_MODULE", None)


@pytest.fixture(scope="module", autouse=True)
def no_crawl_is_left() -> Iterator[None]:
    """End the crawls that failed tests have left running. Some serve a whole module."""
    yield
    while STARTED:
        process = STARTED.pop()
        if process.poll() is None:
            process.kill()
            process.wait()


@pytest.fixture(autouse=True)
def the_environment_is_as_before() -> Iterator[None]:
    """Scrapy sets SCRAPY_SETTINGS_MODULE in a project: the processes of later tests inherit it."""
    before = dict(os.environ)
    yield
    for name in os.environ.keys() - before.keys() - {"PYTEST_CURRENT_TEST"}:
        del os.environ[name]


@pytest.fixture(scope="session", autouse=True)
def no_fork_is_left() -> Iterator[None]:
    yield
    end()


@pytest.fixture
def scrapy(tmp_path: Path) -> Scrapy:
    """Runs `scrapy ARGUMENTS` in the project, with archives in the test's own folder."""

    def run(
        *arguments: str, stdin: str = "", timeout_s: float = 280
    ) -> subprocess.CompletedProcess[str]:
        archive = ("-s", f"WARC_DIR={tmp_path / 'warc'}")
        return python("-m", "scrapy", *arguments, *archive, stdin=stdin, timeout_s=timeout_s)

    return run
