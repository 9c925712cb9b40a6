"""The pages of `scrapy report` and `scrapy botpage` in a browser: from files, without a network."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from webcrawl.tools.botpage.page import Bot, write_botpage
from webcrawl.tools.report.folder import find_crawl
from webcrawl.tools.report.page import write_page
from webcrawl.tools.report.report import make_report, open_crawl

pytestmark = pytest.mark.slow

CRAWL = "20261123045000-abcdef"
HOSTILE = (
    "</script><script>document.title='taken'</script><img src=x onerror=\"document.title='x'\">"
)


def lines(name: str = "uma-casa-" * 6) -> Iterator[dict[str, Any]]:
    """A crawl log of 400 pages on 60 hosts with `name` in theirs, some of them hostile."""
    for n in range(400):
        host = f"www{n % 60 if n % 3 else 0}.{name}{n % 60}.com.br"
        url = f"http://{host}/{'caminho/' * (n % 12)}{n}?q={HOSTILE if n % 40 == 0 else n}"
        each = {"time": f"2026-11-23T05:{n // 60:02}:{n % 60:02}.000Z", "kind": "page", "url": url}
        each |= {"host": host, "level": 1 + n % 10, "tries": 1, "ip": "192.0.2.1"}
        if n % 9 == 8:
            yield each | {"end": "dropped", "reason": "timeout"}
            continue
        yield each | {
            "end": "done",
            "status": 404 if n % 7 == 6 else 200,
            "media_type": HOSTILE if n == 1 else "text/html",
            "lang": HOSTILE if n % 50 == 0 else "pt-br",
            "size_bytes": 1000 + n * n,
            "body_bytes": 2000 + n * n,
            "links": n,
            "via": "http://www.example.com/" if n % 2 else "",
            "dns_ms": n % 30,
            "connect_ms": 1 + n % 17,
            "first_byte_ms": 20 + n,
            "total_ms": 30 + 2 * n,
        }


def point(n: int) -> dict[str, Any]:
    counts = {"extracted": 9 * n, "crawled": 8 * n, "page_bytes": 90_000 * n, "pending": 40 - n}
    return {"t": 2.0 * n, "counts": counts, "under_way": {"page": 5}, "run": 1}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(tmp_path_factory.mktemp("report"), lines())


def written(folder: Path, log_lines: Iterator[dict[str, Any]]) -> str:
    """The URL of the report on a crawl with `log_lines`."""
    text = "".join(json.dumps({k: v for k, v in each.items() if v}) + "\n" for each in log_lines)
    (folder / f"crawl-{CRAWL}-00001.jsonl").write_text(text)
    series = "".join(json.dumps(point(n)) + "\n" for n in range(30))
    (folder / f"series-{CRAWL}.jsonl").write_text(series)
    crawl = find_crawl(folder)
    with open_crawl(crawl) as (log, state):
        return write_page(make_report(log, crawl, state), folder / "report").as_uri()


def opened(browser: Browser, index: str, width: int, scheme: Any = "light") -> Page:
    """The page with all plots drawn; fails on any message of the console."""
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    messages: list[str] = []
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("request", lambda request: messages.append(request.url) if outside(request) else None)
    page.goto(index)
    page.wait_for_selector("html[data-ready=yes]")
    for plot in page.query_selector_all(".plot"):
        plot.scroll_into_view_if_needed()
    page.wait_for_function(
        "document.querySelectorAll('.plot svg.main-svg').length >="
        " document.querySelectorAll('.plot').length"
    )
    assert messages == []
    return page


def outside(request: Any) -> bool:
    return not request.url.startswith(("file:", "data:"))


@pytest.fixture(scope="module")
def page(browser: Browser, index: str) -> Page:
    return opened(browser, index, 1280)


def test_it_has_no_error_and_fits(browser: Browser, index: str, page: Page) -> None:
    narrow = opened(browser, index, 390, "dark")
    for each, width, scheme in ((page, 1280, "light"), (narrow, 390, "dark")):
        assert each.evaluate("document.documentElement.scrollWidth") == width
        assert each.evaluate("document.documentElement.dataset.theme") == scheme
        assert len(each.query_selector_all(".plot")) >= 10
    narrow.close()


def test_marks_of_logarithmic_axes_are_plain_numbers(page: Page) -> None:
    """Not "700m" links: SI prefixes are for thousands."""
    marks = page.locator(".xtick, .ytick").all_text_contents()
    assert "10" in marks
    assert "10k" in marks
    assert [each for each in marks if each.endswith(("m", "\u00b5"))] == []


def test_hostile_values_are_shown_as_text(page: Page) -> None:
    assert page.title() == f"Crawl {CRAWL}"
    assert HOSTILE in page.inner_text("#figure-languages")
    assert HOSTILE in page.inner_text("#figure-media_types")
    assert page.query_selector_all("main img, main script") == []


def test_tables_of_names_of_usual_length_are_not_cut(browser: Browser, tmp_path: Path) -> None:
    page = opened(browser, written(tmp_path, lines("casa-feliz-da-praia-")), 1280)
    cut = page.evaluate(
        """() => [...document.querySelectorAll(".box")]
            .filter((box) => box.scrollWidth > box.clientWidth)
            .map((box) => `${box.ariaLabel}: ${box.scrollWidth} of ${box.clientWidth}`)"""
    )
    assert cut == []
    assert "Not Found" in page.inner_text("#figure-codes")
    assert "NaN" not in page.inner_text("main")
    page.close()


def test_tables_are_filtered_and_sorted(page: Page) -> None:
    table = page.locator("#figure-hosts")
    rows = table.locator("tbody tr")
    assert rows.count() == 12
    table.get_by_role("button", name="Show 48 more").click()
    assert rows.count() == 60
    table.get_by_role("searchbox").fill("www7.")
    assert rows.count() == 1
    table.get_by_role("searchbox").fill("nowhere")
    assert rows.count() == 0
    table.get_by_role("searchbox").fill("")
    table.get_by_role("button", name="Pages").click()
    pages = [
        int(text.replace(",", "")) for text in rows.locator("td:nth-child(4)").all_inner_texts()
    ]
    assert pages == sorted(pages, reverse=True)
    table.get_by_role("button", name="Pages").click()
    assert table.locator("th[aria-sort=ascending]").count() == 1


def test_the_switch_changes_the_colours(page: Page) -> None:
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name="Dark").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before


# The page of `scrapy botpage`


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_botpage_fits_and_runs_nothing(browser: Browser, tmp_path: Path, scheme: Any) -> None:
    bot = Bot(
        token="a-crawler-with-quite-a-long-name",
        user_agent=f"a/1 {HOSTILE} (+https://example.org/{'x' * 150})",
        operator=HOSTILE,
        purpose=f"{HOSTILE} An archive of everything" * 3,
        mail="crawl@example.org",
        delay_s=30,
        crawl_delay_max_s=300,
        ip_delay_s=1,
        obeys_robots=True,
        obeys_nofollow=True,
        addresses=tuple(f"2001:db8:{n:x}::/64" for n in range(30)),
        agent="https://example.org/.well-known/http-message-signatures-directory",
        key_ids=("poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U",) * 2,
    )
    [index, *_] = write_botpage(bot, {"keys": []}, "keys", tmp_path, "2026-11-23T15:00:00Z")
    for width in (390, 1280):
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        said: list[str] = []
        page.on("console", lambda message, said=said: said.append(message.text))
        page.on("request", lambda request, said=said: said.append(request.url))
        page.goto(index.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.title() == "a-crawler-with-quite-a-long-name, a web crawler"
        assert said == [index.as_uri()]
        assert HOSTILE in page.inner_text("dl")
        page.close()
