"""The registered domain of a host."""

from __future__ import annotations

from functools import lru_cache

from tldextract import TLDExtract

_extract = TLDExtract(suffix_list_urls=(), cache_dir=None)


@lru_cache(maxsize=100_000)
def registered_domain(host: str) -> str:
    """Registered domain of `host`; an IP literal or a bare label gives itself."""
    return _extract(host).top_domain_under_public_suffix or host
