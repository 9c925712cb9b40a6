"""Conditional requests (RFC 9110, 13): the validators of an answer, and the headers for the next.

A validator comes from a server, waits in the frontier for weeks, and is sent back as it came. So it
is checked twice: when it is taken from an answer, and again when it is sent. One that is longer
than VALIDATOR_MAX, or is not what the standard calls a validator, is none: the page is asked for
without a condition. Pure.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from webcrawl.fetch.http1 import Headers

VALIDATOR_MAX: Final = 64  # bytes; Apache's and nginx's entity tags have 20 to 40

# RFC 9110, 8.8.3, without obs-text. Deviation: a tag without quotation marks, as some servers send,
# is sent back as it is: such a server compares texts. It cannot be "*" or a list.
_ETAG = re.compile(r'(?:W/)?"[\x21\x23-\x7e]*"|[A-Za-z0-9._:/+=~-]+').fullmatch
# RFC 9110, 5.6.7: IMF-fixdate. Deviation: the obsolete forms are no validators.
_DATE = re.compile(
    r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d"
    r" (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) \d{4} \d\d:\d\d:\d\d GMT",
    re.ASCII,
).fullmatch
# A request with one of these has a condition of its own (RFC 9110, 13.1 and 14.2).
CONDITIONS: Final = frozenset(
    (b"if-none-match", b"if-modified-since", b"if-match", b"if-unmodified-since", b"if-range")
) | {b"range"}


class Validators(NamedTuple):
    """An entity tag and a date, each as sent; "" for one that is missing or cannot be used."""

    etag: str = ""
    last_modified: str = ""

    @classmethod
    def of(cls, headers: Headers) -> Validators:
        """Those of an answer. A header that is repeated is ambiguous: it counts as missing."""
        return cls(_the_one(headers, b"etag"), _the_one(headers, b"last-modified")).checked()

    def checked(self) -> Validators:
        """Those that may be sent."""
        return Validators(
            self.etag if len(self.etag) <= VALIDATOR_MAX and _ETAG(self.etag) else "",
            self.last_modified if _DATE(self.last_modified) else "",
        )

    def conditions(self) -> Headers:
        """The headers of a conditional GET (RFC 9110, 13.1.2 and 13.1.3); empty if none is usable.

        Both are sent: a server that knows the tag ignores the date.
        """
        etag, last_modified = self.checked()
        return [
            (name, value.encode("ascii"))
            for name, value in ((b"If-None-Match", etag), (b"If-Modified-Since", last_modified))
            if value
        ]

    def held(self, now: Validators) -> bool:
        """Whether an answer with the validators `now` says that the page is still the same.

        By the tag if there is one, compared weakly (RFC 9110, 8.8.3.2), else by the date.
        """
        if self.etag:
            return self.etag.removeprefix("W/") == now.etag.removeprefix("W/")
        return self.last_modified == now.last_modified


def _the_one(headers: Headers, wanted: bytes) -> str:
    values = {value for name, value in headers if name == wanted}
    return values.pop().decode("latin-1") if len(values) == 1 else ""


def are_conditional(headers: Headers) -> bool:
    """Whether `headers` of a request have a condition already."""
    return any(name.lower() in CONDITIONS for name, _ in headers)
