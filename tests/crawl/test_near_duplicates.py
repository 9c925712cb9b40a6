"""FOLLOW_NEAR_DUPLICATES=False on a web of mirrors, with other pages of the same templates.

One crawl in two processes, which is killed once.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from tests.adapters.stock_crawl import Site, site
from tests.crawl.crawling import Crawl, Result, assert_clean
from tests.crawl.crawllog import Line, assert_log, log_lines
from tests.crawl.knownsite import AT_ONCE, records
from tests.unit.corpus_pages import pages
from tests.unit.test_corpus_neardup import COPIES, mirror
from webcrawl.warc.captures import lines_of

pytestmark = pytest.mark.slow

TEXTS = 20
KILL = "before-release:9"  # pages are compared, and not committed
REFRESH = '<meta http-equiv=refresh content="9; url=/next/3">'
NOFOLLOW = "<meta name=robots content=nofollow>"
QUICK = AT_ONCE | {"CRAWL_PROCESSES": 2}


@dataclass
class Web:
    """On each host the same texts, each at a path of its own, and behind each a page of the host.

    One host has texts of its own. On all hosts the pages of `/short/` say the same few words, and
    `/moved` says the same and moves to `/next/`. `/way/30` comes after the same text with nofollow.
    """

    hosts: list[Site]
    result: Result

    @property
    def lines(self) -> dict[str, Line]:
        return {line["url"]: line for line in log_lines(self.result.folder / "warc")}


def page(rnd: random.Random, text: str, below: str) -> str:
    html = mirror(rnd, text).decode() + f'<a href="{below}">more</a>'
    return html.encode("ascii", "xmlcharrefreplace").decode()


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    rnd = random.Random(3)
    texts = [each["text"] for each in pages("labelled_pages")]
    some, others = texts[:TEXTS], texts[TEXTS : 2 * TEXTS]
    with ExitStack() as stack:
        hosts = []
        for number in range(COPIES + 1):
            own = some if number < COPIES else others
            answers = {f"/{n}": page(rnd, text, f"/below/{n}") for n, text in enumerate(own)}
            answers |= {f"/short/{n}": f"Moved <a href=/next/{n}>here</a>" for n in range(3)}
            answers["/moved"] = REFRESH + page(rnd, texts[-1], "/new")
            if number == 0:
                answers["/forbidden"] = NOFOLLOW + page(rnd, texts[-2], "/never")
            answers["/"] = "".join(f"<a href={each}>{each}</a>" for each in answers)
            if number == 1:
                answers["/"] += "<a href=/way/1>more</a>"
                answers |= {f"/way/{n}": f"<a href=/way/{n + 1}>more</a>" for n in range(1, 30)}
                answers["/way/30"] = page(rnd, texts[-2], "/below/late")
            given = {path: (200, text) for path, text in answers.items()}
            hosts.append(stack.enter_context(site(given, f"127.0.0.{number + 1}")))
        folder = tmp_path_factory.mktemp("near")
        program = ("tests.crawl.faulty", KILL, str(folder / "kills"), str(hosts[0].port), "--")
        chosen = {"FOLLOW_NEAR_DUPLICATES": 0, "JOBDIR": folder / "job", **QUICK}
        result = Crawl(folder, *(host.url() for host in hosts), program=program, **chosen).wait()
        assert KILL in (folder / "kills").read_text()
        # The second process logs an error when the first is killed.
        result.log = result.log.rpartition("Resumes with")[2]
        yield Web(hosts, result)


def copies(web: Web, number: int) -> list[tuple[Site, str]]:
    """The copies of a text: their hosts, and which page the log names as the earlier one."""
    mirrors = web.hosts[:COPIES]
    return [
        (each, web.lines[each.url(f"/{number}")].get("near_duplicate_of", "")) for each in mirrors
    ]


def test_of_each_text_the_links_of_one_page_are_followed(web: Web) -> None:
    assert_clean(web.result)
    found = 0
    for number in range(TEXTS):
        named = copies(web, number)
        firsts = [host for host, first in named if not first]
        assert firsts
        assert {first for _, first in named} <= {"", *(host.url(f"/{number}") for host in firsts)}
        for host, first in named:
            assert (f"/below/{number}" in host.asked) == (not first), (host.address, number)
        found += COPIES - len(firsts)
    assert found >= 0.9 * (COPIES - 1) * TEXTS


def test_the_links_of_all_other_pages_are_followed(web: Web) -> None:
    assert {f"/below/{number}" for number in range(TEXTS)} <= set(web.hosts[-1].asked)
    for host in web.hosts:
        assert {f"/next/{number}" for number in range(4)} <= set(host.asked)
    assert "/never" not in web.hosts[0].asked
    lines = web.lines
    forbidden, late = web.hosts[0].url("/forbidden"), web.hosts[1].url("/way/30")
    assert lines[forbidden]["time"] < lines[late]["time"]
    assert "/below/late" in web.hosts[1].asked


def test_near_duplicates_are_pages_that_are_marked_and_counted(web: Web) -> None:
    assert_log(web.result)
    marked = {
        url: line["near_duplicate_of"]
        for url, line in web.lines.items()
        if "near_duplicate_of" in line
    }
    recorded = {
        record.url: dict(lines_of(record.block))
        for path in web.result.warcs
        for record in records(path)
        if record.type == "metadata"
        if web.lines[record.url]["warc"] == path.name  # not that of the killed process
    }
    assert marked == {
        url: fields["nearDuplicateOf"]
        for url, fields in recorded.items()
        if "nearDuplicateOf" in fields
    }
    assert all("outlink" in recorded[url] for url in marked)
    assert web.result.report["counts"]["near_duplicates"] == len(marked)
    assert f"Near-duplicates, not followed: {len(marked)}\n" in web.result.output
