"""buckets: which shard has a host."""

from __future__ import annotations

import pytest

from webcrawl.cluster.buckets import BUCKETS, Buckets, bucket_of

HOSTS = [f"www.example{n}.co.uk" for n in range(1000)]


@pytest.mark.parametrize("shards", [1, 2, 3, 8, 4096])
def test_the_ranges_are_all_buckets_and_differ_by_one_at_most(shards: int) -> None:
    ranges = Buckets(shards).ranges
    assert [bucket for first, end in ranges for bucket in range(first, end)] == [*range(BUCKETS)]
    sizes = {end - first for first, end in ranges}
    assert max(sizes) - min(sizes) <= 1


def test_all_hosts_of_a_registered_domain_are_in_one_shard() -> None:
    buckets = Buckets(64)
    for domain in ("example.com", "example.co.uk", "xn--bcher-kva.example"):
        shards = {buckets.shard_of(f"{name}.{domain}") for name in ("a", "b.c", "www")}
        assert shards == {buckets.shard_of(domain)}


def test_the_shard_of_a_host_is_that_of_its_bucket_and_all_shards_have_hosts() -> None:
    buckets = Buckets(8)
    for host in HOSTS:
        first, end = buckets.ranges[buckets.shard_of(host)]
        assert first <= bucket_of(host) < end
    assert {buckets.shard_of(host) for host in HOSTS} == set(range(8))


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


def test_a_shard_sees_only_other_shards() -> None:
    buckets = Buckets(4)
    for shard in range(4):
        abroad = buckets.abroad(shard)
        for host in HOSTS[:100]:
            of_host = buckets.shard_of(host)
            assert abroad.shard_of(host) == (None if of_host == shard else of_host)


@pytest.mark.parametrize("shards", [0, -1, 4097])
def test_a_number_of_shards_without_buckets_is_refused(shards: int) -> None:
    with pytest.raises(ValueError, match="allowed are 1 to 4096"):
        Buckets(shards)
