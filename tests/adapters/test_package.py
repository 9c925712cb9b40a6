"""The package: a wheel, installed without the checkout, runs from any folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import Distribution, distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.forked import python, running
from webcrawl import __version__

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
FILES = ("LICENSE", "README.md", "pyproject.toml")
PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    checkout = tmp_path_factory.mktemp("checkout")
    no_bytecode = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "webcrawl", checkout / "webcrawl", ignore=no_bytecode)
    for name in FILES:
        shutil.copy(ROOT / name, checkout)
    return checkout


@pytest.fixture(scope="module")
def site(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the installed package, and without the libraries of its extras.

    Its dependencies are those of the environment.
    """
    folder = tmp_path_factory.mktemp("package")
    # The environment's setuptools builds the wheel, so that nothing is downloaded.
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, checkout)
    (wheel,) = folder.glob("*.whl")
    pip("install", "--no-deps", "--no-index", "--target", folder / "site", wheel)
    for name in ("duckdb", "jinja2", "matplotlib", "nats", "plotly", "resiliparse", "rich"):
        (folder / "site" / f"{name}.py").write_text("raise ModuleNotFoundError(name=__name__)")
    return folder / "site"


def pip(*arguments: str | Path) -> None:
    done = subprocess.run([*PIP, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def webcrawl(site: Path, cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "webcrawl", *arguments],
        cwd=cwd, env=os.environ | {"PYTHONPATH": str(site)},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def package(site: Path) -> Distribution:
    (package,) = distributions(name="webcrawl", path=[str(site)])
    return package


def test_its_metadata(package: Distribution) -> None:
    assert package.version == __version__
    assert package.metadata["License-Expression"] == "BSD-3-Clause"
    assert {point.value for point in package.entry_points.select(group="console_scripts")} == {
        "webcrawl.__main__:main"
    }


def test_its_dependencies_are_those_of_a_crawl(package: Distribution) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    given = [line for line in package.requires or [] if "extra ==" not in line]
    assert set(map(Requirement, given)) == set(map(Requirement, project["dependencies"]))


def test_its_files(package: Distribution) -> None:
    names = {str(file) for file in package.files or []}
    assert {
        f"webcrawl/seeds/{path.name}" for path in (ROOT / "webcrawl/seeds").glob("*.txt")
    } <= names
    assert {f"webcrawl/live/page/{name}" for name in ("index.html", "live.css", "live.js")} <= names
    folders = {name.partition("/")[0] for name in names}
    assert folders - {".."} == {"webcrawl", f"webcrawl-{__version__}.dist-info"}  # ..: the script


def test_a_crawl_from_another_folder(site: Path, tmp_path: Path) -> None:
    with running("--hosts", "20", "--pages-per-host", "3", "--host-delay", "0.1") as web:
        done = webcrawl(
            site, tmp_path, "crawl", "broad", "-a", f"seeds={','.join(web.seeds)}",
            "-s", f"DNS_SERVERS={web.dns}", "-s", "ALLOW_PRIVATE_ADDRESSES=1",
            "-s", "DOWNLOAD_DELAY=0.1", "-s", "IP_DELAY=0", "-s", "CRAWL_PROCESSES=2",
            "-s", "DOWNLOAD_TIMEOUT=2", "-s", "RETRY_TIMES=0",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert web.ledger()["fetched"]["pages"] > 0
    assert list((tmp_path / "warc").glob("*.warc.gz"))


SPIDER = """
import scrapy

class Own(scrapy.Spider):
    name = "own"
    start_urls = ["{seed}"]

    def parse(self, response):
        yield {{"own": response.url}}
"""


def test_the_add_on_in_a_fresh_scrapy_project(site: Path, tmp_path: Path) -> None:
    """What Scrapy makes, and ADDONS: the project's own spider, then the broad one."""
    assert not python("-m", "scrapy", "startproject", "fresh", str(tmp_path)).returncode
    settings = tmp_path / "fresh" / "settings.py"
    text = settings.read_text().replace("ADDONS = {}", 'ADDONS = {"webcrawl.Addon": 100}')
    assert "webcrawl.Addon" in text
    with running("--hosts", "6", "--pages-per-host", "3", "--host-delay", "0.1") as web:
        more = f"DNS_SERVERS = [{web.dns!r}]\nALLOW_PRIVATE_ADDRESSES = True\nIP_DELAY = 0\n"
        settings.write_text(text.replace("DOWNLOAD_DELAY = 1\n", "DOWNLOAD_DELAY = 0.1\n") + more)
        (tmp_path / "fresh/spiders/own.py").write_text(SPIDER.format(seed=web.seeds[0]))
        for arguments in (["own", "-o", "own.jsonl"], ["broad", "-a", f"seeds={web.seeds[0]}"]):
            done = subprocess.run(
                [sys.executable, "-m", "scrapy", "crawl", *arguments],
                cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(site)},
                capture_output=True, text=True, timeout=300, check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            assert "Crawled 1 pages @" in done.stdout or arguments[0] == "broad"
            assert "Traceback" not in done.stderr
        violations = web.ledger()["violations"]
        for name in ("before_robots", "disallowed", "early_host"):
            assert not violations[name]["count"], violations
    assert (tmp_path / "own.jsonl").read_text().count("own") == 1
    assert list((tmp_path / "warc").glob("*.warc.gz"))


BR = "webcrawl/seeds/br.txt"
# Commands that end soon: their exit codes, and what they print.
COMMANDS = {
    ("--help",): (0, "simweb"),
    ("list",): (0, "broad"),
    # No seed is in this scope, so nothing is asked of the network.
    ("crawl", "broad", "-a", "seeds=seeds/br.txt", "-s", "SCOPE_SUFFIXES=.invalid"): (
        *(1, f"Opened seeds/br.txt with size {(ROOT / BR).stat().st_size}"),
    ),
    ("simweb", "--hosts", "3"): (
        *(2, "scrapy simweb needs a checkout of webcrawl: run it at the checkout's root"),
    ),
    ("report", "."): (2, "scrapy report needs duckdb: pip install -e '.[tools]' in a clone"),
    ("botpage",): (2, "scrapy botpage needs jinja2: pip install -e '.[tools]' in a clone"),
    ("top", "."): (2, "scrapy top needs rich: pip install -e '.[tools]' in a clone"),
    ("corpus",): (2, "scrapy corpus needs duckdb: pip install -e '.[corpus]' in a clone"),
    ("sweep",): (2, "scrapy sweep needs plotly: pip install -e '.[tools]' in a clone"),
    ("crawl", "broad", "-a", "seeds=http://h.test/", "-s", "CLUSTER=nats://bus"): (
        *(2, "CLUSTER needs nats-py: pip install -e '.[cluster]' in a clone"),
    ),
}
# Each in a fork of one process: they take a second to import what all need.
FORKS = """
import os, runpy, sys
from webcrawl import __main__
for arguments in {commands}:
    if not os.fork():
        os.dup2(1, 2)
        sys.argv[1:] = arguments
        runpy.run_module("webcrawl", run_name="__main__")
    print("exit code", os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""


def test_commands_of_the_package(site: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKS.format(commands=list(COMMANDS))],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(site)},
        capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    said = re.findall(r"(?s)(.*?)exit code (\d+)\n", done.stdout)
    for (arguments, (code, line)), (text, found) in zip(COMMANDS.items(), said, strict=True):
        assert line in text, (arguments, text)
        assert int(found) == code, (arguments, text)
        assert "Traceback" not in text
