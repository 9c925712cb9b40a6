"""The CONNECT line of a NATS client: user and password, token, or a credentials file.

A credentials file has a JWT and the seed of an Ed25519 key, which signs the server's nonce
(https://docs.nats.io/using-nats/developer/connecting/creds). Its content leaves this module only
in that line.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from webcrawl import __version__
from webcrawl.cluster.bus.base import Address, Refused
from webcrawl.textfile import read_text

_BLOCK = re.compile(
    r"-----BEGIN ([A-Z ]+)-----\s+([\w.=-]+)\s+-{3,}END \1-{3,}", re.ASCII
)  # NATS ends a block with six hyphens


def connect_line(address: Address, info: dict[str, Any], name: str) -> bytes:
    """Raises Refused if the credentials file cannot be read."""
    options = {
        "verbose": False,
        "pedantic": False,
        "lang": "python",
        "version": __version__,
        "name": name,
        "protocol": 1,
        "echo": True,
        "headers": True,
        "no_responders": True,
    }
    if address.creds is not None:
        options |= _signed(address.creds, str(info.get("nonce", "")))
    if address.password is not None:
        options |= {"user": address.user, "pass": address.password}
    elif address.user:
        options["auth_token"] = address.user
    return b"CONNECT %s\r\n" % json.dumps(options).encode()


def _signed(path: Path, nonce: str) -> dict[str, str]:
    try:
        text = read_text(path)
    except (OSError, ValueError) as error:
        raise Refused(f"creds={path}: cannot be read: {error}") from None
    blocks = dict(_BLOCK.findall(text))
    try:
        jwt, seed = blocks["NATS USER JWT"], blocks["USER NKEY SEED"]
        raw = base64.b32decode(seed + "=" * (-len(seed) % 8))
        key = Ed25519PrivateKey.from_private_bytes(raw[2:34])  # two of type, two of CRC
    except (KeyError, ValueError, binascii.Error):
        raise Refused(f"creds={path}: has no NATS user's JWT and seed") from None
    signature = base64.urlsafe_b64encode(key.sign(nonce.encode())).rstrip(b"=")
    return {"jwt": jwt, "sig": signature.decode()}
