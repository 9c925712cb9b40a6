"""The same bytes at several URLs: each page's links are followed; the bytes are archived once."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.adapters.stock_crawl import site
from tests.crawl.crawling import Result, assert_clean, crawl
from tests.crawl.knownsite import AT_ONCE, GZIPPED, PAGE, answer, chunked, crawled, records, served

pytestmark = pytest.mark.slow

SHELL = '<meta http-equiv="refresh" content="0; url=/portal/">'
FRONT = '<a href="about.html">about</a> <a href="/news/">news</a>'


def outlinks(result: Result) -> dict[str, list[str]]:
    """The outlinks in each page's metadata record."""
    return {
        each.url: [
            line.partition(": ")[2]
            for line in each.block.decode().splitlines()
            if line.startswith("outlink: ")
        ]
        for path in result.warcs
        for each in records(path)
        if each.type == "metadata"
    }


def test_links_of_identical_pages_are_all_followed(tmp_path: Path) -> None:
    """Also relative links of mirrors, on their own host and on others."""
    mirrored = {"/": (200, FRONT), "/mirror/": (200, FRONT)}
    with ExitStack() as stack:
        hosts = [
            stack.enter_context(site({"/": (200, SHELL)}, f"127.0.0.{number}"))
            for number in range(1, 7)
        ]
        a, b = (stack.enter_context(site(mirrored, f"127.0.0.{number}")) for number in (7, 8))
        seeds = ",".join([*(host.url() for host in (*hosts, a, b)), a.url("/mirror/")])
        result = crawl(tmp_path, seeds, CRAWL_PROCESSES=2, **AT_ONCE)
    assert_clean(result)
    assert [sorted(host.asked) for host in hosts] == [["/", "/portal/", "/robots.txt"]] * 6
    links = outlinks(result)
    assert [links[host.url()] for host in hosts] == [[host.url("/portal/")] for host in hosts]
    assert sorted(a.asked) == [
        *("/", "/about.html", "/mirror/", "/mirror/about.html", "/news/", "/robots.txt"),
    ]
    assert sorted(b.asked) == ["/", "/about.html", "/news/", "/robots.txt"]
    assert links[a.url("/mirror/")] == [a.url("/mirror/about.html"), a.url("/news/")]
    counts = result.report["counts"]
    assert (counts["crawled"], counts["links"]) == (12 + 5 + 3, 6 + 3 * 2)


def packed(body: bytes) -> bytes:
    return gzip.compress(body, mtime=0)


FORMS = {
    "/plain-a": answer(PAGE),
    "/plain-b": answer(PAGE, b"X-Other: head"),
    "/chunked-a": chunked(PAGE),
    "/chunked-b": chunked(PAGE),
    "/gzip-a": answer(packed(PAGE), GZIPPED),
    "/gzip-b": answer(packed(PAGE), GZIPPED),
    "/both-a": chunked(packed(PAGE), GZIPPED),
    "/both-b": chunked(packed(PAGE), GZIPPED),
    "/other-chunks": chunked(PAGE, size=100),
    "/unlabelled": answer(packed(PAGE)),
}
LINK = b'<a href="below">below</a>'
NOFOLLOW = {
    "/a/": answer(LINK),
    "/b/": answer(LINK, b"X-Robots-Tag: nofollow"),
    "/a/below": answer(b"<p>a"),
}


def test_each_encoding_of_a_page_is_archived_once_and_nofollow_holds_for_copies(
    tmp_path: Path,
) -> None:
    with served(FORMS | NOFOLLOW) as each:
        result = crawled(tmp_path, each, OBEY_NOFOLLOW=1)
    assert_clean(result)
    assert set(each.requests) == {"/", "/robots.txt", *FORMS, *NOFOLLOW}
    assert outlinks(result)[f"{each.url}/b/"] == []
    found = [record for path in result.warcs for record in records(path)]
    answers = [record for record in found if record.type in ("response", "revisit")]
    assert len(answers) == 2 + len(FORMS) + len(NOFOLLOW)
    stored = {
        record.url: record.fields for record in answers if record.type == "response"
    }  # fmt: skip
    digests = Counter(fields["warc-payload-digest"] for fields in stored.values())
    assert set(digests.values()) == {1}
    revisits = [record.fields for record in answers if record.type == "revisit"]
    # Plain, chunked, gzip (labelled or not), gzip in chunks: one record each. Other chunk sizes are
    # other bytes. And the page with nofollow.
    assert len(revisits) == 6
    for fields in revisits:
        original = stored[fields["warc-refers-to-target-uri"]]
        assert fields["warc-payload-digest"] == original["warc-payload-digest"]
        assert fields["warc-refers-to-date"] == original["warc-date"]


def test_a_page_requested_again_is_a_revisit_of_itself(tmp_path: Path) -> None:
    module = tmp_path / "users.py"
    module.write_text("""
from webcrawl.spiders.broad import BroadSpider

class Users(BroadSpider):
    name = "users"
    async def parse(self, response, **kwargs):
        async for page in super().parse(response):
            yield page
        if not response.meta.get("again"):
            yield response.request.replace(
                callback=self.parse, errback=None, dont_filter=True, meta={"again": True}
            )
""")
    feeds = {str(tmp_path / "items.jsonl"): {"format": "jsonlines"}}
    with site({}) as host:
        result = crawl(
            tmp_path, host.url("/x"), spider=("runspider", str(module)), FEEDS=json.dumps(feeds),
            **AT_ONCE,
        )  # fmt: skip
    assert_clean(result)
    assert host.asked.count("/x") == 2
    kinds = Counter(each.type for path in result.warcs for each in records(path))
    assert kinds["revisit"] == 1
    items = [json.loads(line) for line in (tmp_path / "items.jsonl").read_text().splitlines()]
    assert [(item["url"], item["duplicate_of"]) for item in items] == [(host.url("/x"), "")] * 2
