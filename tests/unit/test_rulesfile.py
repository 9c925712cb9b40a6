"""rulesfile: a file of rules is read whole, or its mistake is one line with file and rule."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.cases import each_of
from tests.projectsettings import of_a_crawl
from webcrawl.config.check import check
from webcrawl.config.kinds import SIZE
from webcrawl.config.rulesfile import FIELDS, RulesError, load, parse, unobeyed
from webcrawl.scope.hostrules import Auth, HostRule, Values

ROOT = Path(__file__).parents[2]


def test_every_field_is_read() -> None:
    text = """
# A comment
[[rule]]
host = ["WWW.Example.com", "café.example", "192.0.2.7", "::1"]
domain = "example.org"
suffix = [".gov.br", "museum"]
delay = 2
max_pages = 999_999_999_999_999_999
max_bytes = "10M"
max_depth = 3
timeout = 2.5
max_size = 1_000
user_agent = "other/1.0 (+https://example.org)"
headers = { "Accept-Language" = "pt", "X-Gone" = "" }
robots_agent = "Other/1.0"
obey_robots = false
deny = ['\\?page=']
priority = -3
"""
    (rule,) = parse(text, "rules.toml")
    assert rule == HostRule(
        line=3,
        hosts=("www.example.com", "xn--caf-dma.example", "192.0.2.7", "::1"),
        domains=("example.org",),
        suffixes=("gov.br", "museum"),
        values=Values(
            delay_s=2.0,
            max_pages=999_999_999_999_999_999,
            max_bytes=10_000_000,
            max_depth=3,
            timeout_s=2.5,
            max_size_bytes=1000,
            user_agent="other/1.0 (+https://example.org)",
            headers=(("Accept-Language", "pt"), ("X-Gone", "")),
            robots_agent="other",
            obey_robots=False,
            deny=(r"\?page=",),
            priority=-3,
        ),
    )
    others = set(Values.__struct_fields__) - {"auth"}  # its targets are hosts alone
    assert None not in (getattr(rule.values, name) for name in others)
    assert unobeyed([rule])[-1] == "suffix museum"


def test_an_empty_file_has_no_rules() -> None:
    assert parse("", "rules.toml") == ()
    assert parse("# none yet\n", "rules.toml") == ()


OK = '[[rule]]\nhost = "a.org"\ndelay = 1\n'
MISTAKES = {
    # text of the file: the line, and a part of the reason
    "[[rule]]\nhost = \n": (2, "Invalid value"),
    "[[rule]\n": (1, "Expected ']]'"),
    "delay = 1\n" + OK: (0, "'delay' is unknown: each rule begins with [[rule]]"),
    OK + "[[rules]]\n": (0, "'rules' is unknown"),
    "[rule]\nhost = 'a'\n": (0, "each rule begins with [[rule]]"),
    "[[rule]]\ndelay = 1\n": (1, "a rule needs a host, a domain or a suffix"),
    "[[rule]]\nhost = []\ndelay = 1\n": (1, "a rule needs a host, a domain or a suffix"),
    OK + "[[rule]]\nhost = 'b'\n": (4, "a rule needs one of delay, max_pages"),
    OK + "dealy = 1\n": (1, "'dealy' is unknown, did you mean delay?"),
    OK + "\n\n[[rule]]\ndomain = 'b.org'\n\ndelay = -1 # x\n": (6, "delay = -1 cannot be used"),
    OK.replace("1", "inf"): (1, "delay = inf cannot be used: a number of seconds, 0 or more"),
    OK.replace("1", "nan"): (1, "delay = nan"),
    OK.replace("1", "'1'"): (1, "delay = '1'"),
    OK.replace("1", "true"): (1, "delay = True"),
    OK + "timeout = 0\n": (1, "timeout = 0"),
    OK + "max_pages = 1.5\n": (1, "max_pages = 1.5 cannot be used: a whole number"),
    OK + "max_pages = true\n": (1, "max_pages = True"),
    OK + "max_bytes = '1X'\n": (1, "max_bytes = '1X' cannot be used: a number of bytes"),
    OK + "max_size = -1\n": (1, "max_size = -1"),
    OK + "user_agent = 'a\\u000ab'\n".replace("'", '"'): (1, "user_agent"),
    OK + "robots_agent = '*'\n": (1, "robots_agent = '*' cannot be used: a product token"),
    OK + "obey_robots = 1\n": (1, "obey_robots = 1 cannot be used: true or false"),
    OK + "priority = 1.5\n": (1, "priority = 1.5"),
    OK + "priority = 2_000_000\n": (1, "priority = 2000000"),
    OK + "deny = ['(']\n": (1, "'(' is none"),
    OK + "deny = [1]\n": (1, "deny = [1] cannot be used: true, false, or a list of regular"),
    OK + "headers = ['a']\n": (1, "headers cannot be used: a table"),
    OK + "headers = { 'a b' = 'c' }\n": (1, "'a b' is none"),
    OK + "headers = { Host = 'c' }\n": (1, "Host, which the crawler sets itself"),
    OK + "headers = { connection = 'c' }\n": (1, "connection, which the crawler sets"),
    OK + "headers = { User-Agent = 'c' }\n": (1, "use the field user_agent"),
    OK + 'headers = { a = "secret\\nb" }\n': (1, "that of a is none"),
    OK + "auth = 'me:secret'\n": (1, "auth cannot be used: a table with user and password"),
    OK + "auth = { user = 'me' }\n": (1, "a table with user and password"),
    OK + "auth = { bearer = 'secret', scheme = 'ftp' }\n": (1, "a table with user and password"),
    OK + "auth = { bearer = 'secret b' }\n": (1, "a bearer token of letters"),
    OK + "auth = { user = 'a:secret', password = '' }\n": (1, "a user without a colon"),
    OK + "auth = { user = 'a', password = \"secret\\n\" }\n": (1, "texts of one line"),
    "[[rule]]\nhost = 'a.org'\ndomain = 'a.org'\nauth = { bearer = 'secret' }\n": (
        1,
        "auth needs a rule whose targets are host alone",
    ),
    OK + "headers = { a = 'b', A = 'c' }\n": (1, "each header once"),
    OK + "[rule.headers]\nHost = 'c'\n": (1, "Host, which the crawler sets itself"),
    OK.replace("a.org", "http://a.org/"): (1, "host = 'http://a.org/' cannot be used: a host name"),
    OK.replace("a.org", "a.org:80"): (1, "host = 'a.org:80'"),
    OK.replace("a.org", "*.a.org"): (1, "host = '*.a.org'"),
    OK.replace("a.org", ""): (1, "host = ''"),
    OK.replace('"a.org"', "['a', 3]"): (1, "host = 3"),
    OK + "[[rule]]\nhost = 'A.org'\nmax_pages = 1\ndelay = 2\n": (
        4,
        "delay of host a.org is set already: line 1",
    ),
    OK.replace("1", "2\nheaders = {a = 'b'}") + "[[rule]]\nhost = 'a.org'\nheaders = {A = 'c'}\n": (
        5,
        "header a of host a.org is set already: line 1",
    ),
    "rule = [{host = 'a', delay = -1}]\n": (0, "delay = -1 cannot be used"),
    "rule = [{host = 'a', delay = 1}, {host = 'a', delay = 1}]\n": (0, "is set already: rule 1"),
    "x = " + "[" * 3000: (0, "nested too deeply"),
    OK + "max_depth = 1" + "0" * 5000: (0, "4300 digits"),
    OK.replace("1", "1" + "0" * 400): (1, "a number of seconds, 0 or more"),
    OK + "max_pages = 1" + "0" * 18: (1, "0 to 999,999,999,999,999,999"),
}  # fmt: skip


@each_of("text", MISTAKES)
def test_a_mistake_is_one_line_that_says_where_and_why(text: str) -> None:
    line, reason = MISTAKES[text]
    where = f"RULES: rules.toml, line {line}: " if line else "RULES: rules.toml: "
    with pytest.raises(RulesError) as caught:
        parse(text, "rules.toml")
    said = str(caught.value)
    assert said.startswith(where), said
    assert reason in said
    assert "\n" not in said
    assert "secret" not in said


def test_a_login_is_read_for_hosts_and_shown_without_its_secret() -> None:
    text = """[[rule]]
