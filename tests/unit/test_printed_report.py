"""The printed lines and the options of `scrapy report`, without a crawl."""

import pytest

from tests.cases import each_of
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
