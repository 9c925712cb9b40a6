"""Behaviours of a whole host: each changes every answer of the host, robots.txt included."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from simweb.features import Feature
from simweb.reply import Reply


@dataclass(frozen=True, kw_only=True)
class HostKind(Feature):
    """A behaviour. `reachable` is False if no answer of the host is HTTP: then its robots.txt is
    unreachable, and disallows everything.

    A `mirror` serves the bytes of another host, whose pages then have absolute URLs only.
    """

    change: Callable[[Reply], Reply]
    reachable: bool = True
    mirror: bool = False


def _no_answer(start: bytes, end: str) -> Callable[[Reply], Reply]:
    return lambda reply: Reply(0, start, end=end, again=True)


def _slow(reply: Reply) -> Reply:
    return replace(reply, delay_s=reply.delay_s + 1.0)


def _close(reply: Reply) -> Reply:
    return replace(reply, end="close") if reply.end == "keep" else reply


HOSTS = (
    HostKind(name="host-plain", weight=85, about="answers at once", change=lambda reply: reply),
    HostKind(name="host-slow", weight=4, about="first byte after 1 s", change=_slow),
    HostKind(name="host-close", weight=4, about="closes after each answer", change=_close),
    HostKind(
        name="host-mirror",
        weight=4,
        about="serves the bytes of another host",
        change=lambda reply: reply,
        sound=False,
        mirror=True,
    ),
    HostKind(
        name="host-hang",
        weight=1,
        about="accepts and never answers",
        change=_no_answer(b"", "hang"),
        sound=False,
        reachable=False,
    ),
    HostKind(
        name="host-reset",
        weight=1,
        about="resets every connection",
        change=_no_answer(b"", "reset"),
        sound=False,
        reachable=False,
    ),
    HostKind(
        name="host-garbage",
        weight=1,
        about="speaks another protocol than HTTP",
        change=_no_answer(b"220 mail.example ESMTP\r\n\x00\xff\r\n", "close"),
        sound=False,
        reachable=False,
    ),
)
