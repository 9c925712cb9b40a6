"""Leaves headers out of request records (WARC_OMIT_HEADERS): they may be secrets.

Deviation: the block of a request record is the request as sent (WARC 1.1, 6.4). A page's metadata
record names the headers that are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from webcrawl.fetch.exchange import Exchange


def omitter(names: Iterable[str]) -> Callable[[Exchange], None] | None:
    """A function that takes the headers `names` out of an exchange's request; None for no names.

    It notes them in `headers_omitted`. Under 1 µs for a request without such headers.
    """
    wanted = sorted({name.lower() for name in names})
    if not wanted:
        return None
    needles = [f"\n{name}:".encode() for name in wanted]
    alternatives = "|".join(map(re.escape, wanted))
    line = re.compile(rf"(?<=\r\n)({alternatives}):[^\r\n]*\r\n".encode(), re.IGNORECASE)

    def omit(exchange: Exchange) -> None:
        request = exchange.request
        lower = request.lower()
        for needle in needles:
            if needle in lower:
                break
        else:
            return
        end = request.find(b"\r\n\r\n") + 2
        if end == 1:  # a head that has no end is none
            return
        head = request[:end]
        found = {match[1].decode().lower() for match in line.finditer(head)}
        if found:
            exchange.request = line.sub(b"", head) + request[end:]
            exchange.headers_omitted = tuple(sorted(found))

    return omit
