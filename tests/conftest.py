"""What tests of several folders share."""

from __future__ import annotations

import asyncio
import gc
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
settings.register_profile("gate", untimed, max_examples=60, derandomize=True, database=None)
settings.register_profile("fuzz", untimed, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "gate"))

os.environ.pop("SCRAPY_SETTINGS_MODULE", None)

# `make test &` in a script ignores SIGINT, and each process that a test starts would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


gc.disable()  # until the tests are collected: hardly any of their objects are garbage


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the file that takes longest, two minutes: at the end all others would be done."""
    items.sort(key=lambda item: item.path.name != "test_scrapy_suite.py")


def pytest_collection_finish() -> None:
    """Let the cycle collector look at what tests make, not at 6,000 tests: an eighth of the CPU."""
    gc.enable()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def pytest_runtest_teardown() -> None:
    """Forget the project that `get_project_settings` has named to all processes started later."""
    os.environ.pop("SCRAPY_SETTINGS_MODULE", None)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine in an event loop of its own.

    Its fixtures, and the instance of its class, are opened and closed in the loop if they have
    coroutines `aopen` and `aclose`. Then no task may be left. With the mark `virtual_time` the
    loop never waits; a fixture `run` that can be called runs the test in its own loop.
    """
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {
        name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters
    }

    async def call(name: str) -> None:
        for each in (*arguments.values(), pyfuncitem.instance):
            if inspect.iscoroutinefunction(method := getattr(each, name, None)):
                await method()

    async def run_and_close() -> None:
        await call("aopen")
        await pyfuncitem.obj(**arguments)
        await call("aclose")
        for _ in range(9):  # turns of the loop, in which what was cancelled ends
            await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}, "it leaves tasks behind"

    is_virtual = pyfuncitem.get_closest_marker("virtual_time")
    run = pyfuncitem.funcargs.get("run")
    if not callable(run):
        run = virtualtime.run if is_virtual else asyncio.run
    run(run_and_close())
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
