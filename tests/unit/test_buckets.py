"""buckets: which hub has a host."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.cases import each_of
from webcrawl.frontier.buckets import BUCKETS, bucket_of, hub_of, other_hubs

HOSTS = [f"www.example{n}.co.uk" for n in range(1000)]


@pytest.mark.parametrize("hubs", [1, 2, 3, 8, 256])
def test_each_hub_has_a_row_of_buckets_and_they_differ_by_one_at_most(
    hubs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webcrawl.frontier.buckets.bucket_of", int)
    found = [hub_of(str(bucket), hubs) for bucket in range(BUCKETS)]
    assert found == sorted(found)
    assert all(found[hub * BUCKETS // hubs] == hub for hub in range(hubs))
    sizes = Counter(found).values()
    assert max(sizes) - min(sizes) <= 1


def test_all_hosts_of_a_registered_domain_are_at_one_hub() -> None:
    for domain in ("example.com", "example.co.uk", "xn--bcher-kva.example"):
        hubs = {hub_of(f"{name}.{domain}", 64) for name in ("a", "b.c", "www")}
        assert hubs == {hub_of(domain, 64)}


def test_all_hubs_have_hosts() -> None:
    assert {hub_of(host, 8) for host in HOSTS} == set(range(8))


@each_of(
    ("host", "bucket"),
    [
        ("example.com", 2931),
        ("localhost", 1379),
        ("127.0.0.1", 1676),
        ("[::1]", 3612),
    ],
)
def test_the_bucket_of_a_host_never_changes(host: str, bucket: int) -> None:
    """The folders of a crawl depend on it."""
    assert bucket_of(host) == bucket


def test_a_hub_sees_only_other_hubs() -> None:
    for host in HOSTS[:100]:
        own = hub_of(host, 4)
        seen = [other_hubs(number, 4)(host) for number in range(4)]
        assert seen == [None if number == own else own for number in range(4)]
