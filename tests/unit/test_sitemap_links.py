"""Sitemaps in the frontier and the admissions: which are fetched, how deep, and for whom."""

from __future__ import annotations

import asyncio
import dataclasses
import gzip
from collections import Counter

import pytest
from msgspec.structs import replace

from tests.cases import each_of
from tests.exchanges import exchange
from tests.mailing import receive, unsent
from webcrawl.admission.runner import Admissions
from webcrawl.admission.sitemaps import Sitemaps
from webcrawl.crawllog.line import is_archived
from webcrawl.fetch.http1 import Headers
from webcrawl.fetch.room import HostTimes
from webcrawl.frontier.base import Policy
from webcrawl.frontier.caps import Caps
from webcrawl.frontier.core import CrawlState
from webcrawl.frontier.disk.store import Store
from webcrawl.frontier.lease import (
    LISTED,
    Fetched,
    Lane,
    Lease,
    Link,
    Outcome,
    Resolved,
    Returned,
    RobotsFetched,
    Step,
)
from webcrawl.frontier.outlinks import Outlinks, looks_like_sitemap
from webcrawl.frontier.politeness import Politeness
from webcrawl.frontier.sitemapnames import GUESSED
from webcrawl.parse.body import Options
from webcrawl.parse.largebodies import GivenUp, LargeBodies, ReadingFailed
from webcrawl.parse.robots import RobotsRules
from webcrawl.parse.sitemapfile import QUICK_BYTES, SitemapFile, read_sitemap
from webcrawl.parse.sitemaps import ENTRIES_MAX, SIZE_MAX
from webcrawl.scope import Scope

OK = b"HTTP/1.1 200 OK\r\n\r\n"


class Others:
    """Hosts whose name begins with "a" are of hub 0, all others of hub 1."""

    def __init__(self, own: int) -> None:
        self.own = own

    def __call__(self, host: str) -> int | None:
        hub = int(not host.startswith("a"))
        return None if hub == self.own else hub


class Crawl:
    """A frontier whose hosts answer at once. `names`: the sitemaps of a host's robots.txt."""

    def __init__(self, names: dict[str, tuple[str, ...]], **settings: object) -> None:
        caps = Caps(per_host=int(settings.pop("per_host", 0)))  # type: ignore[call-overload]
        hubs = int(settings.pop("hubs", 1))  # type: ignore[call-overload]
        policy = Policy(politeness=Politeness(delay_s=0.0, ip_delay_s=0.0), **settings)  # type: ignore[arg-type]
        self.states = [
            CrawlState(Store(None), policy, caps=caps, partition=Others(n) if hubs > 1 else None)
            for n in range(hubs)
        ]
        self.state = self.states[0]
        self.outlinks = Outlinks(Scope(), Counter(), reads_sitemaps=True)
        self.names = names
        self.files: dict[str, list[str]] = {}
        self.pages: dict[str, list[str]] = {}
        self.fetched: list[str] = []

    def run(self, *seeds: str) -> None:
        self.state.put(self.outlinks.of_seeds(seeds), 0.0)
        for turn in range(200):
            now = float(turn)
            for state in self.states:
                for lane in Lane:
                    for lease in state.acquire(now, 10, lane):
                        state.release([(lease, self.outcome(lease))], now)
            self.deliver(now)
        for state in self.states:
            assert state.is_finished()
            state.audit()

    def deliver(self, now: float) -> None:
        """Carry the mail of each hub to the others."""
        for number, state in enumerate(self.states):
            for other, (first, _) in state.outbox.items():
                mail = unsent(state, other, first - 1, 1000)
                state.sent(other, receive(self.states[other], number, first, mail, now))

    def outcome(self, lease: Lease) -> Outcome:
        if lease.step is Step.RESOLVE:
            return Resolved((f"ip of {lease.host}",), 1e9)
        if lease.step is Step.ROBOTS:
            rules = RobotsRules("-/no", sitemaps=self.names.get(lease.host, ()))
            return RobotsFetched(rules, 1e9, 0.0, 0.0)
        assert lease.link is not None
        self.fetched.append(lease.url)
        if lease.step is Step.PAGE:
            links = self.outlinks.of_page(self.pages.get(lease.url, ()), lease.link)
            return Fetched(200, 0.0, 0.0, tuple(links))
        entries = [(url, 7) for url in self.files[lease.url]]
        is_index = any(url.endswith(".xml") for url, _ in entries)
        found = self.outlinks.of_sitemap(entries, lease.link, is_index=is_index)
        own_only = not is_index and all(link.host == lease.host for link in found.links)
        own_only = own_only and not found.foreign
        return Fetched(200, 0.0, 0.0, tuple(found.links), own_only=own_only)


