"""The page of `scrapy botpage` in a browser: it fits, asks for nothing, and runs nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from webcrawl.tools.botpage.page import Bot, write_botpage

pytestmark = pytest.mark.slow

HOSTILE = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_and_runs_nothing(browser: Browser, tmp_path: Path, scheme: Any) -> None:
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
