"""The live page in a browser: beside a real crawl, and with hostile names from the web."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect

from tests.adapters.rawserver import RawServer, read_request
from tests.crawl.crawling import Crawl
from tests.crawl.knownsite import answer
from tests.crawl.livecrawl import Port, made_up
from tests.crawl.madeuplive import HOSTILE
from tests.forked import running

pytestmark = pytest.mark.slow

TIMEOUT_MS = 60_000  # of a busy machine
WIDTHS = (390, 760, 1280)
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
expect.set_options(timeout=TIMEOUT_MS)


@contextmanager
def opened(browser: Browser, url: str) -> Iterator[Page]:
    """The page. Fails if it had an error, except that a server which has ended does not answer."""
    errors: list[str] = []

    def note(line: ConsoleMessage) -> None:
        if line.type == "error" and "net::ERR_" not in line.text:
            errors.append(line.text)

    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(TIMEOUT_MS)
    page = context.new_page()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", note)
    page.goto(url)
    expect(page.locator("#state")).to_have_text("running")
    try:
        yield page
        assert errors == []
    finally:
        context.close()


def overflow(page: Page) -> list[str]:
    """What reaches beyond the right edge."""
    found: list[str] = page.evaluate(
        """() => [...document.querySelectorAll("body *")]
            .filter((each) => each.getBoundingClientRect().right > innerWidth + 1)
            .map((each) => each.outerHTML.slice(0, 200))"""
    )
    return found


def until_crawled(page: Page, pages: int) -> int:
    """Wait until the page shows at least so many pages crawled. Returns their number."""
    number = page.wait_for_function(
        """(least) => {
            const shown = Number(document.querySelector("#crawled").innerText.replaceAll(",", ""));
            return shown >= least && shown;
        }""",
        arg=pages,
    )
    return int(number.json_value())


def test_the_page_shows_a_crawl_and_its_end(browser: Browser, tmp_path: Path) -> None:
    with running("--hosts", "60", "--pages-per-host", "300", "--host-delay", "0.1") as web:
        crawl = Crawl(tmp_path, web=web, JOBDIR=tmp_path / "job", LIVE=1)
        with opened(browser, Port.of(crawl).url) as page:
            assert "token" not in page.url
            before = until_crawled(page, 1)
            until_crawled(page, before + 1)
            expect(page.locator("#line-pages path")).to_have_count(2)
            expect(page.locator("#funnel dt").first).to_have_text("Taken from the queue")
            page.fill("#url", web.seeds[0])
            page.click("#explain button")
            expect(page.locator("#explanation")).to_contain_text("a seed")
            expect(page.locator("#urls tbody tr").first).to_be_visible()
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 900})
                assert overflow(page) == []
            crawl.interrupt()
            expect(page.locator("#notice")).to_contain_text("The crawl has ended: shutdown.")
            expect(page.locator("#state")).to_have_text("ended")
            expect(page.locator("#pause")).to_be_disabled()
            until_crawled(page, before)  # the last state stays
        assert crawl.wait().exit_code == 0


def test_hostile_text_is_text(browser: Browser) -> None:
    with made_up() as port, opened(browser, port.url) as page:
        expect(page.locator("#urls tbody tr").nth(3)).to_be_attached()
        page.fill("#url", HOSTILE["end of script"])
        page.click("#explain button")
        expect(page.locator("#explanation")).to_contain_text("<img src=x onerror=")
        page.fill("#deny", "evil.example")
        page.click("form[data-command=deny] button")
        expect(page.locator("#answers")).to_contain_text('{"command": "deny"')
        assert page.locator("main img, main script, main svg[onload]").count() == 0
        assert "owned" not in page.title()[:5]
        text = page.inner_text("body")
        for hidden in ("\u202e", "\u2066", "\u200f", "\x1b", "\x00", "\x9b"):
            assert hidden not in text
        assert "\\u{202e}gpj.exe" in text
        assert "</script>" in text
        for width, scheme in product(WIDTHS, SCHEMES):
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size({"width": width, "height": 900})
            assert overflow(page) == [], (width, scheme)


def test_a_hub_shows_the_whole_crawl_and_who_is_away(browser: Browser) -> None:
    with made_up() as port, opened(browser, port.url) as page:
        expect(page.locator("#whole")).to_be_hidden()
    with made_up("--hubs") as port, opened(browser, port.url) as page:
        said = "This is hub 0 of 3. Away: hub 2 since 2026-11-23T05:00:00Z. Counted as last heard."
        expect(page.locator("#away")).to_have_text(said)
        expect(page.locator("#queued")).to_have_text("9")
        assert until_crawled(page, 2) % 2 == 0
        assert page.locator("main img, main script, main svg[onload]").count() == 0
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert "\u202e" not in page.inner_text("body")


def test_the_list_is_filtered_and_held(browser: Browser) -> None:
    with made_up() as port, opened(browser, port.url) as page:
        rows = page.locator("#urls tbody tr")
        expect(rows.nth(5)).to_be_attached()
        page.select_option("#status", "dropped")
        expect(rows.locator("visible=true").first).to_contain_text("dropped")
        assert rows.locator("visible=true").filter(has_text="kept").count() == 0
        page.fill("#filter", "nothing has this")
        expect(page.locator("#no-urls")).to_contain_text("None of the last")
        page.fill("#filter", "")
        page.click("#hold")
        held = rows.count()
        crawled = page.inner_text("#crawled")
        expect(page.locator("#crawled")).not_to_have_text(crawled)
        assert rows.count() == held
        page.click("#hold")
        expect(rows.nth(held)).to_be_attached()


def test_the_number_of_unlisted_urls_moves_nothing(browser: Browser) -> None:
    with made_up() as port, opened(browser, port.url) as page:
        line, top = page.locator("#left-out"), "document.querySelector('.scroll').offsetTop"
        before = page.evaluate(top)
        line.evaluate("each => each.textContent = '1,234 more were too many to list'")
        assert page.evaluate(top) == before
        line.evaluate("each => each.textContent = ''")
        assert page.evaluate(top) == before


def test_stop_asks_first(browser: Browser) -> None:
    with made_up() as port, opened(browser, port.url) as page:
        page.click("#stop")
        page.click("#confirm button:has-text('Cancel')")
        page.click("#stop")
        page.click("#confirm button.grave")
        expect(page.locator("#answers li")).to_have_count(1)
        expect(page.locator("#answers")).to_contain_text('{"command": "stop"')
        expect(page.locator("#answers")).to_contain_text("live page")


def test_a_killed_crawl_is_said_and_found_again(browser: Browser, tmp_path: Path) -> None:
    """The resumed crawl has the same token, so the page needs no new URL."""
    with running("--hosts", "60", "--pages-per-host", "300", "--host-delay", "0.1") as web:
        killed = Crawl(tmp_path, web=web, JOBDIR=tmp_path / "job", LIVE=1)
        port = Port.of(killed)
        with opened(browser, port.url) as page:
            before = until_crawled(page, 1)
            killed.process.kill()
            killed.process.wait()
            expect(page.locator("#state")).to_have_text("no connection")
            expect(page.locator("#notice")).to_contain_text("has ended or cannot be reached")
            resumed = Crawl(tmp_path, web=web, JOBDIR=tmp_path / "job", LIVE=port.number)
            expect(page.locator("#state")).to_have_text("running")
            expect(page.locator("#notice")).to_be_hidden()
            until_crawled(page, before + 1)
            line = page.locator("#line-pages path").last.get_attribute("d")
            assert line is not None
            assert line.count("M") == 2, "the line has a gap between the two connections"
            resumed.interrupt()
            expect(page.locator("#state")).to_have_text("ended")
        assert resumed.wait().exit_code == 0


def test_another_server_of_the_machine_does_not_get_the_token(browser: Browser) -> None:
    heads: list[bytes] = []

    def serve(connection: socket.socket) -> None:
        if head := read_request(connection):
            heads.append(head)
            connection.sendall(answer(b"<title>other</title>"))

    with RawServer(serve) as server, made_up() as port, opened(browser, port.url) as page:
        other = f"http://127.0.0.1:{server.port}/"
        assert page.context.cookies() == []
        beside = page.context.new_page()
        beside.goto(other)
        page.evaluate("url => { location = url; }", other)
        expect(page).to_have_title("other")
        assert page.evaluate("JSON.stringify([sessionStorage, localStorage])") == "[{},{}]"
        assert len(heads) >= 2
        assert port.token.encode() not in b"".join(heads)
        page.go_back()
        expect(page.locator("#state")).to_have_text("running")


def test_a_tab_keeps_the_token_and_another_needs_the_url(browser: Browser) -> None:
    with made_up() as port, opened(browser, port.url) as page:
        assert page.url == f"http://127.0.0.1:{port.number}/"
        page.reload()
        expect(page.locator("#state")).to_have_text("running")
        other = page.context.new_page()
        for query in ("", "?token=wrong", "?token=\u20ac%0d%0a"):
            other.goto(f"{page.url}{query}")
            expect(other.locator("#state")).to_have_text("refused")
            expect(other.locator("#notice")).to_contain_text("the token is missing or wrong")
            expect(other.locator("#pause")).to_be_disabled()
        other.goto(port.url)
        expect(other.locator("#state")).to_have_text("running")
        expect(other.locator("#notice")).to_be_hidden()


def test_each_control_has_a_name(browser: Browser) -> None:
    with made_up() as port, opened(browser, port.url) as page:
        unnamed = page.evaluate(
            """() => [...document.querySelectorAll("input, textarea, select, button, [role=img]")]
                .filter((each) => !(each.labels?.length || each.innerText || each.ariaLabel))
                .map((each) => each.outerHTML)"""
        )
        assert unnamed == []
        for _ in range(3):
            page.keyboard.press("Tab")
        focused = page.evaluate("document.activeElement.tagName")
        assert focused in ("BUTTON", "INPUT", "SELECT", "TEXTAREA")
