"""Scrapy's own tests, on this project's scheduler and download handler.

They are in Scrapy's source archive, which `make test` downloads. Each group runs in a pytest
process of its own: Scrapy's tests are a package `tests` as well, and need a reactor. gaps.py lists
the tests that must fail.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import scrapy
from gaps import ASSERT_A_TIME, GAPS

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SUITE = ROOT / ".venv" / "scrapy-suite"
SDIST = SUITE / f"scrapy-{scrapy.__version__}.tar.gz"

# The test files that use a handler; and those that use a scheduler, or the engine between them.
GROUPS = {
    "handler": ("webcrawl_handler",),
    "engine": (
        "webcrawl_swap", "core_scraper", "engine", "engine_close_spider", "engine_download",
        "engine_loop", "engine_stop_download_bytes", "engine_stop_download_headers",
        "scheduler", "scheduler_base", "downloaderslotssettings", "closespider",
        "crawl", "spider_crawl", "spider_start", "request_left",
        "downloadermiddleware", "downloadermiddleware_robotstxt", "spidermiddleware",
        "spidermiddleware_httperror", "spidermiddleware_output_chain",
        "spidermiddleware_process_start", "request_attribute_binding", "request_cb_kwargs",
        "signals", "pipelines", "pipeline_crawl",
    ),
}  # fmt: skip

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not SDIST.exists(), reason=f"`make test` downloads {SDIST.name}"),
]


@pytest.fixture
def sdist(tmp_path: Path) -> Path:
    """Scrapy's source, with our tests beside its own."""
    folder = tmp_path / SDIST.name.removesuffix(".tar.gz")
    others = (f"{folder.name}/scrapy/", f"{folder.name}/docs/")  # the installed Scrapy is tested
    with tarfile.open(SDIST) as archive:
        tests = [each for each in archive if not each.name.startswith(others)]
        archive.extractall(tmp_path, tests, filter="data")
    for path in (HERE / "beside").glob("*.py"):
        shutil.copy(path, folder / "tests" / f"test_webcrawl_{path.name}")
    return folder


@pytest.mark.timeout(900)  # a group has up to 360 tests: a minute, and five on a busy machine
@pytest.mark.parametrize("group", GROUPS)
def test_scrapys_own_tests(group: str, sdist: Path) -> None:
    plugins = ["declared_gaps"] + ["swapped_defaults"] * (group != "handler")
    # Our pytest is newer than Scrapy's tests, and lacks a plugin for which they have a mark.
    warnings = ["PytestRemovedIn10Warning", "PytestUnknownMarkWarning"]
    options = [f"-p{plugin}" for plugin in plugins]
    options += [f"-Wignore::pytest.{warning}" for warning in warnings]
    options += [f"--deselect={test}" for test in ASSERT_A_TIME]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rfE", "--tb=short", "--reactor=asyncio",
         "--assert=plain", "-pno:cacheprovider", "-pno:xdist", "-mnot requires_internet", *options,
         *(f"tests/test_{name}.py" for name in GROUPS[group])],
        cwd=sdist, env=environment(), capture_output=True, text=True, timeout=840, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout[-20_000:] + result.stderr[-2_000:]


def environment() -> dict[str, str]:
    """Our environment, without the variables of the outer pytest, with those of the inner one."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return kept | {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, HERE, SUITE / "lib")))}


def test_the_documentation_has_each_gap() -> None:
    text = (ROOT / "docs" / "extending.md").read_text()
    section = text.partition("## Differences to Scrapy\n")[2].partition("\n### ")[0]
    items = re.findall(r"^- (.+(?:\n  .+)*)", section, re.MULTILINE)
    assert [" ".join(each.split()) for each in items] == list(GAPS)
