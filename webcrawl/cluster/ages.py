"""Times in messages from another machine, by the clock of this one.

A time is a reading of its sender's monotonic clock. The sender also sends the time at which it
sends. So the receiver knows how old each time was then, and takes that age from its own clock: the
clocks of two machines are never compared. A message on its way looks sent later than it was. So
what a fetcher has asked looks asked later, which is polite.
"""

from __future__ import annotations

from functools import cache
from math import inf
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from webcrawl.hub.wire import Answers, Calls, Message, Release, Steer, WakeUp

S = TypeVar("S", bound=Struct)


def shifted(message: Message, by_s: float) -> Message:
    """`message` with its times set forward by `by_s`. 0.0 ("none", "now") and inf stay."""
    match message:
        case Calls():
            calls = [_shifted(call, by_s) for call in message.calls]
            for n, call in enumerate(calls):
                if isinstance(call, Release):
                    done = [(key, _shifted(outcome, by_s)) for key, outcome in call.done]
                    calls[n] = replace(call, done=done)
            return replace(message, calls=calls)
        case Answers() | WakeUp() | Steer():
            return replace(message, status=_shifted(message.status, by_s))
    return message


def _shifted(value: S, by_s: float) -> S:
    times = {}
    for name in _times_of(type(value)):
        if 0.0 < (at := getattr(value, name)) < inf:
            times[name] = at + by_s
    return replace(value, **times) if times else value


@cache
def _times_of(kind: type[Struct]) -> tuple[str, ...]:
    """The fields of a call, an outcome or `Status` that are times of the sender's clock."""
    names = kind.__struct_fields__
    return tuple(name for name in names if name == "now" or name.endswith("_at"))