def test_the_pages_of_a_sitemap_are_one_hop_deeper() -> None:
    crawl = Crawl({"a": ("http://a/s.xml", "http://a/no.xml")}, depth_max=1)
    crawl.files = {"http://a/s.xml": ["http://a/1", "http://a/2"]}
    crawl.pages = {"http://a/": ["http://a/2", "http://b/"]}
    crawl.names["b"] = ("http://b/s.xml",)  # b has depth 1: its sitemap could give nothing
    crawl.run("http://a/")
    assert sorted(crawl.fetched) == [
        "http://a/",
        "http://a/1",
        "http://a/2",
        "http://a/s.xml",
        "http://b/",
    ]
    counters = crawl.state.counters
    assert counters.sitemaps == {"found": 1, "only": 1, "2xx": 1}
    assert counters.dropped == {"robots": 1}
    assert counters.crawled == 4
    assert counters.extracted == counters.robots_passed == 4, "a sitemap is no page"


def test_a_page_that_is_linked_later_is_no_longer_only_of_a_sitemap() -> None:
    crawl = Crawl({"a": ("http://a/s.xml",)})
    crawl.files = {"http://a/s.xml": ["http://a/1", "http://a/x/2", "http://a/x/3"]}
    crawl.pages = {"http://a/x/3": ["http://a/1"]}
    crawl.run("http://a/")
    assert crawl.state.counters.sitemaps["found"] == 3
    assert crawl.state.counters.sitemaps["only"] == 2


@each_of(
    ("names", "files"),
    [
        ({"a": ("http://a/s.xml",)}, ["http://a/s.xml"]),  # b does not name it
        ({"a": ("http://a/s.xml",), "b": ("http://a/s.xml",)}, ["http://a/s.xml"] * 2),
        ({"b": ("http://a/s.xml",)}, ["http://a/s.xml"]),
    ],
)
def test_entries_of_another_host_need_its_robots_txt(
    names: dict[str, tuple[str, ...]], files: list[str]
) -> None:
    crawl = Crawl(names)
    crawl.files = {"http://a/s.xml": ["http://a/1", "http://b/2", "http://c/3"]}
    crawl.run("http://a/", "http://b/")
    assert [url for url in crawl.fetched if url.endswith(".xml")] == files
    assert ("http://b/2" in crawl.fetched) is ("b" in names)
    assert "http://a/1" in crawl.fetched
    assert "http://c/3" not in crawl.fetched


def test_a_file_of_its_own_host_only_is_fetched_once_for_all() -> None:
    subdomains = [f"s{number}.a" for number in range(5)]
    crawl = Crawl(dict.fromkeys(["a", *subdomains], ("http://a/s.xml",)))
    crawl.files = {"http://a/s.xml": ["http://a/1"]}
    crawl.run("http://a/")
    crawl.run(*(f"http://{name}/" for name in subdomains))
    assert crawl.fetched.count("http://a/s.xml") == 1


def test_the_files_of_an_index_are_read_for_the_host_that_names_it() -> None:
    crawl = Crawl({"b": ("http://a/i.xml",)})
    crawl.files = {"http://a/i.xml": ["http://a/1.xml", "http://c/2.xml"]}
    crawl.files["http://a/1.xml"] = ["http://b/1"]
    crawl.run("http://b/")
    assert crawl.fetched == ["http://b/", "http://a/i.xml", "http://a/1.xml", "http://b/1"]


def test_sitemaps_and_entries_of_hosts_of_another_hub_go_by_mail() -> None:
    crawl = Crawl({"b": ("http://a/i.xml",), "a": ("http://a/s.xml",)}, hubs=2)
    crawl.files = {"http://a/i.xml": ["http://a/b.xml"], "http://a/b.xml": ["http://b/1"]}
    crawl.files["http://a/s.xml"] = ["http://a/2", "http://b/no"]
    crawl.pages = {"http://a/": ["http://b/"]}
    crawl.run("http://a/")
    assert sorted(crawl.fetched) == sorted(
        ["http://a/", "http://a/2", "http://b/", "http://b/1", *crawl.files]
    )
    assert [state.counters.sitemaps["only"] for state in crawl.states] == [1, 1]


def test_a_sitemap_that_was_found_as_a_page_is_fetched_once() -> None:
    crawl = Crawl({"a": ("http://a/s.xml",)})
    crawl.files = {"http://a/s.xml": ["http://a/1"]}
    crawl.pages = {"http://b/": ["http://a/s.xml"]}
    crawl.run("http://b/")
    assert crawl.fetched == ["http://b/", "http://a/s.xml", "http://a/1"]
    assert crawl.state.counters.dropped == {"sitemap": 1}


