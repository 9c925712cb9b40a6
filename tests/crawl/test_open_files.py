"""Crawls with a low limit of open files, which is not a failure of any host."""

from __future__ import annotations

from pathlib import Path

from tests.crawl.crawling import Crawl, assert_clean, assert_faultless, crawl
from tests.forked import running

WEB = (
    *("--hosts=200", "--seeds=200", "--pages-per-host=2", "--host-delay=0.1"),
    "--features=page-plain,robots-allow-all,host-plain,dns-a,origin-http,link-plain",
)


GREEDY = """
from scrapy.cmdline import execute
from webcrawl.commands import preflight

preflight.fit_open_files = lambda settings: None
execute()
"""


def limited(files: int) -> tuple[str, ...]:
    """A command that runs another command with at most `files` open files."""
    return ("sh", "-c", f'ulimit -Sn {files} && ulimit -Hn {files} && exec "$@"', "sh")


def test_too_few_open_files_are_no_failure_of_a_host(tmp_path: Path) -> None:
    with running(*WEB) as web:
        result = crawl(tmp_path, web=web, within=limited(128))
        assert_faultless(web)
    assert_clean(result)
    assert "CONCURRENT_REQUESTS is" in result.log
    counts = result.report["counts"]
    assert not [name for name in counts if name.startswith(("dropped/", "failed/"))], counts


def test_running_out_of_files_loses_no_page(tmp_path: Path) -> None:
    """A program that skips the check before the crawl needs more files than the limit."""
    (tmp_path / "greedy.py").write_text(GREEDY)
    with running(*WEB) as web:
        web.hold(1)  # so its connections stay open until there are too many
        within = ("env", f"PYTHONPATH={tmp_path}", *limited(128))
        greedy = Crawl(tmp_path, web=web, within=within, program=("greedy",))
        greedy.until("No socket left")
        web.release()
        result = greedy.wait()
        assert_faultless(web)
    assert_clean(result)
    counts = result.report["counts"]
    assert not [name for name in counts if name.startswith(("dropped/", "failed/"))], counts


def test_a_low_limit_of_open_files_is_refused(tmp_path: Path) -> None:
    result = crawl(tmp_path, "http://a.test/", within=limited(70))
    assert result.exit_code == 2
    assert result.log.splitlines()[-1].startswith("only 70 open files are allowed (ulimit -n): ")
