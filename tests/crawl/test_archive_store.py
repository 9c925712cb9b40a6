"""ARCHIVE_STORE in whole crawls, with a real S3 server that goes away and comes back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from simweb import Running
from tests.crawl.crawling import Crawl, wait_for_servers
from tests.crawl.onecrawl import assert_one_crawl
from tests.crawl.smalldisk import VIEW, mounts
from tests.forked import running
from tests.objectserver import BUCKET, SECRET, Between, environment, s3_server
from webcrawl.warc.objects import Objects

pytestmark = pytest.mark.slow

URL = f"s3://{BUCKET}/crawl"
UNDER_WAY_MAX = 8
WORLD = (
    *("--seed", "199", "--hosts", "12", "--seeds", "12", "--pages-per-host", "25"),
    *("--features", "none", "--page-bytes", "80000", "--host-delay", "0.1", "--ip-delay", "0.02"),
)


@contextmanager
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Between, Objects]]:
    """The way of crawls to a store, and the store itself."""
    with s3_server() as port, Between(port) as way:
        for name, value in environment(port).items():
            monkeypatch.setenv(name, value)
        objects = Objects(URL)
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{way.port}")
        yield way, objects


def start(folder: Path, web: Running, **more: object) -> Crawl:
    given = {"JOBDIR": folder / "job", "WARC_MAX_SIZE": 500_000, "ARCHIVE_STORE": URL}
    return Crawl(folder, web=web, CONCURRENT_REQUESTS=UNDER_WAY_MAX, **(given | more))  # type: ignore[arg-type]


def warcs(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if "cdxj" in path.name or "warc" in path.name]


def has_warc(objects: Objects) -> bool:
    return any(name.endswith(".warc.gz") for name in objects.sizes())


def fetch(objects: Objects, folder: Path) -> None:
    """Fetch what is not in `folder`."""
    for name, size in objects.sizes().items():
        if not (folder / name).exists():
            objects.fetch(name, size, folder / name)


def assert_no_secret(folder: Path) -> None:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]


def test_what_a_killed_crawl_has_not_sent_goes_with_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(*WORLD) as web, store(monkeypatch) as (way, objects):
        crawl = start(tmp_path, web, CRAWL_PROCESSES=2)
        crawl.until_true(lambda: has_warc(objects))
        way.is_away = True
        crawl.until("ARCHIVE_STORE takes no files for now")
        crawl.until_true(lambda: len(list((tmp_path / "warc").glob("*.warc.gz"))) >= 3)
        crawl.kill()
        way.is_away = False
        wait_for_servers(web.port)
        result = start(tmp_path, web, CRAWL_PROCESSES=2).wait()
        assert "Traceback" not in result.log
        assert warcs(tmp_path / "warc") == []
        fetch(objects, tmp_path / "warc")
        assert_no_secret(tmp_path)
        assert_one_crawl(web, result, 2 * UNDER_WAY_MAX)


# A crawl on a disk of 8 MB.
SMALL = """mount -t tmpfs -o size=8m none "$0" && "$@"; code=$?
ls "$0" > "$0.left"; exit $code"""


@mounts
def test_a_disk_that_fills_while_the_store_is_away_pauses_the_crawl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = tmp_path / "small"
    small.mkdir()
    with running(*WORLD) as web, store(monkeypatch) as (way, objects):
        crawl = start(
            tmp_path,
            web,
            CRAWL_PROCESSES=2,
            WARC_DIR=small,
            REPORT_DIR=tmp_path / "warc",
            DISK_FREE_MIN="5M",
            within=(*VIEW, "sh", "-c", SMALL, str(small)),
        )
        crawl.until_true(lambda: has_warc(objects))
        way.is_away = True
        crawl.until("bytes free: the crawl pauses until ARCHIVE_STORE has taken files")
        crawl.until("bytes free: the crawl pauses\n")
        way.is_away = False
        result = crawl.wait()
        pauses = result.log.count("the crawl pauses until")  # the last files may fill it again
        assert result.log.count("The disk has room again after") == pauses
        assert "--- the crawl continues" in result.output
        assert (tmp_path / "small.left").read_text() == ""
        fetch(objects, tmp_path / "warc")
        assert_one_crawl(web, result, UNDER_WAY_MAX)


def test_a_store_that_cannot_be_used_ends_the_crawl_before_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(*WORLD) as web, store(monkeypatch):
        result = start(tmp_path, web, ARCHIVE_STORE="s3://nobody/crawl", LOG_LEVEL="ERROR").wait()
        assert result.exit_code == 2
        assert result.log == (
            "ARCHIVE_STORE = 's3://nobody/crawl' cannot be used: NoSuchBucket: The specified bucket"
            " does not exist\n"
        )
        assert not web.ledger()["totals"].get("requests")
        assert not os.path.exists(tmp_path / "warc")
