"""The printed lines and the options of `scrapy report`, without a crawl."""

from argparse import Namespace
from concurrent.futures.process import BrokenProcessPool

import pytest

from tests.cases import each_of
from webcrawl.tools.report import command
from webcrawl.tools.report.command import domain_of
from webcrawl.tools.report.folder import NoCrawlError
from webcrawl.tools.report.printed import LISTED, most_of


def test_the_largest_counts_are_listed_in_their_order_and_the_others_are_summed() -> None:
    counts = [(str(status), 1) for status in range(200, 200 + LISTED)]
    text = most_of([*counts, ("404", 85), ("503", 9)])
    assert text == "200, 201, 202, 203, 204, 205, 404, 503, others: 2"


def test_few_counts_have_no_others() -> None:
    assert most_of([("200", 7), ("404", 1)]) == "200, 404"
    assert not most_of([])


@each_of(
    ("text", "domain"),
    [("", ""), ("TAMU.edu", "tamu.edu"), ("tamu.edu.", "tamu.edu"), ("é.com", "xn--9ca.com")],
)
def test_a_domain_is_a_canonical_host(text: str, domain: str) -> None:
    assert domain_of(text) == domain


@each_of("text", ["not_a_domain!", "http://tamu.edu", "tamu.edu/a", "a b", "."])
def test_another_text_is_no_domain(text: str) -> None:
    with pytest.raises(NoCrawlError, match=r"--in-degree .* is not a domain"):
        domain_of(text)


def test_a_process_that_was_killed_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def killed(*_: object) -> None:
        raise BrokenProcessPool

    monkeypatch.setattr(command, "find_crawls", killed)  # as one that reads WARC files
    report = command.Command()
    report.run(["."], Namespace(hosts=False, json=False, in_degree="", output="", crawl=""))
    assert report.exitcode == 1
    assert capsys.readouterr().err == "a process that read WARC files was ended from outside\n"
