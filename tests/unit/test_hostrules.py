"""hostrules: which rule decides on a host, value by value, against a naive matcher."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.cases import each_of
from webcrawl.scope.hostrules import CACHED_HOSTS, NO_VALUES, HostRule, HostRules, Source, Values


def rule(line: int = 1, values: dict[str, Any] | None = None, **targets: str) -> HostRule:
    """A rule with one target per kind: `rule(1, {...}, host="a")`."""
    kinds = {"host": "hosts", "domain": "domains", "suffix": "suffixes"}
    made: dict[str, Any] = {kinds[kind]: (name,) for kind, name in targets.items()}
    return HostRule(line=line, values=Values(**values or {"delay_s": 1.0}), **made)


@each_of(
    ("targets", "matching", "others"),
    [
        ({"host": "x.org"}, ["x.org"], ["www.x.org", "org", "ax.org"]),
        ({"domain": "x.org"}, ["x.org", "www.x.org", "a.b.x.org"], ["ax.org", "org", "x.org.br"]),
        ({"suffix": "gov.br"}, ["gov.br", "a.gov.br", "b.a.gov.br"], ["agov.br", "br"]),
        ({"host": "127.0.0.1"}, ["127.0.0.1"], ["127.0.0.2"]),
        ({"host": "::1"}, ["::1"], ["::2"]),
    ],
)
def test_a_rule_is_for_whole_labels(
    targets: dict[str, str], matching: list[str], others: list[str]
) -> None:
    rules = HostRules([rule(**targets)])
    assert [rules.of(host).delay_s for host in matching] == [1.0] * len(matching)
    assert [rules.of(host) for host in others] == [NO_VALUES] * len(others)


def test_the_most_specific_rule_decides_on_each_value() -> None:
    rules = HostRules(
        [
            rule(1, {"delay_s": 1.0, "max_pages": 1, "priority": 1, "max_depth": 1}, suffix="org"),
            rule(2, {"delay_s": 2.0, "max_pages": 2, "priority": 2}, suffix="x.org"),
            rule(3, {"delay_s": 3.0, "max_pages": 3}, domain="org"),
            rule(4, {"delay_s": 4.0}, host="x.org"),
        ]
    )
    assert rules.of("x.org") == Values(delay_s=4.0, max_pages=3, priority=2, max_depth=1)
    assert rules.sources("x.org") == {
        "delay_s": Source(4, "host x.org"),
        "max_pages": Source(3, "domain org"),
        "priority": Source(2, "suffix x.org"),
        "max_depth": Source(1, "suffix org"),
    }


def test_each_header_is_a_value_of_its_own() -> None:
    domain = {"headers": (("Accept-Language", "pt"), ("X-Project", "a"))}
    rules = HostRules(
        [rule(1, domain, domain="org"), rule(2, {"headers": (("x-project", "b"),)}, host="x.org")]
    )
    assert rules.of("x.org").headers == (("x-project", "b"), ("Accept-Language", "pt"))
    assert rules.sources("x.org")["header x-project"] == Source(2, "host x.org")


def test_a_user_agent_is_also_the_name_in_robots_txt_unless_a_rule_gives_one() -> None:
    rules = HostRules(
        [
            rule(1, {"user_agent": "Other/2.0 (+https://x.org)"}, domain="x.org"),
            rule(2, {"robots_agent": "third"}, host="a.x.org"),
        ]
    )
    assert rules.of("x.org").robots_agent == "other"
    assert rules.of("a.x.org").robots_agent == "third"


def test_a_more_specific_rule_may_lift_a_denial_and_a_limit() -> None:
    rules = HostRules(
        [
            rule(1, {"deny": True, "max_pages": 5}, domain="org"),
            rule(2, {"deny": False, "max_pages": 0}, host="x.org"),
            rule(3, {"deny": (r"\?page=", r"/login$")}, domain="y.org"),
        ]
    )
    assert rules.of("org").denies("http://org/")
    assert not rules.of("x.org").denies("http://x.org/")
    assert rules.of("x.org").max_pages == 0
    paths = {"/": False, "/?page=2": True, "/login": True, "/login/": False}
    assert {path: rules.of("y.org").denies("http://y.org" + path) for path in paths} == paths
    assert not rules.of("y.org").denies_all


def test_new_rules_hold_at_once_also_for_cached_hosts() -> None:
    rules = HostRules([rule(host="x.org")])
    assert rules.of("x.org").delay_s == 1.0
    rules.replace([rule(1, {"delay_s": 2.0}, domain="org")])
    assert rules.of("x.org").delay_s == 2.0
    rules.replace([])
    assert rules.of("x.org") is NO_VALUES


def test_hostile_names_and_many_hosts_are_bounded() -> None:
    rules = HostRules([rule(domain="org"), rule(suffix="br")])
    assert rules.of("a." * 100_000 + "org").delay_s == 1.0
    assert rules.of("." * 1000) is NO_VALUES
    assert rules.of("") is NO_VALUES
    for number in range(CACHED_HOSTS + 100):
        rules.of(f"{number}.org")
    assert rules.of.cache_info().currsize == CACHED_HOSTS  # type: ignore[attr-defined]


LABELS = st.lists(st.sampled_from(["a", "b", "ab"]), min_size=1, max_size=4).map(".".join)
RULES = st.lists(
    st.builds(
        lambda kind, name, delay, n: rule(1, {"delay_s": delay, "max_pages": n}, **{kind: name}),
        st.sampled_from(["host", "domain", "suffix"]),
        LABELS,
        st.none() | st.floats(0, 9),
        st.none() | st.integers(0, 9),
    ),
    max_size=8,
)  # fmt: skip


def naive(rules: list[HostRule], host: str, name: str) -> Any:
    """The value `name` for `host`, by the definition: every rule is tried."""
    found = []
    for rule_ in rules:
        value = getattr(rule_.values, name)
        targets = ((2, rule_.hosts), (1, rule_.domains), (0, rule_.suffixes))
        for rank, names in targets:
            for target in names:
                under = host == target or (rank < 2 and host.endswith("." + target))
                if under and value is not None:
                    found.append((rank, len(target), value))
    best = max((each[:2] for each in found), default=None)
    return next((value for *place, value in found if tuple(place) == best), None)


@given(RULES, LABELS)
def test_as_a_naive_matcher(rules: list[HostRule], host: str) -> None:
    values = HostRules(rules).of(host)
    for name in ("delay_s", "max_pages"):
        assert getattr(values, name) == naive(rules, host, name)
