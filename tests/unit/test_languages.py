"""The share of wanted pages of each host, and which pages are looked at."""

from __future__ import annotations

from tests.cases import each_of
from webcrawl.frontier.disk.store import Store
from webcrawl.frontier.languages import EVERY, FIRST, HostLanguages
from webcrawl.frontier.lease import Fetched, Link
from webcrawl.frontier.orderings import Language

WANTED = frozenset({"por"})


def page(declared: str = "", text: str = "") -> Fetched:
    return Fetched(200, 1.0, 1.0, declared_language=declared, detected_language=text)


class Host:
    """One host, whose pages are looked at when its share asks for it."""

    def __init__(self) -> None:
        self.languages = HostLanguages({})
        self.looks = ""  # "x" for each page that was looked at, "-" for any other

    def fetch(self, count: int, text: str, declared: str = "") -> float:
        for _ in range(count):
            is_sampled = self.languages.is_sampled("a")
            self.looks += "x" if is_sampled else "-"
            found = page(declared, text if is_sampled else "")
            self.languages.fetched("a", found, WANTED)
        return self.languages.share("a")


def test_the_first_pages_are_looked_at_and_then_one_in_so_many() -> None:
    host = Host()
    host.fetch(FIRST + 2 * EVERY + 1, "por")
    assert host.looks == "x" * FIRST + 2 * ("-" * (EVERY - 1) + "x") + "-"


def test_a_page_without_text_puts_a_look_off_only_if_it_was_looked_at() -> None:
    host = Host()
    host.languages.fetched("a", page(), WANTED)  # a redirect, say
    assert host.languages.is_sampled("a")
    assert host.fetch(FIRST, "und") < 0.2
    assert not host.languages.is_sampled("a")


@each_of(
    ("text", "declared", "is_mostly"),
    [("por", "", True), ("eng", "", False), ("por", "en", True), ("eng", "pt-br", False)],
)
def test_the_text_decides(text: str, declared: str, is_mostly: bool) -> None:
    assert (Host().fetch(40, text, declared) > 0.5) is is_mostly


def test_what_pages_declare_counts_where_it_was_right() -> None:
    host = Host()
    assert host.fetch(FIRST, "eng", "en") < 0.2
    assert host.fetch(EVERY - 1, "por", "pt-br") > 0.5  # none of these was looked at
    liar = Host()
    assert liar.fetch(FIRST, "eng", "pt") == liar.fetch(EVERY - 1, "eng", "pt") < 0.2


def test_a_host_that_turns_is_found_out_also_if_it_declares_nothing() -> None:
    host = Host()
    assert host.fetch(100, "por") == 1.0
    assert host.fetch(5 * EVERY, "eng") < 0.5
    assert host.fetch(9 * EVERY, "por") > 0.5


class Crawl:
    """Fetches the pages of hosts one by one, in the order of their turns."""

    def __init__(self, store: Store) -> None:
        self.store, self.order = store, Language()
        self.order.open(store)
        self.hosts: dict[str, str] = {}  # and their languages

    def add(self, *hosts: str, text: str) -> None:
        for host in hosts:
            self.hosts[host] = text
            self.order.enter(_link(host), 1, None)

    def fetch(self, count: int) -> list[str]:
        fetched = []
        for _ in range(count):
            host = min(self.hosts, key=lambda host: self.order.rank(host, 1))
            self.store.languages.fetched(host, page(text=self.hosts[host]), WANTED)
            self.order.visited(host)
            fetched.append(host)
        return fetched


def _link(host: str) -> Link:
    return Link(f"http://{host}/", host)


def test_new_hosts_take_turns_with_wanted_ones_and_others_are_asked_seldom() -> None:
    crawl = Crawl(Store(None))
    crawl.add("a", text="por")
    assert crawl.fetch(100) == ["a"] * 100
    crawl.add(*(f"new-{n}" for n in range(50)), text="eng")
    fetched = crawl.fetch(102)
    new = [host for host in fetched if host != "a"]
    assert new == [f"new-{n}" for n in range(50)], "each in its turn, none twice"
    assert "a" in fetched[:3], "and none of them all at once"
    assert 900 < crawl.fetch(1000).count("a") < 1000


def test_turns_are_kept_from_run_to_run() -> None:
    crawl = Crawl(Store(None))
    crawl.add("a", text="por")
    crawl.add("b", "c", text="eng")
    crawl.fetch(20)
    crawl.store.numbers = {"ordering": crawl.order.numbers()}
    again = Crawl(crawl.store)
    again.hosts = crawl.hosts
    assert crawl.order.numbers() == again.order.numbers()
    again.add("d", text="por")  # behind the others, as in the run before
    assert again.order.rank("d", 1) == crawl.order._pages + 2
