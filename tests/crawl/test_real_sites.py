"""A crawl of real sites fetches every page that their files link to, once, and politely."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import pytest
from warcio import ArchiveIterator

from tests.crawl.closure import Reply, Verdict, judge, links, normal
from tests.crawl.crawling import Result, assert_clean, crawl
from tests.crawl.realsites import SITES, RealWeb, Seen, Unavailable, serving

pytestmark = pytest.mark.slow

HOSTS = ("docs.python.org", "referencia.debian.org")
if os.environ.get("REAL_SITES") == "all":  # some minutes
    HOSTS = tuple(site.host for site in SITES)
DELAY_S = 0.02
CLOCK_S = 0.003  # nginx's clocks count whole milliseconds


@dataclass(frozen=True)
class Crawled:
    web: RealWeb
    result: Result
    verdict: Verdict
    seen: list[Seen]


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crawled]:
    folder = tmp_path_factory.mktemp("real-sites")
    try:
        with serving([site for site in SITES if site.host in HOSTS], folder) as web:
            result = crawl(folder / "crawl", *web.seeds, **web.settings(DELAY_S))
            yield Crawled(web, result, judge(web), web.seen())
    except Unavailable as reason:
        pytest.skip(str(reason))


def test_every_page_is_fetched_once(crawled: Crawled) -> None:
    assert_clean(crawled.result)
    assert crawled.verdict.pages > 500
    assert crawled.verdict.missing == []
    assert crawled.verdict.invented == []
    assert crawled.verdict.twice == []


def test_no_request_is_early_or_before_robots_txt(crawled: Crawled) -> None:
    for host in HOSTS:
        requests = [seen for seen in crawled.seen if seen.host == host]
        assert requests[0].target == "/robots.txt"
        starts = [seen.started_at for seen in requests]
        gaps = [later - earlier for earlier, later in pairwise(starts)]
        assert min(gaps) >= DELAY_S - CLOCK_S


def test_no_other_name_is_looked_up(crawled: Crawled) -> None:
    assert sorted(crawled.web.asked) == sorted(HOSTS)


def test_the_archive_has_each_page_as_on_disk(crawled: Crawled) -> None:
    replies = crawled.verdict.replies
    archived: Counter[str] = Counter()
    for path in crawled.result.warcs:
        with path.open("rb") as file:
            for record in ArchiveIterator(file):
                url = record.rec_headers.get_header("WARC-Target-URI") or ""
                if record.rec_type not in ("response", "revisit") or url.endswith("/robots.txt"):
                    continue
                url = normal(url)
                archived[url] += 1
                if record.rec_type == "response" and replies[url].is_page:
                    assert record.content_stream().read() == replies[url].body()
    assert archived == Counter(url for url, reply in replies.items() if reply.is_kept)


def test_the_numbers_agree_with_the_server(crawled: Crawled) -> None:
    counts = crawled.result.report["counts"]
    pages = [seen for seen in crawled.seen if seen.target != "/robots.txt"]
    assert counts["crawled"] == len(pages)
    for family in "2345":
        assert counts[f"codes/{family}xx"] == sum(
            str(seen.status).startswith(family) for seen in pages
        )
    assert counts["html_pages"] == crawled.verdict.pages


def test_the_closure_follows_links_only() -> None:
    page = b"""<base href=d/><a href=a>1</a><!-- <a href=no> --><script>"<a href=no>"</script>
        <link rel=stylesheet href=no><link rel=next href=b><area href="../c#f"><iframe src=e>
        </iframe><img src=no><meta http-equiv=refresh content="0; url=g"><a href="mailto:x@h">"""
    assert sorted(links(page, "http://h/x/")) == [
        "http://h/x/c", "http://h/x/d/a", "http://h/x/d/b", "http://h/x/d/e", "http://h/x/d/g",
    ]  # fmt: skip
    assert links(b"<meta name=robots content=nofollow><a href=a>", "http://h/") == []
    assert Reply(200, "image/png").is_kept is False
