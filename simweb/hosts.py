"""Behaviours of a whole host: each changes every answer of the host, robots.txt included."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial

from simweb.features import Feature
from simweb.reply import Reply


@dataclass(frozen=True)
class HostKind(Feature):
    """A behaviour. `reachable` is False if no answer of the host is HTTP: then its robots.txt is
    unreachable, and disallows everything.

    A `mirror` serves the bytes of another host, whose pages then have absolute URLs only.
    """

    family = "host"
    change: Callable[[Reply], Reply]
    _: KW_ONLY
    reachable: bool = True
    mirror: bool = False


_SMTP = b"220 mail.example ESMTP\r\n\x00\xff\r\n"


def _no_answer(start: bytes, end: str) -> Callable[[Reply], Reply]:
    return lambda reply: Reply(0, start, end=end, again=True)


def _slow(reply: Reply) -> Reply:
    return replace(reply, delay_s=reply.delay_s + 1.0)


def _close(reply: Reply) -> Reply:
    return replace(reply, end="close") if reply.end == "keep" else reply


_dead = partial(HostKind, sound=False, reachable=False)
HOSTS = (
    HostKind("plain", 85, "answers at once", lambda reply: reply),
    HostKind("slow", 4, "first byte after 1 s", _slow),
    HostKind("close", 4, "closes after each answer", _close),
    HostKind("mirror", 4, "serves another host's bytes", lambda r: r, sound=False, mirror=True),
    _dead("hang", 1, "accepts and never answers", _no_answer(b"", "hang")),
    _dead("reset", 1, "resets every connection", _no_answer(b"", "reset")),
    _dead("garbage", 1, "speaks another protocol than HTTP", _no_answer(_SMTP, "close")),
)
