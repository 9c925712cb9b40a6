"""The checks of a crawl that a script or another command starts."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import scrapy
from scrapy import Spider
from scrapy.exceptions import NotConfigured

from tests.projectsettings import of_a_crawl
from webcrawl.base.wording import SettingError
from webcrawl.config.fetch import user_agent_of
from webcrawl.crawl.crawl import Assignment, Crawl
from webcrawl.extensions.startcheck import StartCheck
from webcrawl.spiders.broad import BroadSpider


def crawler_of(spider: type[Spider] = BroadSpider, **given: Any) -> Any:
    settings = of_a_crawl(**given)
    return SimpleNamespace(
        settings=settings, spidercls=spider, spider=spider("x"), webcrawl=Crawl()
    )


@pytest.fixture(autouse=True)
def script(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a script, whatever other tests have imported."""
    monkeypatch.delitem(sys.modules, "scrapy.cmdline", raising=False)


def test_a_script_with_a_misspelt_name_is_refused() -> None:
    with pytest.raises(
        ValueError, match="SCOPE_SUFFIX is not a setting; did you mean SCOPE_SUFFIX"
    ):
        StartCheck.from_crawler(crawler_of(SCOPE_SUFFIX=".br"))
    crawler = crawler_of()
    crawler.spider.crawl_arguments = (), {"seed": "x"}
    with pytest.raises(ValueError, match="did you mean -a seeds="):
        StartCheck.from_crawler(crawler)


def test_a_script_with_a_wrong_value_is_refused_unless_a_command_has_checked_it() -> None:
    crawler = crawler_of(DOWNLOAD_DELAY="x")
    with pytest.raises(ValueError, match="DOWNLOAD_DELAY = 'x' cannot be used"):
        StartCheck.from_crawler(crawler)
    crawler.webcrawl.is_checked = True
    StartCheck.from_crawler(crawler)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"SCOPE_SUFFIX": ".br"}, "SCOPE_SUFFIX is not a setting; "),
        ({"DOWNLOAD_DELAY": "x"}, "DOWNLOAD_DELAY = 'x' cannot be used: "),
        (
            {"ITEM_PIPELINES": {"webcrawl.pipelines.warc.WarcPipeline": None}},
            "ITEM_PIPELINES: WarcPipeline is off: ",
        ),
    ],
)
def test_a_command_of_scrapy_is_refused_in_one_line(
    given: dict[str, Any],
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As in a project with the add-on and without COMMANDS_MODULE."""
    monkeypatch.setitem(sys.modules, "scrapy.cmdline", scrapy)
    with pytest.raises(SystemExit) as ended:
        StartCheck.from_crawler(crawler_of(**given))
    said = capsys.readouterr().err
    assert said.startswith(line)
    assert (ended.value.code, len(said.splitlines())) == (2, 1)


def test_a_script_whose_pages_would_be_lost_is_refused() -> None:
    crawler = crawler_of(ITEM_PIPELINES={"webcrawl.pipelines.warc.WarcPipeline": None})
    with pytest.raises(ValueError, match="WarcPipeline is off: no page is archived"):
        StartCheck.from_crawler(crawler)
    crawler.webcrawl.is_debugging = crawler.webcrawl.is_checked = True
    StartCheck.from_crawler(crawler)


def test_an_entry_of_allowed_domains_that_is_no_host_gets_a_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    crawler = crawler_of(USER_AGENT="x (+https://a.test/)")
    crawler.spider.allowed_domains = ["a.test", "https://b.test/x", "not a host"]
    StartCheck.from_crawler(crawler)
    assert caplog.messages == [
        "allowed_domains has 'https://b.test/x': the host b.test is meant",
        "allowed_domains has 'not a host': no URL matches it",
    ]


@pytest.mark.parametrize(
    ("setting", "lines"),
    [
        ({"LOG_LEVEL": "ERROR"}, 5), ({"LOG_LEVEL": 50}, 5), ({"LOG_FILE": "crawl.log"}, 5),
        ({"LOG_ENABLED": "0"}, 5), ({"LOG_LEVEL": "WARNING"}, 0), ({}, 0),
    ],
)  # fmt: skip
def test_no_setting_of_the_log_hides_a_missing_contact(
    setting: dict[str, Any],
    lines: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    StartCheck.from_crawler(crawler_of(SCOPE_DENIED=1, **setting))
    said = capsys.readouterr().err
    assert len(said.splitlines()) == lines
    assert ("names no contact" in said) == (lines > 0)


def test_a_worker_checks_nothing() -> None:
    crawler = crawler_of(SCOPE_SUFFIX="x")
    crawler.webcrawl.assignment = Assignment(3, None, None, [])
    with pytest.raises(NotConfigured):
        StartCheck.from_crawler(crawler)


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
