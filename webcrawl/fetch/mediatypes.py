"""Whether the body of an answer is worth reading: decided by its Content-Type."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from webcrawl.fetch.http1 import Headers

Wants = Callable[[int, Headers], bool]  # wants(status, headers)


def media_type_test(media_types: Iterable[str]) -> Wants:
    """A test of an answer's head: True if its body is worth reading.

    Only 2xx answers are tested. `image/*` means every image type; `*`, `*/*` or an empty list means
    every type. An answer without a Content-Type is wanted: it may have any type. O(headers).
    """
    wanted = frozenset(each.strip().lower().encode() for each in media_types)
    wants_all = not wanted or b"*" in wanted or b"*/*" in wanted

    def wants(status: int, headers: Headers) -> bool:
        if wants_all or not 200 <= status < 300:
            return True
        for name, value in headers:
            if name == b"content-type":
                media_type = value.partition(b";")[0].strip().lower()
                if not media_type or media_type in wanted:
                    return True
                return media_type.partition(b"/")[0] + b"/*" in wanted
        return True

    return wants
