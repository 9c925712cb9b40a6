"""Which names of settings and spider arguments count as misspelt, and which do not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from scrapy import Spider
from scrapy.settings import Settings

from webcrawl import settings as defaults
from webcrawl.config.names import Names, check_names
from webcrawl.spiders.broad import BroadSpider

Write = Callable[..., type[BroadSpider]]


def checked(
    spider: type[Spider] = BroadSpider, arguments: dict[str, Any] | None = None, **given: Any
) -> Names:
    settings = Settings()
    settings.setmodule(defaults, priority="project")
    settings.setdict(given, priority="cmdline")
    spider.update_settings(settings)
    return check_names(settings, spider, arguments or {})


def none_wrong() -> Names:
    return Names([], [])


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes the package `theirs` and imports its spider."""

    def package(**files: str) -> type[BroadSpider]:
        folder = tmp_path / "theirs"
        folder.mkdir()
        for name, text in {"__init__": "", **files}.items():
            (folder / f"{name}.py").write_text(text, encoding="utf-8")
        monkeypatch.syspath_prepend(tmp_path)
        for name in [name for name in sys.modules if name.partition(".")[0] == "theirs"]:
            del sys.modules[name]
        spider: type[BroadSpider] = __import__("theirs.spider", fromlist=["Theirs"]).Theirs
        return spider

    return package


def spider_text(body: str) -> str:
    return f"""
from webcrawl.spiders.broad import BroadSpider

class Theirs(BroadSpider):
    name = "theirs"
    {body}
"""


def test_the_defaults_and_scrapys_own_names_pass() -> None:
    given = {"FEEDS": {}, "LOG_FILE": "log", "JOBDIR": "job", "AUTOTHROTTLE_ENABLED": 1}
    without_default = {"IMAGES_STORE": "x", "HTTPPROXY_AUTH_ENCODING": "x"}
    assert checked(**given, **without_default) == none_wrong()


def test_no_code_is_searched_when_all_names_are_in_the_defaults() -> None:
    """The search would take a fifth of the time in which a crawl starts."""
    script = """
        from scrapy.utils.project import get_project_settings
        from webcrawl.config import names
        from webcrawl.spiders.broad import BroadSpider
        names._sources = lambda package: 1 / 0
        assert names.check_names(get_project_settings(), BroadSpider, {"seeds": "x"}) == ([], [])
    """
    command = [sys.executable, "-c", dedent(script)]
    subprocess.run(command, cwd=Path(__file__).parents[2], check=True)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
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
        ("SITEMAP", "SITEMAPS"),  # the name of a step in our code
    ],
)
def test_a_misspelt_setting(name: str, meant: str) -> None:
    assert checked(**{name: 1}) == Names([f"{name} is not a setting; did you mean {meant}?"], [])


@pytest.mark.parametrize(
    "name", ["PLAYWRIGHT_BROWSER_TYPE", "SPIDERMON_ENABLED", "REDIS_URL", "MY_PIPELINE_FILE"]
)
def test_an_unknown_name_gets_a_line(name: str) -> None:
    line = f"{name} is set, but no code in this crawl reads it; it may be misspelt"
    assert checked(**{name: 1}) == Names([], [line])


def test_the_line_for_an_unknown_name_hints_at_a_near_one() -> None:
    (line,) = checked(SCOPE_DENIED="x").unread
    assert line.endswith("; the nearest is SCOPE_DENY")


def test_names_that_a_users_own_code_reads(write: Write) -> None:
    """Such names are known, however near they are to other known names."""
    spider = write(
        spider=spider_text(
            "custom_settings = {'CONTENT_TYPE': 1, 'OWN_LIMIT': 2, 'ITEM_PIPELINES':"
            " {'theirs.pipelines.Own': 1}}"
        ),
        pipelines="def read(settings):\n    return settings.get('CONTENT_TYPE')\n",
        deep="def read(settings):\n    return settings['OWN_LIMIT'] == settings.OTHER_LIMIT\n",
    )
    assert checked(spider, OTHER_LIMIT=1) == none_wrong()


def test_names_that_a_components_package_reads(write: Write, tmp_path: Path) -> None:
    (tmp_path / "package_of_others").mkdir()
    (tmp_path / "package_of_others/handler.py").write_text("g('OTHERS_LAUNCH_OPTIONS')")
    spider = write(spider=spider_text("pass"))
    handlers = {"https": "package_of_others.handler.Handler"}
    assert checked(spider, OTHERS_LAUNCH_OPTIONS=1, DOWNLOAD_HANDLERS=handlers) == none_wrong()
    assert checked(spider, OTHERS_LAUNCH_OPTION=1, DOWNLOAD_HANDLERS=handlers).misspelt == [
        "OTHERS_LAUNCH_OPTION is not a setting; did you mean OTHERS_LAUNCH_OPTIONS?"
    ]


