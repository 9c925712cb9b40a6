"""WARC-Protocol and WARC-Cipher-Suite: extensions of WARC 1.1 that the IIPC has adopted
(iipc/warc-specifications, issues 42 and 86), as Browsertrix, Nutch and Wget-AT write them.

One WARC-Protocol for each layer. A suite has its name in IANA's registry, not that of OpenSSL.
"""

from __future__ import annotations

import re
from functools import lru_cache

from webcrawl.fetch.exchange import Tls

_VERSIONS = {"TLSv1": "1.0", "TLSv1.1": "1.1", "TLSv1.2": "1.2", "TLSv1.3": "1.3"}
_SUITE = re.compile(
    r"(?:(ECDHE-ECDSA|ECDHE-RSA|DHE-RSA)-)?(?:AES(128|256)-(GCM-)?(SHA\d*)|CHACHA20-POLY1305)"
)


def protocol_fields(http_version: str, tls: Tls | None) -> tuple[tuple[str, str], ...]:
    """The fields of a record of an answer over HTTP `http_version` ("1.1")."""
    plain = (("WARC-Protocol", f"http/{http_version}"),)
    return plain if tls is None else plain + _tls_fields(tls.version, tls.cipher)


@lru_cache(64)
def _tls_fields(version: str, cipher: str) -> tuple[tuple[str, str], ...]:
    fields = (
        ("WARC-Protocol", f"tls/{_VERSIONS[version]}" if version in _VERSIONS else ""),
        ("WARC-Cipher-Suite", suite_name(cipher)),
    )
    return tuple(field for field in fields if field[1])


def suite_name(cipher: str) -> str:
    """IANA's name of a cipher suite, of OpenSSL's (RFC 5246 and later; those of TLS 1.3 are equal).

    "" for a suite that a public server does not choose: with a shared key (PSK, SRP), for example.
    """
    if cipher.startswith("TLS_"):
        return cipher
    found = _SUITE.fullmatch(cipher)
    if found is None:
        return ""
    exchange, bits, gcm, digest = found.groups()
    how = f"TLS_{(exchange or 'RSA').replace('-', '_')}_WITH_"
    if bits is None:
        return f"{how}CHACHA20_POLY1305_SHA256"
    return f"{how}AES_{bits}_{'GCM' if gcm else 'CBC'}_{digest}"