def test_a_guess_is_one_request_for_all_origins_of_a_host() -> None:
    crawl = Crawl({"a": (GUESSED,), "b": ("http://b/s.xml",)})
    crawl.files = {"http://a/sitemap.xml": ["http://a/1"], "http://b/s.xml": []}
    crawl.run("http://a/")
    crawl.run("https://a/", "http://b/")
    crawl.names["b"] = (GUESSED,)
    crawl.run("https://b/")
    assert [url for url in crawl.fetched if url.endswith(".xml")] == [*crawl.files]
    assert "http://a/1" in crawl.fetched


def test_caps() -> None:
    crawl = Crawl({"a": tuple(f"http://a/{n}.xml" for n in range(5))}, sitemaps_max=2, per_host=4)
    crawl.files = {f"http://a/{n}.xml": [f"http://a/x/{n}/{m}" for m in range(9)] for n in range(5)}
    crawl.run("http://a/")
    assert crawl.state.counters.crawled == 4
    assert crawl.state.counters.dropped["sitemap_cap"] == 3
    assert sum(url.endswith(".xml") for url in crawl.fetched) == 1, "the second is not needed"
    alone = Crawl({"a": ("http://a/0.xml",)}, per_host=1)
    alone.run("http://a/")
    assert alone.fetched == ["http://a/"]


def test_other_hosts_cannot_use_up_the_places_of_a_host() -> None:
    foreign = tuple(f"http://a/no/{n}" for n in range(9))
    crawl = Crawl({"b": foreign, "a": ("http://a/s.xml",)}, sitemaps_max=1)
    crawl.files = {"http://a/s.xml": ["http://a/1"]}
    crawl.run("http://b/")
    crawl.run("http://a/")
    assert crawl.state.counters.dropped == {"sitemap_cap": 8, "robots": 1}
    assert "http://a/1" in crawl.fetched


def test_seeds() -> None:
    for seed in ("http://a/sitemap.xml.gz", "http://a/x.RSS?y", "http://a/m/Sitemap_1.txt"):
        assert looks_like_sitemap(seed), seed
    for seed in ("http://a/robots.txt", "http://a/", "http://a/xml", "http://a/sitemap/"):
        assert not looks_like_sitemap(seed), seed
    crawl = Crawl({})
    crawl.files = {"http://a/map": ["http://a/1", "http://b/2"]}
    crawl.run("sitemap:http://a/map")
    assert crawl.fetched == ["http://a/map", "http://a/1"]
    off = Outlinks(Scope(), Counter()).of_seeds(["sitemap:http://a/map", "http://a/s.xml"])
    assert off == [Link("http://a/map", "a"), Link("http://a/s.xml", "a")]


def test_a_moved_sitemap_is_read_for_the_same_host() -> None:
    outlinks = Outlinks(Scope(), Counter(), reads_sitemaps=True)
    named = Link("http://a/s.xml", "a", 3, via="http://a/robots.txt", sitemap=1)
    moved = outlinks.of_moved_sitemap("http://c/s.xml", named)
    assert moved == Link("http://c/s.xml", "c", 3, 1, "http://a/robots.txt", sitemap=1)
    found = outlinks.of_sitemap([("http://a/1", 7), ("http://d/", 0)], moved, is_index=False)
    assert found.links == [
        Link("http://a/1", "a", 4, 0, "http://c/s.xml", sitemap=LISTED, lastmod=7)
    ]
    assert found.foreign == 1


# Answers

FIRST = b"<url><loc>http://a.test/1</loc><lastmod>1970-01-01T00:00:07Z</lastmod></url>"
URLSET = b"<urlset>" + FIRST + b"<url><loc>/2</loc></url></urlset>"
ENTRIES = [("http://a.test/1", 7), ("http://a.test/2", 0)]


@each_of(
    ("body", "problem"),
    [
        (URLSET, ""),
        (gzip.compress(URLSET), ""),
        (gzip.compress(gzip.compress(URLSET)), ""),
        (gzip.compress(URLSET[:50]) + gzip.compress(URLSET[50:]), ""),
        (gzip.compress(URLSET) + bytes(9), ""),
        (gzip.compress(URLSET)[:-9], "damaged"),
        (gzip.compress(URLSET) + gzip.compress(b"<!-- -->")[:-9], "damaged"),
        (gzip.compress(URLSET) + gzip.compress(b"") * 10_000, "too_large"),
    ],
    # Names, because gzip's bytes have the time.
    ids=[
        "plain",
        "gzip",
        "twice",
        "two members",
        "padded",
        "cut",
        "second cut",
        "members",
    ],
)
def test_gzip_is_unpacked_in_bounded_pieces(body: bytes, problem: str) -> None:
    file = read_sitemap(body, [], "http://a.test/map", False)
    assert (file.entries, file.problem) == (ENTRIES, problem)


