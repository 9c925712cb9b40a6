"""scope.traps and outlinks: URLs that are refused as parts of a crawler trap."""

from __future__ import annotations

from collections import Counter

from tests.cases import each_of
from webcrawl.frontier.lease import Link
from webcrawl.frontier.outlinks import Outlinks
from webcrawl.scope import PathLimits, Scope, is_numbered

DEFAULTS = PathLimits()
HOST = "h.example"


@each_of(
    ("path", "reason"),
    [
        ("/", ""),
        ("/a" * 4, ""),
        ("/a" * 5, "repeated_path"),
        ("/a/b" * 4, ""),
        ("/a/b" * 5, "repeated_path"),
        ("/css/img/css/js/css/img/x/css/css/", "repeated_path"),  # repeats need not be neighbours
        ("/2024/2024/2024/2024/2024/", "repeated_path"),
        ("/" + "/".join("abcdefghijklmnopqrst"), ""),
        ("/" + "/".join("abcdefghijklmnopqrst") + "/", "path_depth"),
        ("/" * 21, "path_depth"),
        ("/" * 20, ""),
        ("/a" * 21, "path_depth"),
        # URLs of real sites.
        ("/2024/01/01/01/", ""),
        ("/1/1/1/1/11110/11110-h/11110-h.htm", ""),  # Project Gutenberg's mirrors
        ("/00/00/00/00/00/07/", ""),
        ("/sympy/sympy/blob/master/sympy/functions/elementary/tests", ""),
        ("/api/org/apache/commons/commons/lang/org/apache/x.html", ""),
        ("/login?next=/a/a/a/a/a/a" + "/b" * 30, ""),  # a query is not part of the path
    ],
)
def test_paths(path: str, reason: str) -> None:
    assert DEFAULTS(f"http://{HOST}{path}", HOST) == reason
    assert PathLimits(0, 0)(f"http://{HOST}{path}", HOST) == ""


def test_each_limit_by_itself() -> None:
    url = f"http://{HOST}{'/a' * 9}"
    assert PathLimits(8, 0)(url, HOST) == "path_depth"
    assert PathLimits(9, 0)(url, HOST) == ""
    assert PathLimits(0, 8)(url, HOST) == "repeated_path"
    assert PathLimits(0, 9)(url, HOST) == ""


@each_of(
    ("target", "numbered"),
    [
        ("/cal/2031/07", True),
        ("/?page=2", True),
        ("/a7", True),
        ("/", False),
        ("/S%C3%A3o%20Paulo", False),
        ("/S%C3%A3o%20Paulo2", True),
        ("/%E3%83%A1%33", False),
    ],
)
def test_digits_of_escapes_do_not_count(target: str, numbered: bool) -> None:
    assert is_numbered(f"http://h1.example:8080{target}") is numbered


class TestSequences:
    def setup_method(self) -> None:
        self.dropped: Counter[str] = Counter()
        self.outlinks = Outlinks(Scope(), self.dropped, sequence_max=5)

    def follow(self, *targets: str, start: str = "/0") -> Link:
        """The link at the end of a walk."""
        link = Link(f"http://{HOST}{start}", HOST)
        for target in targets:
            url = target if "//" in target else f"http://{HOST}{target}"
            (link,) = self.outlinks.of_page([url], link)
        return link

    @each_of(
        ("targets", "sequence"),
        [
            (("/1", "/2", "/3"), 3),
            # The URLs of a calendar change their form, so any numbered page is a step.
            (("/m/2031/07", "/d/2031/07/31", "/m/2031/08", "/?week=32"), 4),
            (("/1", "/2", "/about"), 0),
            (("/1", "/2", "/about", "/3"), 0),
            (("/1", "/2", "http://other.example/3"), 0),
        ],
    )
    def test_numbered_pages_of_a_host_are_steps(
        self, targets: tuple[str, ...], sequence: int
    ) -> None:
        assert self.follow(*targets).sequence == sequence

    def test_a_longer_one_is_refused_and_counted(self) -> None:
        last = self.follow("/1", "/2", "/3", "/4", "/5")
        assert self.outlinks.of_page([f"http://{HOST}/6", f"http://{HOST}/a"], last) == [
            Link(f"http://{HOST}/a", HOST, depth=6, via=last.url)
        ]
        assert self.outlinks.of_redirect(f"http://{HOST}/6", last) is None
        assert self.dropped == {"scope_sequence": 2}

    def test_a_redirect_is_a_step(self) -> None:
        moved = self.outlinks.of_redirect(f"http://{HOST}/2", self.follow("/1"))
        assert moved == Link(f"http://{HOST}/2", HOST, 1, 1, f"http://{HOST}/1", sequence=2)

    def test_no_limit(self) -> None:
        self.outlinks = Outlinks(Scope(), self.dropped)
        assert self.follow(*(f"/{number}" for number in range(1000))).sequence == 0

    def test_a_page_out_of_scope_is_counted_by_its_own_reason(self) -> None:
        self.outlinks = Outlinks(Scope(rules=[DEFAULTS]), self.dropped, sequence_max=1)
        deep = f"http://{HOST}{'/1' * 30}"
        assert self.outlinks.of_page([deep], self.follow("/1")) == []
        assert self.dropped == {"scope_path_depth": 1}
