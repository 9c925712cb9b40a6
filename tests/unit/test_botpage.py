"""botpage: what owners of sites find, escaped, and the files beside the page."""

from __future__ import annotations

import json
from argparse import Namespace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from msgspec import structs
from scrapy.utils.project import get_project_settings

from webcrawl.tools.botpage.command import Command
from webcrawl.tools.botpage.page import Bot, address_list, html, missing, write_botpage

HOSTILE = "<script>alert(1)</script>\"'&"
BOT = Bot(
    token="examplebot",
    user_agent="examplebot/1.0 (+https://example.org/bot; crawl@example.org)",
    operator="The Example Library",
    purpose="An archive of public web sites",
    delay_s=30,
    crawl_delay_max_s=300,
    ip_delay_s=1,
    obeys_robots=True,
    obeys_nofollow=True,
    addresses=("192.0.2.7/28", "2001:db8::/64"),
    agent="https://example.org/.well-known/http-message-signatures-directory",
    key_ids=("abc",),
)
NOW = "2026-11-23T15:00:00Z"


class Reader(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name == "href"]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_says_who_why_and_how_to_block() -> None:
    page = Reader(html(BOT, NOW))
    for said in (
        "The Example Library", "An archive of public web sites", "crawl@example.org",
        "User-agent: examplebot\nDisallow: /", "Crawl-delay: 120", "waits 30 seconds or more",
        "192.0.2.7/28", "key abc", "within 24 hours",
    ):  # fmt: skip
        assert said in page.text, said
    assert page.links == [
        "addresses.json",
        "mailto:crawl@example.org",
        "https://example.org/bot",
        "addresses.json",
        BOT.agent,
    ]
    assert "script" not in page.tags
    assert missing(BOT) == []


def test_what_else_the_settings_promise() -> None:
    more = structs.replace(
        BOT, also=("CCBot", "GPTBot"), obeys_noarchive=True, delay_factor=5, comes_again=True
    )
    text, plain = Reader(html(more, NOW)).text, Reader(html(BOT, NOW)).text
    for promise in "Rules for CCBot, GPTBot", "noarchive", "5 times as long", "pages again":
        assert promise in text
        assert promise not in plain


def test_every_value_is_escaped() -> None:
    bot = Bot(
        **dict.fromkeys(("token", "user_agent", "operator", "purpose", "mail", "agent"), HOSTILE),
        delay_s=0,
        crawl_delay_max_s=1,
        ip_delay_s=0,
        obeys_robots=True,
        obeys_nofollow=False,
        addresses=(HOSTILE,),
        key_ids=(HOSTILE,),
    )
    page = Reader(html(bot, HOSTILE))
    assert "script" not in page.tags
    assert page.text.count(HOSTILE) >= 9


def test_a_crawler_that_ignores_robots_txt_says_so() -> None:
    bot = Bot(
        token="x",
        user_agent="x",
        delay_s=1,
        crawl_delay_max_s=1,
        ip_delay_s=0,
        obeys_robots=False,
        obeys_nofollow=False,
    )
    text = Reader(html(bot, NOW)).text
    assert "does not read robots.txt" in text
    assert "Disallow" not in text
    assert "1 second or more" in text
    assert len(missing(bot)) == 4


def test_the_files(tmp_path: Path) -> None:
    path = "/.well-known/http-message-signatures-directory"
    write_botpage(BOT, {"keys": []}, path, tmp_path, NOW)
    assert json.loads((tmp_path / path[1:]).read_text()) == {"keys": []}
    assert json.loads((tmp_path / "addresses.json").read_text()) == address_list(BOT, NOW)
    assert address_list(BOT, NOW) == {
        "creationTime": NOW,
        "prefixes": [
            {"ipv4Prefix": "192.0.2.0/28", "services": ["examplebot"]},
            {"ipv6Prefix": "2001:db8::/64", "services": ["examplebot"]},
        ],
    }


def test_the_settings_of_a_hub_make_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its bus and its folders, also where no archive can be written."""
    command, missing_folder = Command(), tmp_path / "file" / "job"
    (tmp_path / "file").touch()
    command.settings = settings = get_project_settings()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "warc").touch()
    hub = {"CLUSTER": "nats://bus.test", "CLUSTER_HUBS": 2}
    folders = dict.fromkeys(("CLUSTER_CHECKPOINTS", "JOBDIR"), str(missing_folder))
    settings.setdict(hub | folders, "cmdline")
    command.run([], Namespace(address=[], also_key=[], new_key=None, to=str(tmp_path / "page")))
    assert command.exitcode == 0
    assert (tmp_path / "page" / "index.html").exists()