def test_a_sitemap_is_unpacked_up_to_its_largest_size() -> None:
    body = gzip.compress(URLSET) + gzip.compress(b" " * (SIZE_MAX + 1))
    file = read_sitemap(body, [], "http://a.test/map", False)
    assert (file.entries, file.problem) == (ENTRIES, "too_large")


class OtherProcess(LargeBodies):
    """Answers with all entries that a file may have; `fault` is raised in place of it."""

    def __init__(self, fault: Exception | None = None) -> None:
        super().__init__(Options(), HostTimes(), [])
        self.fault = fault
        self.read_urls: list[str] = []

    async def read_sitemap(
        self, host: str, body: bytes, headers: Headers, url: str, is_cut: bool
    ) -> SitemapFile:
        self.read_urls.append(url)
        if self.fault is not None:
            raise self.fault
        entries = [(f"http://a.test/{number}", 0) for number in range(ENTRIES_MAX)]
        return SitemapFile("urlset", "", entries)


def sitemaps_with(process: OtherProcess) -> Sitemaps:
    return Sitemaps(Outlinks(Scope(), Counter()), Counter(), process)


@each_of(
    ("head", "body", "is_quick"),
    [
        (OK, URLSET, True),
        (OK, URLSET + b" " * QUICK_BYTES, False),
        (OK, gzip.compress(URLSET), False),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n\r\n", URLSET, False),
    ],
    ids=["small", "large", "gzip", "coding"],  # workers must agree on them: gzip has a time
)
async def test_which_sitemaps_are_read_on_the_event_loop(
    head: bytes, body: bytes, is_quick: bool
) -> None:
    process = OtherProcess()
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    sitemap = Link("http://a.test/map", "a.test", sitemap=1)
    links, _ = await sitemaps_with(process).read(exchange(head, body, sitemap.url), sitemap)
    counting.cancel()
    assert process.read_urls == ([] if is_quick else ["http://a.test/map"])
    assert links[0].lastmod == (7 if is_quick else 0)
    assert len(links) == (len(ENTRIES) if is_quick else ENTRIES_MAX)
    assert turns >= len(links) // 1_000, "other tasks ran after each thousand links"


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        (GivenUp(), Returned(5.0, 6.0, details=b'{"warc":"a"}')),
        (ReadingFailed("the process that read it ended with -9"), None),
    ],
)
async def test_a_sitemap_that_is_not_read(
    fault: Exception, outcome: Outcome | None, caplog: pytest.LogCaptureFixture
) -> None:
    """At the end of the crawl its lease is returned; after a crash it counts as unread."""
    counts: Counter[str] = Counter()
    sitemaps = Sitemaps(Outlinks(Scope(), Counter()), counts, OtherProcess(fault))
    admissions = Admissions(*[None] * 10, sitemaps=sitemaps)  # type: ignore[arg-type]
    body = gzip.compress(URLSET)
    answer = dataclasses.replace(exchange(OK, body), asked_at=5.0, ended_at=6.0, warc="a")
    got = await admissions._sitemap(answer, Link("http://a.test/map", "a.test", sitemap=2))
    if isinstance(got, Returned):
        assert outcome == replace(got, details=b'{"warc":"a"}')
        assert is_archived(got.details)
    else:
        assert isinstance(got, Fetched)
        assert (got.links, counts) == ((), Counter(unread=1, no_format=1, entries=0, foreign=0))
        assert "cannot be read: the process that read it ended with -9" in caplog.text


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"<html><p>a page", "it is no sitemap"),
        (b"<urlset></urlset>", "it has no entries"),
        (
            b"<rss><channel><item><link>http://b/1</link></item></channel></rss>",
            "of its 1 entries 1 are of other hosts, 0 out of scope",
        ),
        (None, "it is answered by 404"),
    ],
)
async def test_a_seed_that_gives_no_url_is_named_once(
    caplog: pytest.LogCaptureFixture, body: bytes | None, reason: str
) -> None:
    sitemaps = sitemaps_with(OtherProcess())
    seed = Link("http://a/map", "a", sitemap=1)
    others = (
        replace(seed, url="http://a/of-robots", via="http://a/robots.txt"),
        replace(seed, url="http://a/of-index", via="http://a/", sitemap=2),
    )
    moved = replace(seed, via="http://a/", redirects=1)
    missing = exchange(b"HTTP/1.1 404 Not Found\r\n\r\n", b"")
    answer = missing if body is None else exchange(OK, body)
    for sitemap in (moved, seed, *others):
        await sitemaps.links_of(answer, sitemap)
    assert caplog.messages == [f"seeds: the sitemap http://a/map gives no URL: {reason}"]
