"""TLS for an archive: connects with any certificate, then records the problems of the certificate.

Owns the TLS contexts and the verdict on a certificate. The handshake verifies nothing: an old
protocol, a weak cipher or a bad certificate is recorded with the page, and the page is kept.
"""

from __future__ import annotations

import hashlib
import ipaddress
import ssl
import warnings
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import certifi
from cryptography import x509
from cryptography.utils import CryptographyDeprecationWarning
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from webcrawl.fetch.exchange import Tls

MAX_VERDICTS = 20_000  # certificates remembered, about 300 bytes each
MAX_CHAIN = 10  # Deviation: certificates read beside the leaf; public chains have one to three

_OP_LEGACY_SERVER_CONNECT = 0x4  # ssl's name for it came with Python 3.12


def client_context(verify: bool = False) -> ssl.SSLContext:
    """A context for TLS 1.0 and later, old ciphers and old renegotiation (RFC 5746, 4.1).

    With `verify` a bad certificate ends the handshake: DOWNLOAD_VERIFY_CERTIFICATES.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if verify:
        context.load_default_certs()
    else:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    context.options |= _OP_LEGACY_SERVER_CONNECT | ssl.OP_IGNORE_UNEXPECTED_EOF
    context.set_alpn_protocols(["http/1.1"])
    return context


class CertificateJudge:
    """Names the problems of a connection's certificate, and caches its verdicts.

    3 µs for a certificate seen before for this host, about 100 µs for a new one.
    """

    def __init__(self, roots: list[x509.Certificate] | None = None) -> None:
        self._store = Store(roots) if roots else None
        self._verdicts: dict[tuple[bytes, str], str] = {}

    def describe(self, connection: ssl.SSLObject, host: str) -> Tls:
        """The result of the handshake. `host` is a name or an IP literal without brackets."""
        leaf = connection.getpeercert(binary_form=True) or b""
        digest = hashlib.sha256(leaf)
        key = digest.digest(), host
        problem = self._verdicts.get(key)
        if problem is None:
            if len(self._verdicts) >= MAX_VERDICTS:
                del self._verdicts[next(iter(self._verdicts))]
            problem = self.problem(presented_chain(connection), host, datetime.now(UTC))
            self._verdicts[key] = problem
        cipher = connection.cipher()
        return Tls(
            version=connection.version() or "",
            cipher=cipher[0] if cipher else "",
            fingerprint=digest.hexdigest(),
            problem=problem,
            certificate=leaf,
        )

    def problem(self, chain: Sequence[bytes], host: str, now: datetime) -> str:
        """The problems of `chain` (DER, the leaf first) for `host`; "" if it verifies."""
        if not chain:
            return "no certificate"
        try:
            leaf = x509.load_der_x509_certificate(chain[0])
            problems = list(_plain_problems(leaf, host, now))
            if not problems:
                others = [x509.load_der_x509_certificate(der) for der in chain[1 : MAX_CHAIN + 1]]
                issuers = _one_by_name(others)
                problems = list(self._chain_problems(leaf, issuers, host, now))
        except (ValueError, TypeError, x509.DuplicateExtension) as error:
            return f"unreadable certificate: {error}"
        return ", ".join(problems)

    def _chain_problems(
        self, leaf: x509.Certificate, others: list[x509.Certificate], host: str, now: datetime
    ) -> Iterator[str]:
        if self._store is None:
            self._store = Store(_public_roots())
        policy = PolicyBuilder().store(self._store).time(now)
        try:
            policy.build_server_verifier(_subject(host)).verify(leaf, others)
        except VerificationError as error:
            detail = str(error)
            if "no interior errors" in detail:
                yield "unable to get issuer"
            else:
                yield detail.partition(" (encountered")[0]


def presented_chain(connection: ssl.SSLObject) -> list[bytes]:
    """The certificates the server sent, DER, the leaf first."""
    if hasattr(connection, "get_unverified_chain"):  # Python 3.13
        return list(connection.get_unverified_chain())
    inner: Any = connection._sslobj  # type: ignore[attr-defined]  # public since 3.13
    return [ssl.PEM_cert_to_DER_cert(each.public_bytes()) for each in inner.get_unverified_chain()]


def _one_by_name(others: Sequence[x509.Certificate]) -> list[x509.Certificate]:
    """The first certificate of each name, without roots (those that issued themselves).

    So there is only one path through them. With many paths, each would be verified, which takes
    100 ms and more.
    """
    by_name: dict[x509.Name, x509.Certificate] = {}
    for other in others:
        if other.issuer != other.subject:
            by_name.setdefault(other.subject, other)
    return list(by_name.values())


def _plain_problems(leaf: x509.Certificate, host: str, now: datetime) -> Iterator[str]:
    """Problems that the leaf alone shows: most bad certificates have one of these."""
    if leaf.issuer == leaf.subject:
        yield "self-signed certificate"
    if now > leaf.not_valid_after_utc:
        yield "expired"
    elif now < leaf.not_valid_before_utc:
        yield "not yet valid"
    if not _names_host(leaf, host):
        yield "host name mismatch"


def _names_host(leaf: x509.Certificate, host: str) -> bool:
    """RFC 9525, 6.3: by subjectAltName only; `*` matches the whole leftmost label only."""
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    subject = _subject(host)
    if isinstance(subject, x509.IPAddress):
        return subject.value in names.get_values_for_type(x509.IPAddress)
    host = host.rstrip(".").lower()
    wanted = (host, "*." + host.partition(".")[2])
    return any(name.lower() in wanted for name in names.get_values_for_type(x509.DNSName))


def _subject(host: str) -> x509.DNSName | x509.IPAddress:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host.rstrip("."))


def _public_roots() -> list[x509.Certificate]:
    with warnings.catch_warnings():
        # Some roots, older than the rule, have a serial number of zero.
        warnings.simplefilter("ignore", CryptographyDeprecationWarning)
        with open(certifi.where(), "rb") as file:
            return x509.load_pem_x509_certificates(file.read())