@pytest.mark.parametrize(
    "giving",
    [
        "custom_settings = {'SCOPE_SUFFIX': '.br'}",
        "custom_settings = dict(SCOPE_SUFFIX='.br')",
        "custom_settings = {}; custom_settings['SCOPE_SUFFIX'] = '.br'  # SCOPE_SUFFIX",
        "@classmethod\n    def update_settings(cls, s):\n        s.set('SCOPE_SUFFIX', '.br', 30)",
        "@classmethod\n    def update_settings(cls, s):\n        s.set(\n 'SCOPE_SUFFIX', 1)",
        "@classmethod\n    def update_settings(cls, s):\n        s.setdefault('SCOPE_SUFFIX', 1)",
    ],
)
def test_code_that_sets_a_name_does_not_read_it(write: Write, giving: str) -> None:
    spider = write(spider=spider_text(giving), settings="SCOPE_SUFFIX: str = '.br'\n")
    line = "SCOPE_SUFFIX is not a setting; did you mean SCOPE_SUFFIXES?"
    assert checked(spider) == Names([line], [])


@pytest.mark.parametrize(
    "reading",
    [
        "{k: v for k, v in settings.items() if k.startswith('KAFKA_PRODUCER_')}",
        "settings.get(f'KAFKA_PRODUCER_{name}')",
        "settings.get('KAFKA_%s' % name)",
        'settings.get("KAFKA_" + name)',
    ],
)
def test_names_that_a_users_own_code_builds(write: Write, reading: str) -> None:
    spider = write(spider=spider_text("pass"), pipelines=f"def read(settings):\n    {reading}\n")
    assert checked(spider, KAFKA_PRODUCER_ACKS=1, KAFKA_PRODUCER_1=2) == none_wrong()
    assert len(checked(spider, SCOPE_SUFFIX=1, KAFKAPRODUCER="x").misspelt) == 1


def test_a_prefix_is_never_proposed_as_a_name(write: Write) -> None:
    spider = write(spider=spider_text("pass"), pipelines="PREFIX = 'MONGO_URI_'\n")
    line = "MONGO_URI is set, but no code in this crawl reads it; it may be misspelt"
    assert checked(spider, MONGO_URI="x") == Names([], [line])


def test_names_that_the_settings_module_reads_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A separate settings module, as README advises."""
    text = (
        "from webcrawl.settings import *\nUSER_AGENTS = ['a', 'b']\nUSER_AGENT = USER_AGENTS[0]\n"
    )
    (tmp_path / "settings_of_one_file.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    assert len(checked(USER_AGENTS=["a"]).misspelt) == 1
    monkeypatch.setenv("SCRAPY_SETTINGS_MODULE", "settings_of_one_file")
    assert checked(USER_AGENTS=["a"]) == none_wrong()


def test_a_constant_of_a_settings_module(write: Write) -> None:
    """The module uses its constant SCOPE_SUFFIX to make another setting."""
    spider = write(
        spider=spider_text("pass"),
        settings="SCOPE_SUFFIX = '.br'\nSCOPE_SUFFIXES = [SCOPE_SUFFIX]\n",
    )
    assert checked(spider, SCOPE_SUFFIX=".br") == none_wrong()


@pytest.mark.parametrize("name", ["seed", "Seeds", "seeeds", "sedes"])
def test_a_misspelt_argument(name: str) -> None:
    line = f"-a {name}= is not an argument; did you mean -a seeds=?"
    assert checked(arguments={name: "x"}) == Names([line], [])


def test_other_arguments() -> None:
    """`_job` is scrapyd's; user_agent is an attribute that Scrapy knows."""
    arguments = {"seeds": "x", "_job": "1", "user_agent": "x", "start_urls": "y"}
    assert checked(arguments=arguments) == none_wrong()
    line = "-a colour= is given, but spider 'broad' does not read it"
    assert checked(arguments={"colour": "x"}) == Names([], [line])


@pytest.mark.parametrize(
    "body",
    [
        "def __init__(self, seed='', **kwargs): super().__init__(**kwargs)",
        "seed = ''",
        "def parse(self, response): return self.seed",
        "def __init__(self, **kwargs): super().__init__(kwargs.pop('seed'))",
        "def parse(self, response): return getattr(self, 'seed', 1)",
    ],
)
def test_arguments_of_a_subclass(write: Write, body: str) -> None:
    spider = write(spider=spider_text(body))
    assert checked(spider, {"seed": "x", "seeds": "y"}) == none_wrong()


def test_a_pipeline_reads_the_spiders_argument(write: Write) -> None:
    spider = write(spider=spider_text("pass"), pipelines="def run(spider):\n    spider.seed\n")
    assert checked(spider, {"seed": "x"}) == none_wrong()
