"""Makes key files for BOT_AUTH_KEY, reads public ones, and writes the directory of public keys.

`webcrawl.fetch.signing` reads the private key and signs with it; its notes on sections apply.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_public_key,
)

from webcrawl.fetch.signing import (
    KeyFileError,
    octets_of,
    public_jwk,
    read_jwk,
    read_key,
    read_key_file,
    thumbprint,
)

DIRECTORY_TYPE: Final = "application/http-message-signatures-directory+json"  # WBA 8.2.1


def new_key(path: Path) -> Ed25519PrivateKey:
    """Write a new private key to the file `path`, which must not exist. OSError."""
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(pem)
    return key


def read_public_key(path: Path) -> Ed25519PublicKey:
    """The public key in the file `path`, which may have the private key instead. KeyFileError."""
    data = read_key_file(path)
    if data.lstrip()[:1] == b"{":
        jwk = read_jwk(path, data)
        if "d" not in jwk:
            return Ed25519PublicKey.from_public_bytes(octets_of(path, jwk, "x"))
    elif b"-----BEGIN PUBLIC KEY-----" in data:
        try:
            loaded = load_pem_public_key(data)
        except (ValueError, UnsupportedAlgorithm):
            raise KeyFileError(f"{path} is no public key in PEM form") from None
        if not isinstance(loaded, Ed25519PublicKey):
            raise KeyFileError(f"{path} has a key of another kind than Ed25519")
        return loaded
    return read_key(path).public_key()


def directory(keys: Sequence[Ed25519PublicKey]) -> dict[str, Any]:
    """The key directory of `keys`, a JWK Set (WBA 5.5.1)."""
    return {
        "keys": [
            public_jwk(key) | {"kid": thumbprint(key), "use": "sig", "alg": "ed25519"}
            for key in keys
        ]
    }
