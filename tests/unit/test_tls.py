"""The verdict on a certificate."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import pytest
from cryptography import x509

from tests.adapters.rawserver import identity
from tests.cases import each_of
from webcrawl.fetch import tls
from webcrawl.fetch.tls import CertificateJudge, client_context

ROOT = identity("Root", authority=True)
BETWEEN = identity("Between", issuer=ROOT, authority=True)
NAMES = (
    x509.DNSName("www.Example.com"),
    x509.DNSName("*.wild.example"),
    x509.IPAddress(ip_address("192.0.2.1")),
    x509.IPAddress(ip_address("2001:db8::1")),
)
LEAF = identity("leaf", issuer=BETWEEN, names=NAMES)
CHAIN = [LEAF.der, BETWEEN.der]
HOST = "www.example.com"
LOOPS = [("One", ROOT), ("Other", ROOT), ("One", BETWEEN), ("Other", BETWEEN)]
NOW = datetime.now(UTC)


def problem(chain: list[bytes], host: str = HOST, now: datetime = NOW) -> str:
    return CertificateJudge([ROOT.certificate]).problem(chain, host, now)


SELF_SIGNED = identity(HOST, names=NAMES)
OF_NO_HOST = identity(HOST, issuer=BETWEEN)  # RFC 9525, 1.2: the common name does not count
OLD = identity("x", days=(-20, -10))


@each_of(
    ("chain", "verdict"),
    [
        (CHAIN, ""),
        ([LEAF.der, ROOT.der, BETWEEN.der, BETWEEN.der], ""),  # a root among them does no harm
        ([SELF_SIGNED.der], "self-signed certificate"),
        ([OF_NO_HOST.der, BETWEEN.der], "host name mismatch"),
        ([OLD.der], "self-signed certificate, expired, host name mismatch"),
        ([LEAF.der], "unable to get issuer"),
        ([LEAF.der, LEAF.der], "unable to get issuer"),
        ([LEAF.der, ROOT.der], "unable to get issuer"),
        ([], "no certificate"),
    ],
)
def test_the_verdict(chain: list[bytes], verdict: str) -> None:
    assert problem(chain) == verdict


@each_of(
    ("hosts", "verdict"),
    [
        ((HOST, "WWW.example.com", HOST + ".", "a.wild.example", "192.0.2.1", "2001:db8::1"), ""),
        (("example.com", "a.www.example.com", "wild.example", "a.b.wild.example", "com",
          "192.0.2.2", "2001:db8::2"), "host name mismatch"),
    ],
)  # fmt: skip
def test_the_host(hosts: tuple[str, ...], verdict: str) -> None:
    assert [host for host in hosts if problem(CHAIN, host) != verdict] == []


def test_the_time() -> None:
    assert problem(CHAIN, now=NOW + timedelta(days=30)) == "expired"
    assert problem(CHAIN, now=NOW - timedelta(days=30)) == "not yet valid"


def test_an_expired_issuer_does_not_count() -> None:
    old = identity("Between", issuer=ROOT, authority=True, days=(-20, -10))
    leaf = identity("leaf", issuer=old, names=NAMES)
    assert problem([leaf.der, old.der]) != ""


def test_the_public_roots_are_known() -> None:
    assert CertificateJudge().problem(CHAIN, HOST, NOW) == "unable to get issuer"
    assert len(tls._public_roots()) > 50


@each_of("chain", [[b""], [b"garbage"], [LEAF.der[:-10]], [LEAF.der, b"garbage"]])
def test_garbage(chain: list[bytes]) -> None:
    assert problem(chain).startswith("unreadable certificate")


def test_a_host_name_that_no_certificate_can_have() -> None:
    assert problem(CHAIN, "a_b.wild.example") != "host name mismatch"


def test_contexts() -> None:
    lenient, strict = client_context(), client_context(verify=True)
    assert (lenient.verify_mode, lenient.check_hostname) == (ssl.CERT_NONE, False)
    assert (strict.verify_mode, strict.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert lenient.options & 0x4  # OP_LEGACY_SERVER_CONNECT


def test_there_is_one_path_through_certificates_that_sign_each_other() -> None:
    """Each of many paths would be verified: 100 signatures, 60 ms and more."""
    one, other = identity("One", authority=True), identity("Other", authority=True)
    again = [identity(name, issuer=by, authority=True) for name, by in LOOPS]
    by_name = tls._one_by_name([each.certificate for each in (one, other, *again)])
    assert [each.subject.rfc4514_string() for each in by_name] == ["CN=One", "CN=Other"]
    assert all(each.issuer != each.subject for each in by_name)


class Connection:
    """The methods of a connection that CertificateJudge calls."""

    chains_read = 0

    def getpeercert(self, binary_form: bool) -> bytes:
        return LEAF.der

    def get_unverified_chain(self) -> list[bytes]:
        self.chains_read += 1
        return CHAIN

    def cipher(self) -> tuple[str, str, int]:
        return ("TLS_AES_256_GCM_SHA384", "TLSv1.3", 256)

    def version(self) -> str:
        return "TLSv1.3"


def test_a_certificate_is_judged_once_per_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "MAX_VERDICTS", 2)
    judge = CertificateJudge([ROOT.certificate])
    connection = Connection()
    for host, problem in ((HOST, ""), ("b.example", "host name mismatch"), (HOST, "")):
        assert judge.describe(connection, host).problem == problem  # type: ignore[arg-type]
    assert connection.chains_read == 2
    judge.describe(connection, "c.example")  # type: ignore[arg-type]
    assert len(judge._verdicts) == 2
    judge.describe(connection, HOST)  # type: ignore[arg-type]
    assert connection.chains_read == 4
