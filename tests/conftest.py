"""What tests of several folders share."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.crawl.crawling import STARTED
from tests.forked import end, python
from tests.unit import virtualtime

ROOT = Path(__file__).parents[1]

Scrapy = Callable[..., "subprocess.CompletedProcess[str]"]

# Nothing is timed in tests: a machine may stop for a while inside any example. The gate draws the
# same examples in each run; `make fuzz` draws others, and more of them.
untimed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("gate", untimed, derandomize=True, database=None)
settings.register_profile("fuzz", untimed, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "gate"))

# `make test &` in a script ignores SIGINT, and each process that a test starts would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine in an event loop of its own, and close its things there.

    Its things are the instance of its class and its fixtures, as far as they have an `aclose`. The
    loop has virtual time with the mark `virtual_time`.
    """
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {
        name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters
    }

    async def run_and_close() -> None:
        await pyfuncitem.obj(**arguments)
        for each in (pyfuncitem.instance, *arguments.values()):
            if inspect.iscoroutinefunction(getattr(each, "aclose", None)):
                await each.aclose()

    is_virtual = pyfuncitem.get_closest_marker("virtual_time")
    (virtualtime.run if is_virtual else asyncio.run)(run_and_close())
    return True


@pytest.fixture(scope="module", autouse=True)
def no_crawl_is_left() -> Iterator[None]:
    """End the crawls that failed tests have left running. Some serve a whole module."""
    yield
    while STARTED:
        process = STARTED.pop()
        if process.poll() is None:
            process.kill()
            process.wait()


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
