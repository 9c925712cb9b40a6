"""The registered domain of a host, by the Public Suffix List.

Deviation: only the ICANN section of the list. The private section (`github.io`, `blogspot.com`)
names domains whose hosts are run by one party on few machines: caps and fairness treat them as one
domain. The list is the one that tldextract ships: nothing here uses the network.
"""

from __future__ import annotations

from functools import lru_cache

from tldextract import TLDExtract

CACHED_HOSTS = 100_000  # about 20 MB

_extract = TLDExtract(cache_dir=None, suffix_list_urls=(), include_psl_private_domains=False)


def is_address(host: str) -> bool:
    """Whether `host` is an IP address: no top-level domain is all digits (RFC 3696, 2)."""
    return ":" in host or host[-1:].isdigit()


@lru_cache(maxsize=CACHED_HOSTS)
def registered_domain(host: str) -> str:
    """Registered domain of a canonical `host`; `host` itself if it has none (an address,
    `localhost`, a public suffix). 0.1 µs when cached, else 3 µs.
    """
    return domain_and_suffix(host)[0]


def domain_and_suffix(host: str) -> tuple[str, str]:
    """Registered domain of a canonical `host`, and public suffix, such as "com.br".

    The suffix of an address and of a name without a dot is "". Not cached: 3 µs.
    """
    parts = _extract(host)
    if parts.suffix or is_address(host):
        return parts.top_domain_under_public_suffix or host, parts.suffix
    # An unlisted top-level domain is a public suffix (publicsuffix.org/list: "the rule is *").
    labels = host.split(".")[-2:]
    return ".".join(labels), labels[1] if len(labels) > 1 else ""
