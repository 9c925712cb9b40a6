"""`scrapy report` of whole crawls: every figure against the model of the simulated web."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pyarrow.parquet as pq
import pytest

from simweb import Running
from simweb.spec import WorldSpec
from tests.crawl.crawling import Crawl, assert_clean, crawl
from tests.crawl.webtruth import FEATURES, Answered, Truth, domain_of, level_of, suffix_of
from tests.forked import python, running

SPEC = WorldSpec(hosts=60, pages_per_host=8, features=FEATURES, host_delay_s=0.1, seeds=9)
WORLD = (
    *("--hosts", "60", "--pages-per-host", "8", "--features", FEATURES),
    *("--seeds", "9", "--host-delay", "0.1", "--ip-delay", "0.02"),
)
Row = dict[str, str]

pytestmark = pytest.mark.slow


class Figures:
    """The files that the command has written, and the JSON that it has printed."""

    def __init__(self, folder: Path, *options: str) -> None:
        done = python("-m", "scrapy", "report", str(folder), "--json", *options)
        assert done.returncode == 0, done.stderr
        self.errors = done.stderr
        self.summary: dict[str, Any] = json.loads(done.stdout)
        self.folder = Path(self.summary["page"]).parent

    def rows(self, name: str) -> list[Row]:
        with (self.folder / f"{name}.csv").open(newline="") as file:
            return list(csv.DictReader(file))

    def counts(self, name: str, key: str, value: str) -> dict[str, int]:
        return {row[key]: int(row[value]) for row in self.rows(name)}


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Truth, Figures]:
    """A crawl that is killed once and resumed, and its report."""
    folder = tmp_path_factory.mktemp("crawl")
    with running(*WORLD) as web:
        killed = Crawl(folder, web=web, JOBDIR=folder / "job", DOWNLOAD_TIMEOUT=120)
        killed.until("*** crawling", 2)
        web.hold(1)  # a busy machine takes longer to start the command than to crawl the rest
        assert_report_of_a_running_crawl(Figures(folder / "job"))
        killed.kill()
        web.release()
        assert_report_of_a_killed_crawl(Figures(folder / "job"), web)
        result = crawl(folder, web=web, JOBDIR=folder / "job")
        assert_clean(result)
        truth = Truth(web, SPEC)
    return truth, Figures(folder / "job", "--tokens", "--in-degree", linked_domain(truth))


def assert_report_of_a_running_crawl(figures: Figures) -> None:
    assert figures.summary["state"] == "running"
    assert figures.summary["pages_answered"] > 0
    hosts = figures.rows("hosts")
    being_visited = {row["host"] for row in hosts if row["being_visited"] == "yes"}
    assert being_visited == {row["host"] for row in hosts if int(row["pending_urls"])} != set()


def assert_report_of_a_killed_crawl(figures: Figures, web: Running) -> None:
    """The servers may have seen more, but not less; no page is there that the web does not have."""
    truth = {page.url: page for page in Truth(web, SPEC).pages}
    assert figures.summary["state"] == "killed"
    funnel = figures.summary["funnel"]
    assert 0 < funnel["C"] <= web.ledger()["fetched"]["pages"]
    assert funnel["C"] == figures.summary["pages_answered"]
    assert figures.summary["urls_pending"] > 0
    fetched = Counter(page.host for page in truth.values())
    for row in figures.rows("hosts"):
        assert int(row["visited_urls"]) <= fetched[row["host"]]
        assert row["being_visited"] == "no"
    assert {int(code) for code in figures.counts("codes", "status", "pages")} <= {
        page.status for page in truth.values()
    }


def linked_domain(truth: Truth) -> str:
    """A domain with several hosts to which many pages link."""
    linked = Counter(domain_of(host) for page in truth.documents for host in page.outlinks)
    return linked.most_common(1)[0][0]


def by_host(pages: list[Answered]) -> Counter[str]:
    return Counter(page.host for page in pages)


def test_the_crawl_is_whole(crawled: tuple[Truth, Figures]) -> None:
    truth, figures = crawled
    assert figures.summary["state"] == "finished"
    assert figures.summary["urls_pending"] == figures.summary["unreadable_lines"] == 0
    assert figures.summary["html_pages_kept"] == len(truth.documents) > 200
    assert figures.summary["duplicates"] == 0


def test_the_funnel_codes_and_losses(crawled: tuple[Truth, Figures]) -> None:
    truth, figures = crawled
    lost = truth.lost
    assert {"dns", "robots"} == set(lost)
    in_dns = [host for host in truth.hosts if truth.world.host(host).in_dns]
    on_hosts = len(truth.urls) - lost["dns"]
    assert figures.counts("funnel", "stage", "count") == {
        "E": len(truth.urls),
        "H": len(truth.urls),
        "D": len(in_dns),
        "I": on_hosts,
        "R": len(truth.pages),
        "C": len(truth.pages),
    }
    statuses = Counter(str(page.status) for page in truth.pages)
    assert figures.counts("codes", "status", "pages") == statuses
    lost["content_type"] = statuses["200"] - len(truth.documents)
    assert figures.counts("reasons", "reason", "urls") == lost


def test_urls_by_level(crawled: tuple[Truth, Figures]) -> None:
    truth, figures = crawled
    found = Counter(map(level_of, truth.urls))
    fetched = Counter(level_of(page.url) for page in truth.pages)
    for row in figures.rows("levels"):
        level = int(row["level"])
        assert int(row["found"]) == found[level]
        assert int(row["fetched"]) == fetched[level]
        assert int(row["dropped"]) == found[level] - fetched[level]
        assert int(row["pending"]) == 0


def test_types_and_character_sets(crawled: tuple[Truth, Figures]) -> None:
    truth, figures = crawled
    types = Counter(page.media_type for page in truth.pages)
    assert figures.counts("media_types", "media_type", "pages") == types
    charsets = Counter(page.charset for page in truth.documents)
    assert figures.counts("charsets", "charset", "pages") == charsets
    assert figures.counts("languages", "lang", "pages") == {"pt-br": len(truth.documents)}


def test_hosts_and_domains(crawled: tuple[Truth, Figures]) -> None:
    truth, figures = crawled
    documents, visited = by_host(truth.documents), by_host(truth.pages)
    sizes = Counter(str(count) for count in documents.values())
    assert figures.counts("host_sizes", "documents", "hosts") == sizes
    largest = sorted(documents.items(), key=lambda item: (-item[1], item[0]))
    assert [(r["host"], int(r["pages"])) for r in figures.rows("largest_hosts")] == largest
    registry = {row["host"]: row for row in figures.rows("hosts")}
    names = truth.world.names()
    assert registry.keys() == {names[host] for host in truth.hosts}
    for host, row in registry.items():
        assert int(row["visited_urls"]) == visited[host]
        assert int(row["pages"]) == documents[host]
        assert (row["being_visited"], row["pending_urls"]) == ("no", "0")
        assert row["registered_domain"] == domain_of(host)
    domains, suffixes = Counter[str](), Counter[str]()
    for host in registry:
        domains[domain_of(host)] += documents[host]
        suffixes[suffix_of(host)] += documents[host]
    assert figures.counts("registered_domains", "registered_domain", "pages") == domains
    assert figures.counts("public_suffixes", "public_suffix", "pages") == suffixes


def test_seeds_and_what_came_of_each(crawled: tuple[Truth, Figures]) -> None:
    truth, figures = crawled
    assert_seeds(truth, figures, set(truth.world.seeds()))


def assert_seeds(truth: Truth, figures: Figures, expected: set[str]) -> None:
    pages = {page.url: page for page in truth.pages}
    documents = by_host(truth.documents)
    domains = Counter(domain_of(page.host) for page in truth.documents)
    seeds = {row["url"]: row for row in figures.rows("seeds")}
    assert seeds.keys() == expected
    for url, row in seeds.items():
        host = truth.world.names()[truth.urls[url].host]
        assert row["status"] == (str(pages[url].status) if url in pages else "")
        assert row["end"] == ("done" if url in pages else "dropped")
        assert int(row["pages_of_host"]) == documents[host]
        assert int(row["pages_of_domain"]) == domains[domain_of(host)]


def test_sizes_links_and_tokens(crawled: tuple[Truth, Figures]) -> None:
    truth, figures = crawled
    sizes = [len(page.body) for page in truth.documents]
    assert figures.summary["html_bytes_kept"] == sum(sizes)
    tokens = [page.tokens for page in truth.documents]
    links = [page.hrefs for page in truth.documents]
    for name, values in (("page_bytes", sizes), ("page_links", links), ("tokens", tokens)):
        rows = figures.rows(name)
        for row in rows:
            within = [v for v in values if int(row["from"]) <= v < int(row["below"])]
            assert int(row["documents"]) == len(within)
            assert int(row["sum"]) == sum(within)
        assert sum(int(row["documents"]) for row in rows) == len(values)
    spread = {row["of"]: row for row in figures.rows("spread")}
    for of, values in (("bytes", sizes), ("links", links), ("tokens", tokens)):
        assert float(spread[of]["mean"]) == pytest.approx(sum(values) / len(values), rel=1e-5)
        assert float(spread[of]["max"]) == max(values)
        median = sorted(values)[len(values) // 2]
        assert float(spread[of]["p50"]) == pytest.approx(median, rel=0.05, abs=1)


def test_the_questions_of_scale(crawled: tuple[Truth, Figures]) -> None:
    truth, figures = crawled
    found = figures.summary["questions"]
    links = sum(page.hrefs for page in truth.documents) / len(truth.documents)
    assert found["links a page"] == pytest.approx(links)
    assert found["web graph of a trillion pages, edges"] == pytest.approx(links * 1e12)
    assert found["web graph of a trillion pages, size"] == pytest.approx(8e12 * (1 + links))
    page_bytes = found["average page"]
    gbits = found["bandwidth for 10 billion pages a day"]
    assert gbits == pytest.approx(page_bytes * 8 * 1e10 / 86400 / 1e9)
    hosts, in_dns = len(truth.hosts), sum(truth.robots.values())
    assert found["valid DNS record of a new host"] == pytest.approx(in_dns / hosts)
    assert found["new host among all URLs"] == pytest.approx(hosts / len(truth.urls))
    assert found["new host among the seeds"] == 1
    refused = sum(n for status, n in truth.robots.items() if 400 <= status < 500)
    assert refused > 0
    assert found["robots.txt with 4xx"] == pytest.approx(refused / in_dns)


def test_links_into_a_domain(crawled: tuple[Truth, Figures]) -> None:
    truth, figures = crawled
    domain = linked_domain(truth)
    links = {
        page.url: "inside" if domain_of(page.host) == domain else "outside"
        for page in truth.documents
        if domain in map(domain_of, page.outlinks)
    }
    assert {row["url"]: row["from"] for row in figures.rows("in_degree")} == links
    assert figures.summary["in_degree"] == {
        "domain": domain,
        "pages_that_link": len(links),
        "from_inside": list(links.values()).count("inside"),
        "from_outside": list(links.values()).count("outside"),
        "pages_read": len(truth.documents),
    }


def test_the_corpus_has_each_page_with_its_columns(
    crawled: tuple[Truth, Figures], tmp_path: Path
) -> None:
    """`scrapy corpus` of the same crawl. What a killed process had archived is there twice."""
    truth, figures = crawled
    warcs = map(str, figures.folder.parent.glob("*.warc.gz"))
    done = python("-m", "scrapy", "corpus", *warcs, "-o", str(tmp_path), "--text", "all")
    assert (done.returncode, done.stderr) == (0, "")
    tables = [pq.read_table(path) for path in tmp_path.glob("*.parquet") if path.stem != "hosts"]
    rows = {row["url"]: row for table in tables for row in table.to_pylist()}
    robots = {url for url, row in rows.items() if row["subset"] == "robotstxt"}
    kept = [page for page in truth.pages if page.media_type != "application/pdf"]
    assert rows.keys() - robots == {page.url for page in kept}
    for page in kept:
        row = rows[page.url]
        location = re.search(r"(?i)\nLocation: *(\S+)", page.head)
        said = (row["url_host_name"], row["fetch_status"], row["content_mime_type"] or "")
        assert said == (page.host, page.status, page.media_type)
        assert row["url_host_registered_domain"] == domain_of(page.host)
        assert row["fetch_redirect"] == (location and urljoin(page.url, location[1]))
        if page.is_document:
            language = (row["declared_language"], row["detected_language"])
            assert (*language, row["content_charset"].lower()) == ("pt-br", "por", page.charset)
            assert row["words"] == len(row["text"].split()) == pytest.approx(page.tokens, rel=0.1)
    hosts = pq.read_table(tmp_path / "hosts.parquet").to_pylist()
    found = {
        code: sum(row[f"robots_{code}"] > 0 for row in hosts) for code in ("200", "gone", "4xx")
    }
    assert found == {"200": truth.robots[200], "gone": truth.robots[404], "4xx": truth.robots[403]}
