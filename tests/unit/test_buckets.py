"""buckets: which hub has a host."""

from __future__ import annotations

import pytest

from webcrawl.cluster.buckets import BUCKETS, Buckets, bucket_of

HOSTS = [f"www.example{n}.co.uk" for n in range(1000)]


@pytest.mark.parametrize("hubs", [1, 2, 3, 8, 256])
def test_the_ranges_are_all_buckets_and_differ_by_one_at_most(hubs: int) -> None:
    ranges = Buckets(hubs).ranges
    assert [bucket for first, end in ranges for bucket in range(first, end)] == [*range(BUCKETS)]
    sizes = {end - first for first, end in ranges}
    assert max(sizes) - min(sizes) <= 1


def test_all_hosts_of_a_registered_domain_are_at_one_hub() -> None:
    buckets = Buckets(64)
    for domain in ("example.com", "example.co.uk", "xn--bcher-kva.example"):
        hubs = {buckets.hub_of(f"{name}.{domain}") for name in ("a", "b.c", "www")}
        assert hubs == {buckets.hub_of(domain)}


def test_the_hub_of_a_host_is_that_of_its_bucket_and_all_hubs_have_hosts() -> None:
    buckets = Buckets(8)
    for host in HOSTS:
        first, end = buckets.ranges[buckets.hub_of(host)]
        assert first <= bucket_of(host) < end
    assert {buckets.hub_of(host) for host in HOSTS} == set(range(8))


@pytest.mark.parametrize(
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
    buckets = Buckets(4)
    for hub in range(4):
        abroad = buckets.abroad(hub)
        for host in HOSTS[:100]:
            of_host = buckets.hub_of(host)
            assert abroad.hub_of(host) == (None if of_host == hub else of_host)


@pytest.mark.parametrize("hubs", [0, -1, 257])
def test_a_number_of_hubs_without_buckets_is_refused(hubs: int) -> None:
    with pytest.raises(ValueError, match="allowed are 1 to 256"):
        Buckets(hubs)
