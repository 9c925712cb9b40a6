"""What a WARC file says of its crawl. No secret is in it."""

from __future__ import annotations

import json

from scrapy.settings import Settings

from webcrawl.config.table import TABLE
from webcrawl.pipelines.provenance import settings_lines, warcinfo

SECRETS = {
    "CLUSTER": "nats://me:hidden@bus.test:4222/crawl",
    "PROXY": "http://me:hidden@proxy.test:3128",
    "DEFAULT_REQUEST_HEADERS": {"Authorization": "Bearer hidden", "Accept": "text/html"},
    "BOT_AUTH_KEY": "hidden",
    "AWS_SECRET_ACCESS_KEY": "hidden",
    "OWN_KEY": "hidden",
}
ID = "20261123045012-a1b2c3"
SEEDS = [{"url": "http://a.test/"}, {"list": "br.txt", "urls": ["http://b.test/"] * 100}]


def test_no_secret_is_written() -> None:
    settings = Settings(SECRETS | {"SCOPE_SUFFIXES": ".br", "DEPTH_LIMIT": 3})
    about = dict(settings_lines(settings, ID, "broad", SEEDS))
    assert "hidden" not in str(about)
    assert "hidden" not in str(warcinfo(settings, ID, SEEDS))
    written = json.loads(about["settings"])
    assert written.keys() <= TABLE.keys()
    assert written["DEFAULT_REQUEST_HEADERS"] == ["Accept", "Authorization"]
    assert (written["SCOPE_SUFFIXES"], written["DEPTH_LIMIT"]) == ([".br"], 3)
    assert json.loads(about["seeds"]) == SEEDS


def test_values_that_do_not_fit_are_no_way_round() -> None:
    unfit = {
        "PROXY": "ftp://me:hidden@x",
        "CLUSTER": "nats://me:hidden@bus.test:4222/",
        "DEFAULT_REQUEST_HEADERS": {"Authorization: hidden": "hidden\r\n"},
    }
    lines = settings_lines(Settings(unfit), ID, "broad", [])
    assert "hidden" not in str(lines)
    assert str(lines).count("not shown") == 3


def test_a_warcinfo_record_has_crawl_scope_limits_and_seeds() -> None:
    lines = warcinfo(
        Settings({"WARC_COLLECTION": "spring", "SCOPE_DENY": ["a"] * 60, "DEPTH_LIMIT": 3}),
        ID,
        SEEDS,
    )
    assert [value for name, value in lines if name == "isPartOf"] == ["spring", ID]
    found = {name: json.loads(value) for name, value in lines if name in ("scope", "limits")}
    assert found["scope"]["SCOPE_DENY"] == "60 entries"
    assert found["limits"]["DEPTH_LIMIT"] == 3
    assert ("seeds", '[{"url":"http://a.test/"},{"list":"br.txt","urls":"100 entries"}]') in lines
