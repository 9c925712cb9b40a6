"""Signatures against the vectors of RFC 9421 and of the Web Bot Auth draft, and another library."""

from __future__ import annotations

import json
import os
import stat
import time
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from http_message_signatures import (
    HTTPMessageVerifier,
    HTTPSignatureKeyResolver,
    InvalidSignature,
    algorithms,
)

from webcrawl.fetch.http1 import Headers
from webcrawl.fetch.requesthead import build_request, split_url
from webcrawl.fetch.signing import (
    DIRECTORY_PATH,
    KeyFileError,
    Signer,
    read_key,
    thumbprint,
)
from webcrawl.tools.botpage.keys import directory, new_key, read_public_key

# RFC 9421, B.1.4, as JWK: test-key-ed25519.
JWK = {
    "kty": "OKP",
    "crv": "Ed25519",
    "d": "n4Ni-HpISpVObnQMW0wOhCKROaIKqKtW_2ZYb2p9KcU",
    "x": "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs",
}
AGENT = "https://signature-agent.test"


@pytest.fixture(name="key")
def _key(tmp_path: Path) -> Ed25519PrivateKey:
    (tmp_path / "key.json").write_text(json.dumps(JWK))
    return read_key(tmp_path / "key.json")


class Keys(HTTPSignatureKeyResolver):
    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._keys = {thumbprint(key.public_key()): key.public_key()}

    def resolve_public_key(self, key_id: str) -> Any:
        return self._keys[key_id]


def verify(key: Ed25519PrivateKey, method: str, url: str, headers: Headers) -> Any:
    """The verdict of the other implementation."""
    fields = {name.decode(): value.decode() for name, value in headers}
    verifier = HTTPMessageVerifier(signature_algorithm=algorithms.ED25519, key_resolver=Keys(key))
    message = SimpleNamespace(method=method, url=url, headers=fields)
    return verifier.verify(message, max_age=timedelta(seconds=300))


def test_the_key_has_the_thumbprint_of_the_draft(key: Ed25519PrivateKey) -> None:
    assert thumbprint(key.public_key()) == "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U"
    # RFC 8037, A.3
    [entry] = directory([key.public_key()])["keys"]
    assert entry["kid"] == thumbprint(key.public_key())
    assert "d" not in entry


@pytest.mark.parametrize(
    ("components", "label", "nonce", "signature"),
    [
        (
            [('"@authority"', "example.com")],
            "sig1",
            "zIW8+cdmA3vdYagbxojpONwa/l0EKJ/O3/wD486VvsQjO/RxPaSt6ZxvQaMcQzNnqKN/mQ6hpGiFro2L2qkz5A==",
            "QKN4fTdIYfh82fvoZCQiQA1weuozfCS/Led2zTMbewMMqH8PI2Wsy/5c4ao6B6D09nraNQdBNOADg8aM1MqfCg==",
        ),
        (
            [('"@authority"', "example.com"), ('"signature-agent";key="agent2"', f'"{AGENT}"')],
            "sig2",
            "n9p433xm+NJ3ph3upfBIGmsuwHw387YV7Q/F+6BSpGCVjYCqQw6rznNA8PVVLySrAWsv0hQtFioQb6E1YsauiA==",
            "RdNFx5Bj6au3YgAMQL/RzmUlZE8QZLIaXGRpw985hWnwPfMxT228NMk6ehRS1PSl4e8PhbNZACSanGdhEwYCCg==",
        ),
    ],
)
def test_vectors_of_the_draft(
    key: Ed25519PrivateKey,
    components: list[tuple[str, str]],
    label: str,
    nonce: str,
    signature: str,
) -> None:
    signer = Signer(key, AGENT)
    headers = signer.signature(components, 1735689600, 4889289600, nonce, label)
    assert headers[1] == (b"Signature", f"{label}=:{signature}:".encode())


@pytest.mark.parametrize(
    ("method", "url"),
    [
        ("GET", "http://www.example.com/"),
        ("GET", "https://www.example.com:8443/a%20b/c?d=e&f"),
        ("HEAD", "http://[2001:db8::1]:8080/robots.txt"),
        ("POST", "https://EXAMPLE.com"),
    ],
)
def test_another_implementation_verifies_a_request(
    key: Ed25519PrivateKey, method: str, url: str
) -> None:
    old = [(b"Accept", b"*/*"), (b"signature", b"sig1=:AA==:")]
    target = split_url(url)
    headers = Signer(key, AGENT).signed(old, method, target, time.time())
    [result] = verify(key, method, url, headers)
    assert result.label == "sig1"
    assert result.parameters["tag"] == "web-bot-auth"
    assert result.parameters["expires"] - result.parameters["created"] == 300
    assert set(result.covered_components) == {
        '"@method"', '"@authority"', '"@path"', '"signature-agent";key="sig1"',
        '"@signature-params"',
    }  # fmt: skip
    assert b"Signature-Agent: sig1=" in build_request(method, target, headers, b"")
    changed = [
        (name, value.replace(b"signature-agent.test", b"evil.test")) for name, value in headers
    ]
    for other in (
        (method, url.partition("?")[0] + "x", headers),
        ("PUT", url, headers),
        (method, url, changed),
    ):
        with pytest.raises(InvalidSignature):
            verify(key, *other)


