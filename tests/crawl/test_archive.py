"""Archives of whole crawls, compared with the bytes sent, and checked by public tools."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
from fastwarc.warc import ArchiveIterator as FastwarcIterator
from warcio.archiveiterator import ArchiveIterator as WarcioIterator

from simweb import faults
from tests.crawl.crawling import Result, assert_clean, crawl
from tests.crawl.knownsite import ODD, SOUND, Record, Site, crawled, records, served
from tests.forked import running
from webcrawl.tools.warccheck.check import check
from webcrawl.warc.index import index_path

pytestmark = pytest.mark.slow

ANSWERS = ("response", "revisit")
HEAD_END = b"\r\n\r\n"


class Archive:
    """The one WARC file of a crawl, and the site that was crawled."""

    def __init__(self, site: Site, result: Result) -> None:
        assert_clean(result)
        self.site = site
        (self.path,) = result.warcs
        self.records = records(self.path)

    @property
    def answers(self) -> dict[str, Record]:
        """The response or revisit record per path; asserts that each path has one."""
        found = [each for each in self.records if each.type in ANSWERS]
        paths = [each.url.removeprefix(self.site.url) for each in found]
        assert [path for path, count in Counter(paths).items() if count > 1] == []
        return dict(zip(paths, found, strict=True))


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Archive]:
    with served(SOUND) as site:
        yield Archive(site, crawled(tmp_path_factory.mktemp("sound"), site, HEAD_FIRST=1))


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Archive]:
    """Of all answers, sound and odd."""
    with served(SOUND | ODD) as site:
        yield Archive(site, crawled(tmp_path_factory.mktemp("odd"), site))


# Compared with the server


def test_each_page_is_archived_once_as_sent(archive: Archive) -> None:
    assert archive.answers.keys() == archive.site.pages.keys()
    for path, record in archive.answers.items():
        sent = archive.site.archived(path)
        if record.type == "revisit":
            sent = sent[: sent.index(HEAD_END) + len(HEAD_END)]
        assert record.block == sent, path


def test_each_request_is_archived_as_the_server_read_it(archive: Archive) -> None:
    requests = {
        each.url.removeprefix(archive.site.url): [each.block]
        for each in archive.records
        if each.type == "request"
    }
    assert requests == archive.site.requests


def test_only_an_identical_body_is_a_revisit(sound: Archive) -> None:
    """The same text sent gzipped is another body: its headers do not fit the first body."""
    plain, copy = sound.answers["/plain"], sound.answers["/copy"]
    assert {path for path, each in sound.answers.items() if each.type == "revisit"} == {"/copy"}
    assert copy.fields["warc-refers-to-target-uri"] == plain.url
    assert copy.fields["warc-refers-to-date"] == plain.fields["warc-date"]
    assert copy.fields["warc-payload-digest"] == plain.fields["warc-payload-digest"]


def test_a_truncated_page_says_why(sound: Archive) -> None:
    reasons = {path: each.fields.get("warc-truncated") for path, each in sound.answers.items()}
    assert {path: reason for path, reason in reasons.items() if reason} == {
        "/cut": "disconnect",
        "/large": "length",
        "/copy": "length",  # a revisit (WARC 1.1, 6.7.2)
    }


def test_answers_to_head_are_not_archived(sound: Archive) -> None:
    of_site = chain.from_iterable(sound.site.requests.values())
    asked = Counter(each.split(b" ")[0] for each in of_site)
    assert asked[b"HEAD"] > 0
    methods = Counter(each.block.split(b" ")[0] for each in sound.records if each.type == "request")
    assert methods == {b"GET": asked[b"GET"]}


def test_every_answer_in_a_ledger_has_one_record(tmp_path: Path) -> None:
    world = ("--hosts", "30", "--pages-per-host", "8", "--page-bytes", "2000", "--slowness", "0.2")
    promises = ("--host-delay", "0.1", "--ip-delay", "0.02")
    more = ("--features=-page-br,-page-flaky,-dns-*", "--requisites")
    with running(*world, *promises, *more) as web:
        result = crawl(tmp_path, web=web, PAGE_REQUISITES=1)
        ledger = web.ledger()
        totals = ledger["totals"]
    assert_clean(result)
    assert not faults(ledger)
    statuses: Counter[bytes] = Counter()
    shown = 0
    for path in result.warcs:
        assert tool("warcio.cli", "check", path).returncode == 0
        assert fastwarc_failures(path) == revisits(path)
        for record in records(path):
            if record.type in ANSWERS and record.url.endswith(("/s.css", ".png")):
                shown += 1
            elif record.type in ANSWERS and "/robots" not in record.url:
                statuses[record.block.split(b" ")[1][:1]] += 1
    dropped = result.report["counts"].get("dropped/content_type", 0)
    assert statuses[b"2"] + dropped == totals["pages_2xx"]
    assert statuses[b"3"] == totals["pages_3xx"]
    assert shown == totals["requisites"]


# Checked by public tools


def tool(*command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a Python tool as its users do."""
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-m", *map(str, command)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def revisits(path: Path) -> set[str]:
    return {each.id for each in records(path) if each.type == "revisit"}


def fastwarc_failures(path: Path) -> set[str]:
    """Records whose block or payload digest FastWARC rejects."""
    done = tool("fastwarc.cli", "check", "--verify-payloads", "--quiet", "--output", "-", path)
    assert ": OK" in done.stdout, done.stderr
    ids = (line.partition(": ") for line in done.stdout.splitlines())
    return {record_id for record_id, _, verdict in ids if "FAIL" in verdict}


def test_warcio_check_finds_nothing(archive: Archive) -> None:
    done = tool("warcio.cli", "check", "-v", archive.path)
    assert done.returncode == 0, done.stdout
    assert "digest pass" in done.stdout
    assert "fail" not in done.stdout


def test_warcio_reads_every_record(archive: Archive) -> None:
    with archive.path.open("rb") as file:
        ids = [each.rec_headers["WARC-Record-ID"] for each in WarcioIterator(file)]
    assert ids == [each.id for each in archive.records]


def test_fastwarc_verifies_every_block_and_payload(archive: Archive) -> None:
    """Except revisits: FastWARC compares their payload digest with their empty body."""
    assert fastwarc_failures(archive.path) == revisits(archive.path)


def test_fastwarc_reads_every_record(archive: Archive) -> None:
    with archive.path.open("rb") as file:
        ids = [each.record_id for each in FastwarcIterator(file, parse_http=False)]
    assert ids == [each.id for each in archive.records]


def test_warcat_finds_nothing(sound: Archive) -> None:
    """Except revisits, for the same reason (Warcat's issue 15)."""
    done = tool("warcat", "verify", sound.path)
    failed = set(re.findall(r"Record (<\S+>) failed", done.stdout + done.stderr))
    assert failed == revisits(sound.path)
    assert "length changed" not in done.stdout + done.stderr


def test_the_index_is_the_output_of_cdxj_indexer(archive: Archive) -> None:
    done = tool("cdxj_indexer.main", "--sort", archive.path)
    assert done.returncode == 0, done.stderr
    assert index_path(archive.path).read_text() == done.stdout
    assert "/robots.txt" in done.stdout


def test_warccheck_finds_nothing_on_a_sound_site(sound: Archive) -> None:
    assert check(sound.path) == []
