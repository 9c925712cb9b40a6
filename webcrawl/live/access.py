"""Which requests over TCP are answered. Knows the headers of a request, and no server.

Three checks, each against another attacker:

- token: every user and program of this machine can connect to a port of 127.0.0.1. It comes in the
  Authorization header only. In a cookie, browsers would send it to each server on 127.0.0.1: for
  cookies, all ports of a host are one (RFC 6265, 8.5). In a query, it would be in each URL.
- Host: a site whose name is changed to resolve to 127.0.0.1 (DNS rebinding) reaches the port, and
  its pages may read the answers. Their requests name the site.
- Origin: a page of another server that has got the token. Browsers name the origin in each POST.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from webcrawl.base.synced import replace_file

TOKEN_FILE: Final = "live.token"  # in JOBDIR
_TOKEN: Final = re.compile(r"[\w-]{43}", re.ASCII)  # 256 bits in base64url


class Access(NamedTuple):
    """The rules for one port."""

    port: int
    token: str

    @property
    def url(self) -> str:
        """The page, with the token: its script reads it there, the server does not."""
        return f"http://127.0.0.1:{self.port}/?token={self.token}"

    def refuses(
        self, method: str, header: Callable[[str], Sequence[str]], *, needs_token: bool = True
    ) -> str:
        """Why a request is refused, in one line; "" if it is answered.

        `header` gives all values of a header.
        """
        hosts = {f"{name}:{self.port}" for name in ("127.0.0.1", "localhost")}
        host, origin = header("host"), header("origin")
        if len(host) != 1 or host[0].lower() not in hosts:
            return f"the Host header is not 127.0.0.1:{self.port}"
        ours = [f"http://{host[0].lower()}"]
        if origin != ours and (origin or method == "POST"):
            return "the Origin header is not this server's"
        # The same time for all wrong tokens of its length.
        is_ours = partial(secrets.compare_digest, self.token.encode())
        if needs_token and not any(map(is_ours, _bearer_tokens(header))):
            return (
                "the token is missing or wrong: open the URL in the first line of the crawl,"
                f" or http://127.0.0.1:{self.port}/?token=TOKEN with the one in JOBDIR/{TOKEN_FILE}"
            )
        return ""


def _bearer_tokens(header: Callable[[str], Sequence[str]]) -> list[bytes]:
    """The tokens of the Authorization headers (RFC 6750, 2.1)."""
    parts = [line.partition(" ") for line in header("authorization")]
    return [token.strip().encode() for scheme, _, token in parts if scheme.lower() == "bearer"]


def token_of(jobdir: Path | None) -> str:
    """The token of the crawl in `jobdir`: a new one at its first run, and in a crawl without.

    Later runs have the same token, so that bookmarks and Prometheus need no change. OSError if the
    file cannot be written. A file that others may read is replaced.
    """
    new = secrets.token_urlsafe(32)
    if jobdir is None:
        return new
    path = jobdir / TOKEN_FILE
    try:
        with path.open(encoding="ascii") as file:
            status = os.fstat(file.fileno())
            token = file.read(1000).strip()
        is_ours = status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o077
        if is_ours and _TOKEN.fullmatch(token):
            return token
    except (FileNotFoundError, ValueError):
        pass
    replace_file(path, f"{new}\n", 0o600)
    return new
