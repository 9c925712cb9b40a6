"""Signs requests: HTTP Message Signatures (RFC 9421) by Ed25519, in the profile of Web Bot Auth.

Owns the key of BOT_AUTH_KEY, in memory only, and the three headers of a signed request. Knows
nothing of sockets and reads no clock. The private key is in no text: not in a `repr`, an error or a
log line.

Sections with "WBA" are those of draft-ietf-webbotauth-httpsig-protocol of September 2026. Its
identifier of a key is the JWK thumbprint (RFC 7638; RFC 8037, appendix A.3).
"""

from __future__ import annotations

import hashlib
import json
import os
from base64 import b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from webcrawl.base.textfile import NotAFile, open_file
from webcrawl.fetch.http1 import Headers
from webcrawl.fetch.requesthead import Target

# WBA 5.2: 24 hours at most are recommended. A request is signed just before it is sent, so this is
# for the clocks of others. Within it, who reads a request can send it again to the same server.
LIFETIME_S: Final = 300
LABEL: Final = "sig1"
NONCE_BYTES: Final = 32
DIRECTORY_PATH: Final = "/.well-known/http-message-signatures-directory"  # WBA 8.1
_FILE_MAX: Final = 64 << 10
_OURS: Final = frozenset({b"signature", b"signature-input", b"signature-agent"})

Component = tuple[str, str]  # an identifier as it is signed, with its quotes, and the value


class KeyFileError(ValueError):
    """The user's fault: a key file that cannot be used. Its text has nothing of the content."""


class Signer:
    """Signs requests with one key. 60 µs a request, nearly all of it Ed25519.

    `agent` is the https URL at which the public key is published, as the owners of servers get it.
    """

    def __init__(self, key: Ed25519PrivateKey, agent: str) -> None:
        self._key = key
        self.key_id = thumbprint(key.public_key())
        self._agent = agent_member(agent)

    def __repr__(self) -> str:
        return f"<Signer {self.key_id}>"

    def signed(self, headers: Headers, method: str, target: Target, now_time: float) -> Headers:
        """`headers`, and those of the signature in place of any that they have. UTC seconds."""
        kept = [pair for pair in headers if pair[0].lower() not in _OURS]
        components = (
            ('"@method"', method),
            ('"@authority"', _authority(kept, target)),
            ('"@path"', target.path.partition("?")[0]),
            (f'"signature-agent";key="{LABEL}"', self._agent),
        )
        nonce = b64encode(os.urandom(NONCE_BYTES)).decode()
        signed = self.signature(components, int(now_time), int(now_time) + LIFETIME_S, nonce)
        agent = b"Signature-Agent", f"{LABEL}={self._agent}".encode()
        return [*kept, agent, *signed]

    def signature(
        self,
        components: Sequence[Component],
        created: int,
        expires: int,
        nonce: str,
        label: str = LABEL,
    ) -> Headers:
        """The headers Signature-Input and Signature over `components` (RFC 9421, 3.1)."""
        names = " ".join(name for name, _ in components)
        params = (
            f'({names});created={created};keyid="{self.key_id}";alg="ed25519"'
            f';expires={expires};nonce="{nonce}";tag="web-bot-auth"'
        )
        signature = b64encode(self.sign(signature_base(components, params))).decode()
        return [
            (b"Signature-Input", f"{label}={params}".encode()),
            (b"Signature", f"{label}=:{signature}:".encode()),
        ]

    def sign(self, base: str) -> bytes:
        """The signature of a signature base (RFC 9421, 3.3.6)."""
        return self._key.sign(base.encode())


def agent_member(url: str) -> str:
    """The value of a Signature-Agent member for the https URL of the keys (WBA 5.2.1 and 5.5).

    The origin alone if they are at DIRECTORY_PATH: a verifier must ignore any other value without
    a type. Keys at another URL have the type of a JWK Set.
    """
    parts = urlsplit(url)
    if parts.path in ("", "/", DIRECTORY_PATH) and not parts.query:
        return f'"https://{parts.netloc.lower().removesuffix(":443")}"'
    return f'"{url}";type=jwks_uri'


