"""Crawls with few open files: that is our limit, not the hosts' fault."""

from __future__ import annotations

from pathlib import Path

from simweb import running
from tests.crawl.crawling import assert_clean, assert_faultless, crawl

WEB = (
    *("--hosts=300", "--seeds=300", "--pages-per-host=2", "--host-delay=0.1"),
    "--features=page-plain,robots-allow-all,host-plain,dns-a,origin-http,link-plain",
)


GREEDY = """
from scrapy.cmdline import execute
from webcrawl.commands import preflight

preflight.fit_open_files = lambda settings: None
execute()
"""


def limited(files: int) -> tuple[str, ...]:
    """A command that runs another one with so many open files at the most."""
    return ("sh", "-c", f'ulimit -Sn {files} && ulimit -Hn {files} && exec "$@"', "sh")


def test_no_host_is_blamed_for_too_few_files(tmp_path: Path) -> None:
    with running(*WEB) as web:
        result = crawl(tmp_path, web=web, within=limited(128), KEEP_ALIVE=0)
        assert_faultless(web)
    assert_clean(result)
    assert result.exit_code == 0, result.log[-3000:]
    assert "CONCURRENT_REQUESTS is" in result.log
    counts = result.report["counts"]
    assert not [name for name in counts if name.startswith(("dropped/", "failed/"))], counts


def test_files_that_run_out_cost_no_page(tmp_path: Path) -> None:
    """A program that skips the check before a crawl asks for more than there is."""
    (tmp_path / "greedy.py").write_text(GREEDY)
    with running(*WEB) as web:
        result = crawl(
            tmp_path,
            web=web,
            within=("env", f"PYTHONPATH={tmp_path}", *limited(128)),
            program=("greedy",),
            KEEP_ALIVE=0,
        )
        assert_faultless(web)
    assert_clean(result)
    assert "No socket left" in result.log
    counts = result.report["counts"]
    assert not [name for name in counts if name.startswith(("dropped/", "failed/"))], counts


def test_a_limit_that_is_too_low_is_refused(tmp_path: Path) -> None:
    result = crawl(tmp_path, "http://a.test/", within=limited(70))
    assert result.exit_code == 2
    assert result.log.splitlines()[-1].startswith("only 70 open files are allowed (ulimit -n): ")
