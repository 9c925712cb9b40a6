"""The downloader middlewares in plain Scrapy crawls: stock scheduler and handlers, real servers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request
from stock_crawl import Run, run, site

from webcrawl.crawl.page_fetch import PageFetch
from webcrawl.frontier.lease import Lease, Link, Step
from webcrawl.middlewares.verifier import Verifier

SPIDER = """
    import scrapy

    class S(scrapy.Spider):
        name = "s"
        handle_httpstatus_all = True
        urls = {urls!r}

        async def start(self):
            for url in self.urls:
                yield scrapy.Request(url, errback=self.refused, dont_filter=True)

        def parse(self, response):
            self.note("got", response.request.url)

        def refused(self, failure):
            self.note("refused", failure.request.url + " " + str(failure.value))

        def note(self, kind, text):
            values = self.crawler.stats.get_value(kind, [])
            self.crawler.stats.set_value(kind, values + [text])
"""
SCRAPYS = "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware"
ORDER = {"DomainFilter": 60, "HostUniqueness": 70, "IpUniqueness": 80, "RobotsTxt": 100}


def crawl(folder: Path, urls: Iterable[str], *names: str, **settings: Any) -> Run:
    """Request `urls` one after the other, through the named middlewares."""
    middlewares: dict[str, int | None] = {SCRAPYS: None}
    middlewares |= {f"webcrawl.middlewares.{name}": ORDER[name] for name in names}
    options = {
        "DOWNLOADER_MIDDLEWARES": middlewares,
        "CONCURRENT_REQUESTS": 1,
        "ROBOTSTXT_OBEY": False,
        "ALLOW_PRIVATE_ADDRESSES": True,
        "DOWNLOAD_DELAY": 0,
        "RETRY_TIMES": 1,
    }
    done = run(folder, SPIDER.format(urls=list(urls)), options | settings)
    assert "Traceback" not in done.log
    assert done.stats["finish_reason"] == "finished"
    return done


def dropped(done: Run, name: str) -> int:
    return int(done.stats.get(f"webcrawl/middleware/{name}/dropped", 0))


# HostUniqueness


def test_the_caps_per_host_and_per_registered_domain(tmp_path: Path) -> None:
    with site({}) as one, site({}, "127.0.0.2") as two:
        urls = [one.url("/1"), one.url("/2"), two.url("/1"), two.url("/2"), one.url("/3")]
        caps = {"MAX_PAGES_PER_HOST": 2, "MAX_PAGES_PER_DOMAIN": 1}
        hosts = crawl(tmp_path, urls, "HostUniqueness", MAX_PAGES_PER_HOST=2)
        assert (one.asked, two.asked) == (["/1", "/2"], ["/1", "/2"])
        assert dropped(hosts, "host_uniqueness") == 1
        assert hosts.stats["refused"] == [one.url("/3") + " HostUniqueness: host_cap"]
        both = crawl(tmp_path, urls[:2], "HostUniqueness", **caps)
        assert both.stats["refused"] == [one.url("/2") + " HostUniqueness: domain_cap"]


def test_a_retry_does_not_count_as_another_page(tmp_path: Path) -> None:
    with site({"/1": (503, "")}) as one:
        done = crawl(tmp_path, [one.url("/1")], "HostUniqueness", MAX_PAGES_PER_HOST=1)
    assert one.asked == ["/1", "/1"]
    assert dropped(done, "host_uniqueness") == 0


def test_a_redirect_counts_as_another_page(tmp_path: Path) -> None:
    """Scrapy follows it inside the downloader. The cap applies to it all the same."""
    with site({"/1": (302, "/2")}) as one:
        settings = {"MAX_PAGES_PER_HOST": 1}
        spider = SPIDER.replace("handle_httpstatus_all = True", "")
        options = {"DOWNLOADER_MIDDLEWARES": {"webcrawl.middlewares.HostUniqueness": 70}}
        done = run(tmp_path, spider.format(urls=[one.url("/1")]), options | settings)
    assert one.asked == ["/1"]
    assert dropped(done, "host_uniqueness") == 1


def test_robots_txt_does_not_count_as_a_page(tmp_path: Path) -> None:
    with site({"/robots.txt": (404, "")}) as one:
        names = ("HostUniqueness", "IpUniqueness", "RobotsTxt")
        caps = {"MAX_PAGES_PER_HOST": 1, "MAX_PAGES_PER_IP": 1, "ROBOTSTXT_OBEY": True}
        crawl(tmp_path, [one.url("/1"), one.url("/2")], *names, **caps)
    assert one.asked == ["/robots.txt", "/1"]


def test_middlewares_are_off_without_a_cap(tmp_path: Path) -> None:
    with site({}) as one:
        done = crawl(tmp_path, [one.url("/1")], *ORDER)
    assert one.asked == ["/1"]
    enabled = done.log.split("Enabled down")[1]
    on = [name for name in ORDER if f"webcrawl.middlewares.{name}" in enabled]
    assert on == ["DomainFilter"]  # for the ports


# IpUniqueness


def test_the_cap_per_address_counts_all_its_hosts(tmp_path: Path) -> None:
    with site({}) as one:
        urls = [one.url("/1"), one.url("/2", host="localhost")]
        done = crawl(tmp_path, urls, "IpUniqueness", MAX_PAGES_PER_IP=1)
    assert one.asked == ["/1"]
    assert dropped(done, "ip_uniqueness") == 1
    assert done.stats["refused"][0].endswith("/2 IpUniqueness: ip_cap")


def test_private_addresses_are_refused(tmp_path: Path) -> None:
    with site({}) as one:
        urls = [one.url("/1"), one.url("/2", host="localhost"), one.url("/3", host="0x7f000001")]
        done = crawl(tmp_path, urls, "IpUniqueness", ALLOW_PRIVATE_ADDRESSES=False)
    assert one.asked == []
    assert dropped(done, "ip_uniqueness") == 3
    assert all("IpUniqueness: blocked_address" in line for line in done.stats["refused"])


# DomainFilter


def test_requests_stay_in_scope(tmp_path: Path) -> None:
    with site({}) as one:
        urls = [one.url("/1"), "http://a.br.com/", "http://x.example/"]
        scope = {"SCOPE_SUFFIXES": ["127.0.0.1", ".example"], "SCOPE_DENY": ["x.example"]}
        done = crawl(tmp_path, urls, "DomainFilter", **scope)
    assert one.asked == ["/1"]
    assert dropped(done, "domain_filter") == 2
    assert done.stats["refused"] == [
        "http://a.br.com/ DomainFilter: suffix",
        "http://x.example/ DomainFilter: deny",
    ]


def test_ports_of_other_protocols_are_refused(tmp_path: Path) -> None:
    """Also for a robots.txt that redirects there."""
    away = {"/robots.txt": (302, "http://127.0.0.1:22/")}
    with site(away) as one:
        urls = ["http://127.0.0.1:25/", one.url("/a")]
        done = crawl(tmp_path, urls, "DomainFilter", "RobotsTxt", ROBOTSTXT_OBEY=True)
    assert done.stats["refused"][0] == "http://127.0.0.1:25/ DomainFilter: port"
    assert dropped(done, "domain_filter") == 2
    assert one.asked == ["/robots.txt"]  # which is unreachable


def test_other_schemes_pass(tmp_path: Path) -> None:
    settings = {"SCOPE_SUFFIXES": [".br"], "MAX_PAGES_PER_HOST": 1, "ROBOTSTXT_OBEY": True}
    done = crawl(tmp_path, ["data:,one", "data:,two"], *ORDER, **settings)
    assert done.stats["got"] == ["data:,one", "data:,two"]


# RobotsTxt


def test_robots_txt_is_fetched_once_and_obeyed(tmp_path: Path) -> None:
    """RFC 9309, 2.3.1: five redirects are followed, more are no rules; a 5xx disallows."""
    hops = {f"/r{n}": (301, f"/r{n + 1}") for n in range(1, 5)}
    end = {"/robots.txt": (302, "/r1"), "/r5": (200, "User-agent: *\nDisallow: /a\n")}
    rules = "User-agent: tester\nDisallow: /b\n\nUser-agent: *\nDisallow: /a\n"
    with (
        site({"/robots.txt": (200, rules)}) as ruled,
        site({"/robots.txt": (503, "")}, "127.0.0.2") as broken,
        site(hops | end, "127.0.0.3") as moved,
        site({"/robots.txt": (302, "/robots.txt")}, "127.0.0.4") as moving,
    ):
        with site({}, "127.0.0.5") as gone:
            pass
        urls = [each.url(path) for each in (ruled, broken, moved, moving) for path in ("/a", "/b")]
        obeying = {"ROBOTSTXT_OBEY": True, "USER_AGENT": "tester/1.0", "RETRY_ENABLED": False}
        urls.append(gone.url("/a"))
        done = crawl(tmp_path, urls, "RobotsTxt", CONCURRENT_REQUESTS=16, **obeying)
    assert ruled.asked == ["/robots.txt", "/a"]
    assert broken.asked == ["/robots.txt"]
    assert moved.asked == ["/robots.txt", "/r1", "/r2", "/r3", "/r4", "/r5", "/b"]
    assert moving.asked[:6] == ["/robots.txt"] * 6
    assert sorted(moving.asked[6:]) == ["/a", "/b"]
    refused = [ruled.url("/b"), broken.url("/a"), broken.url("/b"), moved.url("/a"), gone.url("/a")]
    assert sorted(done.stats["refused"]) == sorted(f"{url} RobotsTxt: robots" for url in refused)
    assert dropped(done, "robots_txt") == 5
    assert done.stats["webcrawl/middleware/robots_txt/unreachable"] == 2


# Leases


class Deciding(Verifier):
    name = "deciding"
    decided = ""

    def decide(self, url: str, request: Request) -> None:
        self.decided = url


def leased(url: str, asked: str) -> Request:
    lease = Lease("a.test", Step.PAGE, url, "127.0.0.1", link=Link(url, "a.test"))
    return PageFetch(lease).bind(Request(asked))


@pytest.mark.parametrize(
    ("asked", "passes"),
    [
        *((url, True) for url in ("http://a.test/x", "http://A.test:80/x", "http://a.test/./x#f")),
        # A user's middleware has replaced the URL.
        *((url, False) for url in ("http://b.test/x", "https://a.test/x", "http://a.test/y")),
    ],
)
def test_a_leased_request_passes_for_its_own_url_only(asked: str, passes: bool) -> None:
    middleware = Deciding(None)  # type: ignore[arg-type]  # it does not use its crawler
    assert middleware.process_request(leased("http://a.test/x", asked)) is None
    assert middleware.decided == ("" if passes else asked)