def signature_base(components: Sequence[Component], params: str) -> str:
    """The text that is signed (RFC 9421, 2.5)."""
    lines = [f"{name}: {value}" for name, value in components]
    return "\n".join([*lines, f'"@signature-params": {params}'])


def _authority(headers: Headers, target: Target) -> str:
    """@authority (RFC 9421, 2.2.3): what Host says, in lower case. A user may have set Host."""
    for name, value in headers:
        if name.lower() == b"host":
            host = value.decode("latin-1").strip().lower()
            return host.removesuffix(":443" if target.secure else ":80")
    return target.netloc.lower()


def read_key(path: Path) -> Ed25519PrivateKey:
    """The private key in the file `path`: PEM (PKCS #8) or JWK (RFC 8037). KeyFileError."""
    data = read_key_file(path)
    if data.lstrip()[:1] == b"{":
        jwk = read_jwk(path, data)
        key = Ed25519PrivateKey.from_private_bytes(octets_of(path, jwk, "d"))
        if "x" in jwk and octets_of(path, jwk, "x") != key.public_key().public_bytes_raw():
            raise KeyFileError(f"{path} has a private key and a public key that do not belong")
        return key
    try:
        loaded = load_pem_private_key(data, password=None)
    except TypeError:  # a password is needed
        raise KeyFileError(f"{path} has an encrypted key: the key must be unencrypted") from None
    except (ValueError, UnsupportedAlgorithm):
        raise KeyFileError(f"{path} is no private key in PEM or JWK form") from None
    if not isinstance(loaded, Ed25519PrivateKey):
        raise KeyFileError(f"{path} has a key of another kind than Ed25519")
    return loaded


def thumbprint(key: Ed25519PublicKey) -> str:
    """The JWK thumbprint of `key`, base64url (RFC 8037, appendix A.3)."""
    text = json.dumps(public_jwk(key), separators=(",", ":"), sort_keys=True)
    return _base64url(hashlib.sha256(text.encode()).digest())


def public_jwk(key: Ed25519PublicKey) -> dict[str, str]:
    """The required members of the JWK of `key` (RFC 8037, 2)."""
    return {"crv": "Ed25519", "kty": "OKP", "x": _base64url(key.public_bytes_raw())}


def read_key_file(path: Path) -> bytes:
    """The content of the file `path`. KeyFileError."""
    try:
        with open_file(path) as file:
            data = file.read(_FILE_MAX + 1)
    except NotAFile as error:
        raise KeyFileError(str(error)) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no path of a file"
        raise KeyFileError(f"{path} cannot be read: {reason}") from None
    if len(data) > _FILE_MAX:
        raise KeyFileError(f"{path} is too large for a key")
    return data


def read_jwk(path: Path, data: bytes) -> dict[str, Any]:
    """The JWK of an Ed25519 key that `data` is. KeyFileError."""
    try:
        jwk = json.loads(data)
    except (ValueError, RecursionError):
        raise KeyFileError(f"{path} is no JSON") from None
    if not isinstance(jwk, dict) or (jwk.get("kty"), jwk.get("crv")) != ("OKP", "Ed25519"):
        raise KeyFileError(f'{path} is no JWK of kty "OKP" and crv "Ed25519"')
    return jwk


def octets_of(path: Path, jwk: dict[str, Any], member: str) -> bytes:
    """The 32 octets of a member of a JWK. KeyFileError."""
    text = jwk.get(member)
    try:
        octets = urlsafe_b64decode(text + "=" * (-len(text) % 4)) if isinstance(text, str) else b""
    except ValueError:
        octets = b""
    if len(octets) != 32:
        raise KeyFileError(f"{path} has no {member!r} of 32 octets in base64url")
    return octets


def _base64url(octets: bytes) -> str:
    return urlsafe_b64encode(octets).rstrip(b"=").decode()
