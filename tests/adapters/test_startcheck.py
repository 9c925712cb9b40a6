"""The checks of a crawl that a script or another command starts."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Spider
from scrapy.exceptions import NotConfigured
from scrapy.settings import Settings

from webcrawl import settings as defaults
from webcrawl.config.fetch import user_agent_of
from webcrawl.config.kinds import SettingError
from webcrawl.extensions.startcheck import StartCheck
from webcrawl.spiders.broad import BroadSpider


def crawler_of(spider: type[Spider] = BroadSpider, **given: Any) -> Any:
    settings = Settings()
    settings.setmodule(defaults, priority="project")
    settings.setdict(given, priority="cmdline")
    return SimpleNamespace(settings=settings, spidercls=spider, spider=spider("x"))


def test_a_script_with_a_misspelt_name_is_refused() -> None:
    with pytest.raises(
        ValueError, match="SCOPE_SUFFIX is not a setting; did you mean SCOPE_SUFFIX"
    ):
        StartCheck.from_crawler(crawler_of(SCOPE_SUFFIX=".br"))
    crawler = crawler_of()
    crawler.spider.crawl_arguments = (), {"seed": "x"}
    with pytest.raises(ValueError, match="did you mean -a seeds="):
        StartCheck.from_crawler(crawler)


def test_an_unread_name_and_a_missing_contact_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        StartCheck.from_crawler(crawler_of(OWN_THING=1))
    assert len(caplog.records) == 6
    assert "OWN_THING is set, but no code" in caplog.messages[0]
    assert "names no contact" in caplog.messages[2]


@pytest.mark.parametrize(
    ("setting", "lines"),
    [
        ({"LOG_LEVEL": "ERROR"}, 5), ({"LOG_LEVEL": 50}, 5), ({"LOG_FILE": "crawl.log"}, 5),
        ({"LOG_ENABLED": "0"}, 5), ({"LOG_LEVEL": "WARNING"}, 0), ({}, 0),
    ],
)  # fmt: skip
def test_no_setting_of_the_log_hides_a_missing_contact(
    setting: dict[str, Any], lines: int, capsys: pytest.CaptureFixture[str]
) -> None:
    StartCheck.from_crawler(crawler_of(OWN_THING=1, **setting))
    said = capsys.readouterr().err
    assert len(said.splitlines()) == lines
    assert ("names no contact" in said) == (lines > 0)


def test_a_worker_checks_nothing() -> None:
    with pytest.raises(NotConfigured):
        StartCheck.from_crawler(crawler_of(FRONTIER_STORE="socket:3", SCOPE_SUFFIX="x"))


class Named(BroadSpider):
    user_agent = "spiders/1 (+https://a.test/)"


def test_a_spiders_user_agent_is_the_one_that_is_sent(caplog: pytest.LogCaptureFixture) -> None:
    crawler = crawler_of(Named, USER_AGENT="other")
    StartCheck.from_crawler(crawler)
    assert user_agent_of(crawler.settings) == Named.user_agent
    assert caplog.messages == []
    crawler.spider.user_agent = "two\r\nlines: 1"
    with pytest.raises(SettingError, match="user_agent = "):
        StartCheck.from_crawler(crawler)
