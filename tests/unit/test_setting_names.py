"""Which names of settings and spider arguments count as misspelt, and which do not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from scrapy import Spider

from tests.cases import each_of
from tests.projectsettings import of_a_crawl
from webcrawl.config.names import Names, check_names
from webcrawl.spiders.broad import BroadSpider

NONE_WRONG = Names([], [])
HINT = "(OWN_NAMES lists names of your own)"


def checked(
    spider: type[Spider] = BroadSpider, arguments: dict[str, Any] | None = None, **given: Any
) -> Names:
    settings = of_a_crawl(**given)
    spider.update_settings(settings)
    return check_names(settings, spider, arguments or {})


def test_the_defaults_and_scrapys_own_names_pass() -> None:
    given = {"FEEDS": {}, "LOG_FILE": "log", "JOBDIR": "job", "AUTOTHROTTLE_ENABLED": 1}
    without_default = {"IMAGES_STORE": "x", "HTTPPROXY_AUTH_ENCODING": "x"}
    assert checked(**given, **without_default) == NONE_WRONG


MISSPELT = [
    ("SCOPE_SUFFIX", "SCOPE_SUFFIXES"),
    ("DOWNLOAD_DELYA", "DOWNLOAD_DELAY"),
    ("MAX_PAGE_PER_HOST", "MAX_PAGES_PER_HOST"),
    ("ROBOTS_TXT_OBEY", "ROBOTSTXT_OBEY"),
    ("max_pages_per_host", "MAX_PAGES_PER_HOST"),
    ("USERAGENT", "USER_AGENT"),
    ("JOB_DIR", "JOBDIR"),
    ("SCOPE_SUFIX", "SCOPE_SUFFIXES"),
    ("CONTENT_TYPE", "CONTENT_TYPES"),
    ("IMAGE_STORE", "IMAGES_STORE"),
    ("IP_DELYA", "IP_DELAY"),
    ("SITEMAP", "SITEMAPS"),
]


@each_of(("name", "meant"), MISSPELT)
def test_a_misspelt_setting(name: str, meant: str) -> None:
    line = f"{name} is not a setting; did you mean {meant}? {HINT}"
    assert checked(**{name: 1}) == Names([line], [])


NEAREST = f"SCOPE_DENIED is no setting; the nearest is SCOPE_DENY {HINT}"
INSTEAD = "an idle connection is kept for 15 s, if no delay is as long"
GONE = f"KEEP_ALIVE is not a setting any more: {INSTEAD} {HINT}"


@each_of(
    ("given", "names"),
    [
        # An unknown name is the user's own.
        ({"PLAYWRIGHT_BROWSER_TYPE": 1, "SPIDERMON_ENABLED": 1}, NONE_WRONG),
        ({"REDIS_URL": 1, "MY_PIPELINE_FILE": 1}, NONE_WRONG),
        ({"DEBUG_COMMAND": 1}, NONE_WRONG),  # of an earlier version's own processes
        ({"SCOPE_DENIED": "x"}, Names([], [NEAREST])),
        ({"KEEP_ALIVE": "60"}, Names([GONE], [])),  # of the last release
        ({"KEEP_ALIVE": "60", "OWN_NAMES": "KEEP_ALIVE"}, NONE_WRONG),
        ({"OWN_NAMES": 5}, NONE_WRONG),  # that is left to the check of values
    ],
)
def test_names_that_are_not_misspelt(given: dict[str, Any], names: Names) -> None:
    assert checked(**given) == names


class Theirs(BroadSpider):
    """Keeps the crawl in Brazil: SCOPE_SUFFIX."""

    name = "theirs"
    custom_settings = {"SCOPE_SUFFIX": ".br"}


def test_text_of_the_users_makes_no_name_known() -> None:
    """As it did: the text of the user's files was searched, and the crawl had no suffix."""
    line = f"SCOPE_SUFFIX is not a setting; did you mean SCOPE_SUFFIXES? {HINT}"
    assert checked(Theirs) == Names([line], [])


@each_of("own", [["SCOPE_SUFFIX", "seed"], "SCOPE_SUFFIX,seed"])
def test_a_name_of_ones_own_may_resemble_a_known_one(own: list[str] | str) -> None:
    assert checked(Theirs, {"seed": "x"}, OWN_NAMES=own) == NONE_WRONG


def test_each_setting_that_the_changelog_calls_gone_is_refused() -> None:
    text = (Path(__file__).parents[2] / "CHANGELOG.md").read_text(encoding="utf-8")
    table = text.partition("| gone | in its place |")[2].partition("\n\n")[0]
    gone = re.findall(r"`([A-Z_]+)`", " ".join(re.findall(r"^ *\|([^|]*)\|", table, re.MULTILINE)))
    assert "CONCURRENT_ADMISSIONS" in gone
    refused = checked(**dict.fromkeys(gone, "1")).misspelt
    assert [line.partition(" is not a setting any more: ")[0] for line in refused] == sorted(gone)


@each_of("name", ["seed", "Seeds", "seeeds", "sedes", "allowed_domain"])
def test_a_misspelt_argument(name: str) -> None:
    meant = "allowed_domains" if name[0] == "a" else "seeds"
    line = f"-a {name}= is not an argument; did you mean -a {meant}=? {HINT}"
    assert checked(arguments={name: "x"}) == Names([line], [])


def test_other_arguments() -> None:
    """`_job` is scrapyd's; the others are attributes that Scrapy knows."""
    known = {"_job": "1", "user_agent": "x", "start_urls": "y", "allowed_domains": "a.test"}
    assert checked(arguments={"seeds": "x", **known}) == NONE_WRONG
    line = "-a colour= is given, but spider 'broad' does not read it"
    assert checked(arguments={"colour": "x"}) == Names([], [line])
    assert checked(Theirs, {"colour": "x"}, OWN_NAMES="SCOPE_SUFFIX") == NONE_WRONG


def test_arguments_of_a_subclass() -> None:
    class Takes(BroadSpider):
        def __init__(self, seed: str = "", **kwargs: Any) -> None:
            super().__init__(**kwargs)

    class Has(BroadSpider):
        seed = ""

    for spider in (Takes, Has):
        assert checked(spider, {"seed": "x", "seeds": "y"}) == NONE_WRONG