host = ["a.org", "b.org"]
auth = { user = "Aladdin", password = "open sesame" }
[[rule]]
host = "c.org"
auth = { bearer = "abc.~==", scheme = "http" }
"""
    basic, bearer = (rule.values.auth for rule in parse(text, "rules.toml"))
    assert basic == Auth("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", "https")  # RFC 7617, 2
    assert bearer == Auth("Bearer abc.~==", "http")
    assert repr(basic) == "a login for https"


def test_a_line_in_a_text_is_no_rule() -> None:
    text = OK + 'user_agent = """\\\n[[rule]]\\\n"""\npriority = 1.5\n'
    with pytest.raises(RulesError, match=r"rules.toml: priority = 1.5 cannot be used"):
        parse(text, "rules.toml")


def test_the_same_target_may_have_several_rules_with_other_values() -> None:
    text = OK + "[[rule]]\nhost = 'a.org'\npriority = 1\n[[rule]]\ndomain = 'a.org'\ndelay = 2\n"
    assert len(parse(text, "rules.toml")) == 3


def test_a_file_is_read_again_only_if_it_has_changed(tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_text("\ufeff" + OK, "utf-8")
    rules = load(file)
    assert load(file) is rules
    other = tmp_path / "new"
    other.write_text(OK)
    os.replace(other, file)
    assert load(file) is not rules
    file.write_bytes(b"\xff")
    with pytest.raises(RulesError, match="is not UTF-8 text"):
        load(file)
    file.unlink()
    with pytest.raises(RulesError, match="cannot be read: No such file"):
        load(file)


def problems(value: object) -> list[str]:
    return check(of_a_crawl(RULES=value))


def test_a_pipe_or_a_device_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "rules.toml")
    with pytest.raises(RulesError, match="is a pipe: give a file"):
        load(tmp_path / "rules.toml")
    with pytest.raises(RulesError, match="/dev/zero is a device: give a file"):
        load(Path("/dev/zero"))


def test_the_check_before_a_crawl_reads_the_file(tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_text(OK)
    assert problems(f"@{file}") == []
    assert problems("") == []
    file.write_text(OK + "dealy = 1")
    assert problems(f"@{file}") == [
        "RULES: rules.toml, line 1: 'dealy' is unknown, did you mean delay?"
    ]
    (missing,) = problems("@missing.toml")
    assert "missing.toml cannot be read: No such file" in missing
    for value in ("rules.toml", "@", 7):
        (line,) = problems(value)
        assert "@ and the path of a TOML file" in line


def test_many_rules_are_read() -> None:
    text = "".join(f'[[rule]]\nhost = "www.{n}.example"\ndelay = {n % 60}\n' for n in range(20_000))
    assert len(parse(text, "rules.toml")) == 20_000


@each_of(
    ("value", "size"),
    [(0, 0), ("1000", 1000), ("10K", 10**4), ("10 m", 10**7), ("2GB", 2 * 10**9), ("1t", 10**12)]
    + [(each, None) for each in (-1, "", "K", "1.5G", "1KiB", None, 1.5, "1e3", "9" * 30)],
)  # fmt: skip
def test_sizes_have_decimal_units(value: object, size: int | None) -> None:
    assert (SIZE.typed(value) if SIZE.fits(value) else None) == size


def test_the_page_of_the_rules_has_every_field_and_an_example_that_works() -> None:
    page = (ROOT / "docs" / "manners.md").read_text("utf-8")
    for field in FIELDS:
        assert f"\n| `{field}` |" in page
    examples = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    assert examples
    assert all(parse(example, "rules.toml") for example in examples)
