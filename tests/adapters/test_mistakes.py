"""A mistake of the user is one line on standard error and exit code 2, with every command."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.conftest import Scrapy

SEEDS = ("-a", "seeds=ufmg.br")
BROAD = ("crawl", "broad", *SEEDS)
PAGE = "http://127.0.0.1:8/"
LEVELS = "CRITICAL, ERROR, WARNING, INFO or DEBUG"
NAME = "SCOPE_SUFFIX is not a setting; did you mean SCOPE_SUFFIXES?"
VALUE = "DOWNLOAD_DELAY = 'soon' cannot be used: a number of seconds"

MISTAKES: list[tuple[tuple[str, ...], str]] = [
    ((*BROAD, "-s", "SCOPE_SUFFIX=.br"), NAME),
    ((*BROAD, "-s", "DOWNLOAD_DELAY=soon"), VALUE),
    ((*BROAD, "-s", "SCOPE_DENY=(("), "SCOPE_DENY = '((' cannot be used: not a host, and not"),
    (
        (*BROAD, "-s", "REPORT_DIR=README.md/w"),
        "cannot be used: a folder that can be written",
    ),
    (("crawl", "broad", "-a", "seed=x"), "-a seed= is not an argument; did you mean -a seeds=?"),
    ((*BROAD, "-a", "SCOPE_SUFFIXES=.br"), "SCOPE_SUFFIXES is a setting, not an argument: -s SC"),
    (("crawl", "broad", "-s", "seeds=x"), "seeds is an argument, not a setting: -a seeds="),
    (("crawl", "brod", *SEEDS), "there is no spider 'brod'; did you mean broad?"),
    ((*BROAD, "-s", os.fsdecode(b"REPORT_DIR=w\xe4")), "that can be written, in UTF-8"),
    ((*BROAD, "-s", os.fsdecode(b"SCOPE_DENY=\xe4")), r"SCOPE_DENY = '\udce4' cannot be used: "),
    (
        ("botpage", "-s", os.fsdecode(b"WARC_OPERATOR=\xe4")),
        "cannot be used: one line of text, in UTF-8",
    ),
    (("crawl", "nosuch", *SEEDS), "there is no spider 'nosuch'; there are broad"),
    # Scrapy reads these settings before the check
    ((*BROAD, "-s", "LOG_LEVEL=LOUD"), f"LOG_LEVEL = 'LOUD' cannot be used: {LEVELS}"),
    ((*BROAD, "-s", "LOG_FILE=no/log"), "LOG_FILE = 'no/log' cannot be used: a file that can be"),
    ((*BROAD, "-s", "ASYNCIO_EVENT_LOOP=no.Loop"), "ASYNCIO_EVENT_LOOP = 'no.Loop' cannot be used"),
    ((*BROAD, "-s", "LANGUAGES=english"), "LANGUAGES = 'english' cannot be used: codes of ISO 639"),
    ((*BROAD, "-s", "LANGUAGE_MODEL=no"), "LANGUAGE_MODEL = 'no' cannot be used: empty, or the"),
    (("fetch", PAGE, "-s", "SCOPE_SUFFIX=.br"), NAME),
    (("view", PAGE, "-s", "SCOPE_SUFFIX=.br"), NAME),
    (("parse", "--spider=broad", PAGE, "-s", "DOWNLOAD_DELAY=soon"), VALUE),
    (("shell", PAGE, "-s", "DOWNLOAD_DELAY=soon"), VALUE),
    (("trace", PAGE, "-s", "DOWNLOAD_DELAY=soon"), VALUE),
    (("trace", PAGE, "-s", "USER_AGENTS=x"), "USER_AGENTS is not a setting; did you mean "),
    (("report", "/none"), "/none is not a folder"),
    (("top", "/none"), "/none is not a folder"),
    (("explain", "/none", PAGE), "/none is not a folder"),
    (("frontier", "/none"), "/none is not a folder"),
    (("ctl", "/none", "status"), "/none is not a folder"),
    (("report", ".", "--crawl", "1"), ". has no crawl log: no crawl-1-*.jsonl"),
    (("report", ".", "--in-degree", "a/b"), "--in-degree a/b is not a domain"),
    (("report", "s3://b/p"), "of a store: give -o FOLDER"),
    (("warcrecover", "/none"), "/none is not a folder"),
    (("wacz", "/none", "-o", "x.wacz"), "/none does not exist"),
    (("wacz", "docs", "-o", "x.wacz"), "docs has no files *.warc.gz"),
    (("wacz", "README.md", "-o", "x.wacz"), "README.md is no file *.warc.gz"),
    (("corpus", "/none.warc.gz", "-o", "x"), "/none.warc.gz: No such file or directory"),
    (("corpus", "file:///none", "-o", "x"), "file:///none: the folder is not there"),
    (("wacz", "file:///none", "-o", "x.wacz"), "file:///none: the folder is not there"),
    (("corpus", "x", "-o", "x", "-s", "LANGUAGE_MODEL=README.md"), "; it cannot be loaded"),
]


@pytest.mark.parametrize(
    ("arguments", "line"), MISTAKES, ids=[" ".join(each) for each, _ in MISTAKES]
)
def test_a_mistake_is_one_line(scrapy: Scrapy, arguments: tuple[str, ...], line: str) -> None:
    command, *others = arguments
    done = scrapy(command, "-s", "LOG_LEVEL=WARNING", *others)
    assert (done.returncode, done.stdout) == (2, "")
    (said,) = done.stderr.splitlines()
    assert line in said


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("crawl broad seeds.txt", "['broad', 'seeds.txt'] is not one spider and known options;"),
        ("trace", "give one or more URLs"),
        ("report", "give one folder"),
        ("top", "give one JOBDIR"),
        ("top a b", "give one JOBDIR"),
        ("top a --twice", "there is no option --twice"),
        ("warccheck", "give one or more WARC files"),
        ("warcrecover", "give the folder of the WARC files"),
        ("wacz", "give WARC files, or their folder"),
        ("wacz docs -o crawl.zip", "give a file to write that ends in .wacz"),
        ("wacz docs -o crawl.wacz --max-size big", "--max-size big: give a number of bytes"),
        ("corpus", "give WARC files, or their folder, and -o DIR"),
    ],
)
def test_a_call_with_wrong_arguments_is_refused(scrapy: Scrapy, command: str, line: str) -> None:
    done = scrapy(*command.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert line in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("command", "code", "line"),
    [
        ("corpus {folder} -o corpus", 2, r"\udce4.warc.gz: DuckDB opens no file whose path is not"),
        ("corpus {file} -o {folder}", 2, r"\udce4: DuckDB opens no file whose path is not"),
        ("wacz {folder} -o x.wacz", 2, r"\udce4.warc.gz: a file in a WACZ has a name in UTF-8"),
        ("warccheck {folder}/\udce4.warc.gz", 1, r"\udce4.warc.gz: 0: no record"),
        ("warcrecover {folder}", 0, r"\udce4 has no files of a killed crawl"),
        ("hub begin {file} --number 1", 1, "x.warc.gz: Not a directory"),
    ],
)
def test_a_path_that_cannot_be_used_or_printed_is_one_line(
    scrapy: Scrapy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    code: int,
    line: str,
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "utf-8:strict")  # as in all locales but C
    folder, file = tmp_path / "\udce4", tmp_path / "x.warc.gz"
    folder.mkdir()
    for each in (folder / "\udce4.warc.gz", file):
        each.touch()
    words = [each.format(folder=folder, file=file) for each in command.split()]
    done = scrapy(*words)
    (said,) = (done.stdout + done.stderr).splitlines()
    assert (done.returncode, line in said) == (code, True), said


SPIDERS = {
    "a broad one": ("from webcrawl.spiders.broad import BroadSpider as Base", "JOB_DIR"),
    "with our scheduler": ("from scrapy import Spider as Base", "DOWNLOAD_DELYA"),
}


@pytest.mark.parametrize(("base", "setting"), SPIDERS.values(), ids=SPIDERS)
def test_settings_of_a_spiders_file_are_checked(
    scrapy: Scrapy, tmp_path: Path, base: str, setting: str
) -> None:
    file = tmp_path / "theirs.py"
    own = f"    name = 'theirs'\n    custom_settings = {{'{setting}': 1}}\n"
    file.write_text(f"{base}\n\nclass Theirs(Base):\n{own}")
    done = scrapy("runspider", str(file), *SEEDS, "-s", "LOG_LEVEL=WARNING")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"{setting} is not a setting; did you mean ")
    file.write_text(file.read_text().replace(f"{{'{setting}': 1}}", "{'DOWNLOAD_DELAY': -1}"))
    done = scrapy("runspider", str(file), *SEEDS, "-s", "LOG_LEVEL=WARNING")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("DOWNLOAD_DELAY = -1 cannot be used: ")