@pytest.mark.parametrize(
    ("agent", "member"),
    [
        (f"https://Example.org:443{DIRECTORY_PATH}", '"https://example.org"'),
        ("https://example.org/", '"https://example.org"'),
        ("https://example.org:8443", '"https://example.org:8443"'),
        ("https://example.org/keys.json", '"https://example.org/keys.json";type=jwks_uri'),
    ],
)
def test_the_agent_is_an_origin_or_has_a_type(
    key: Ed25519PrivateKey, agent: str, member: str
) -> None:
    """WBA 5.5: a verifier must ignore another URL than an origin without a type."""
    url = "https://www.example.com/a"
    headers = Signer(key, agent).signed([], "GET", split_url(url), time.time())
    assert (b"Signature-Agent", f"sig1={member}".encode()) in headers
    assert verify(key, "GET", url, headers)


def test_a_host_header_of_a_users_own_is_the_authority(key: Ed25519PrivateKey) -> None:
    target = split_url("https://192.0.2.1/")
    headers = Signer(key, AGENT).signed(
        [(b"Host", b"WWW.example.com:443")], "GET", target, time.time()
    )
    assert verify(key, "GET", "https://www.example.com/", headers)


def test_each_signature_is_another(key: Ed25519PrivateKey) -> None:
    signer, target = Signer(key, AGENT), split_url("http://www.example.com/")
    assert len({signer.signed([], "GET", target, 1e9)[-1] for _ in range(10)}) == 10
    assert "n4Ni" not in repr(signer)


def test_a_new_key_is_for_its_owner_only_and_replaces_none(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    key = new_key(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_key(path).private_bytes_raw() == key.private_bytes_raw()
    assert read_public_key(path).public_bytes_raw() == key.public_key().public_bytes_raw()
    with pytest.raises(FileExistsError):
        new_key(path)


def test_public_keys_are_read_in_both_forms(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    public = key.public_key()
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "key.pem").write_bytes(pem)
    assert read_public_key(tmp_path / "key.pem").public_bytes_raw() == public.public_bytes_raw()
    (tmp_path / "public.json").write_text(json.dumps({k: v for k, v in JWK.items() if k != "d"}))
    assert read_public_key(tmp_path / "public.json").public_bytes_raw() == public.public_bytes_raw()


def pem(key: Any, encryption: Any) -> bytes:
    return bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))


ELLIPTIC = pem(ec.generate_private_key(ec.SECP256R1()), NoEncryption())
LOCKED = pem(Ed25519PrivateKey.generate(), BestAvailableEncryption(b"secret"))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "no private key"),
        (b"\0" * 70_000, "too large"),
        (b"{", "no JSON"),
        (b"{" + b"[" * 50_000, "no JSON"),
        (b'{"kty": "RSA"}', "no JWK of kty"),
        (json.dumps(JWK | {"d": "AAAA"}).encode(), "has no 'd' of 32 octets"),
        (json.dumps(JWK | {"d": "é"}).encode(), "has no 'd' of 32 octets"),
        (json.dumps(JWK | {"d": JWK["x"]}).encode(), "do not belong"),
        (ELLIPTIC, "another kind"),
        (LOCKED, "encrypted"),
    ],
)
def test_a_file_without_such_a_key_is_refused_without_its_content(
    tmp_path: Path, content: bytes, why: str
) -> None:
    (tmp_path / "key").write_bytes(content)
    with pytest.raises(KeyFileError, match=why) as caught:
        read_key(tmp_path / "key")
    assert str(caught.value).startswith(str(tmp_path / "key"))
    assert JWK["d"] not in str(caught.value)


def test_a_missing_file_a_folder_and_a_pipe_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "key.pem")
    for name, why in (("none", "No such file"), ("", "directory"), ("key.pem", "is a pipe")):
        with pytest.raises(KeyFileError, match=why):
            read_key(tmp_path / name)
