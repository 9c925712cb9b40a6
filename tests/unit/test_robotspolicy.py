"""The meaning of each answer to a request for robots.txt, by section of RFC 9309."""

from __future__ import annotations

from tests.cases import each_of
from webcrawl.admission.robotspolicy import (
    ROBOTS_REDIRECTS_MAX,
    AllowsAll,
    HasRules,
    Redirects,
    RobotsAnswer,
    Unreachable,
    robots_answer,
)

URL = "http://a.test/robots.txt"
MOVED = Redirects("http://b.test/r.txt")
TO_B = b"http://b.test/r.txt"


@each_of(
    ("section", "status", "location", "answer"),
    [
        ("2.3.1.1", 200, b"", HasRules()),
        ("2.3.1.1", 204, b"", HasRules()),
        ("2.3.1.1", 206, b"", HasRules()),
        ("2.3.1.1", 200, TO_B, HasRules()),
        ("2.3.1.2", 301, TO_B, MOVED),
        ("2.3.1.2", 302, TO_B, MOVED),
        ("2.3.1.2", 303, TO_B, MOVED),
        ("2.3.1.2", 307, TO_B, MOVED),
        ("2.3.1.2", 308, TO_B, MOVED),
        ("2.3.1.2", 300, TO_B, MOVED),
        ("2.3.1.2", 302, b"/r", Redirects("http://a.test/r")),
        ("2.3.1.2", 302, b"", AllowsAll("redirects")),
        ("2.3.1.2", 302, b"ftp://b.test/r.txt", AllowsAll("redirects")),
        ("2.3.1.2", 304, b"", AllowsAll("redirects")),
        ("2.3.1.3", 400, b"", AllowsAll("4xx")),
        ("2.3.1.3", 401, b"", AllowsAll("4xx")),
        ("2.3.1.3", 403, b"", AllowsAll("4xx")),
        ("2.3.1.3", 404, TO_B, AllowsAll("4xx")),
        ("2.3.1.3", 429, b"", AllowsAll("4xx")),
        ("2.3.1.3", 499, b"", AllowsAll("4xx")),
        ("2.3.1.4", 500, b"", Unreachable()),
        ("2.3.1.4", 503, TO_B, Unreachable()),
        ("2.3.1.4", 600, b"", Unreachable()),
        ("2.3.1.4", 999, b"", Unreachable()),
    ],
)
def test_answer(section: str, status: int, location: bytes, answer: RobotsAnswer) -> None:
    assert robots_answer(status, location, URL, redirects=0) == answer


def test_five_redirects_are_followed_and_the_sixth_means_no_rules() -> None:
    """2.3.1.2"""
    assert robots_answer(302, TO_B, URL, ROBOTS_REDIRECTS_MAX - 1) == MOVED
    assert robots_answer(302, TO_B, URL, ROBOTS_REDIRECTS_MAX) == AllowsAll("redirects")
