"""Orderings that keep state. Of opic: where cash goes.

tests/contracts test the order of leases, and tests/properties/test_opic.py whole crawls by opic.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from webcrawl.frontier.disk.store import Store
from webcrawl.frontier.lease import FIRST_PRIORITY, Link
from webcrawl.frontier.orderings import TAX, Opic
from webcrawl.frontier.store import Credit

SEED = Link("http://seed/", "seed")


class Cash:
    """An opic ordering, and the credits of its URLs."""

    def __init__(self) -> None:
        self.store = Store(None)
        self.by_url: dict[str, Credit] = {}
        self.known: set[str] = set()
        self.number = 0
        self.order = Opic()
        self.order.open(self.store)
        self.order._credits = self.by_url  # type: ignore[assignment]

    def enter(self, link: Link, cash: float | None = None) -> int:
        self.known.add(link.url)
        self.number += 1
        return self.order.enter(link, self.number, cash)

    def fetch(self, page: Link, *names: str) -> float:
        """Fetch `page`, which links to the pages of these names; the known ones are paid."""
        links, cash = self.order.spend(page, [named(name) for name in names])
        assert cash is not None
        for link in links:
            if link.url in self.known:
                self.order.pay(link, cash)
            else:
                self.enter(link, cash)
        self.order.audit()
        return cash

    def received(self, link: Link) -> float:
        credit = self.by_url.get(link.url)
        assert credit is not None
        return credit[0]


def named(name: str) -> Link:
    return Link(f"http://{name}/", name, depth=1)


@pytest.fixture
def cash() -> Cash:
    return Cash()


def test_a_page_gives_equal_shares_to_its_distinct_links(cash: Cash) -> None:
    cash.enter(SEED)
    assert cash.fetch(SEED, "a", "b", "a", "c") == pytest.approx((1 - TAX) / 3)
    assert cash.received(named("a")) == cash.received(named("c")) == pytest.approx(0.3)


def test_a_known_url_gathers_cash_and_moves(cash: Cash) -> None:
    cash.enter(SEED)
    cash.fetch(SEED, "a", "b", "c")
    move = cash.order.pay(named("b"), 0.3)
    assert move is not None
    priority, number, better = move
    assert (number, priority - better) == (3, 1)  # its cash has doubled
    assert cash.order.pay(named("b"), 1e-3) is None  # too little for another


def test_the_tax_and_untaken_shares_go_to_all_urls_at_the_next_fetch(cash: Cash) -> None:
    cash.enter(SEED)
    cash.fetch(SEED, "a", "b", "seed")  # the last was fetched: its third stays with all
    spent = cash.fetch(named("a"), "x")
    gift = (0.1 + 0.3) / 2
    assert spent == pytest.approx(0.9 * (0.3 + gift))
    cash.order.spend(SEED, ())
    assert cash.fetch(named("b"), "y") > 0.9 * (0.3 + gift)


def test_gifts_do_not_change_the_order(cash: Cash) -> None:
    first = cash.enter(SEED)
    for _ in range(20):
        cash.enter(named("a"))
        cash.order.forfeit(named("a"))
        cash.order.spend(named("a"), ())
    assert cash.enter(replace(SEED, retries=1)) == first


def test_cash_ends_before_numbers_do(cash: Cash) -> None:
    """A chain of pages with less and less cash: no page comes earlier than the one before."""
    cash.enter(SEED)
    page, priorities = SEED, []
    for n in range(5000):
        share = cash.order.spend(page, [named(str(i)) for i in range(50)])[1]
        page = named(f"page-{n}")
        priorities.append(cash.enter(page, share))
        cash.enter(named(f"rest-{n}"), 0.0)  # so that gifts are small
    cash.order.audit()
    assert max(priorities) < 1 << 16
    assert cash.order.enter(named("poor"), 1, 0.0) >= max(priorities)
    assert cash.order.enter(named("poorer"), 2, 5e-324) >= max(priorities)


def test_no_cash_gives_the_priority_of_a_visit(cash: Cash) -> None:
    assert cash.order.enter(named("rich"), 1, 2.0**40) > FIRST_PRIORITY
