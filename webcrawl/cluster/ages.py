"""Times in messages from another machine, by the clock of this one.

A time is a reading of its sender's monotonic clock. The sender also sends the time at which it
sends. So the receiver knows how old each time was then, and takes that age from its own clock: the
clocks of two machines are never compared. A message on its way looks sent later than it was. So
what a fetcher has asked looks asked later, which is polite.
"""

from __future__ import annotations

from math import inf

from msgspec.structs import replace

from webcrawl.frontier.lease import Outcome, Resolved, RobotsFetched
from webcrawl.hub.wire import (
    Acquire,
    Answers,
    Call,
    Calls,
    Message,
    Put,
    Release,
    Status,
    Steer,
    WakeUp,
)


def shifted(message: Message, by_s: float) -> Message:
    """`message` with its times set forward by `by_s`. 0.0 ("none", "now") and inf stay."""
    match message:
        case Calls():
            return replace(message, calls=[_call(call, by_s) for call in message.calls])
        case Answers() | WakeUp() | Steer():
            return replace(message, status=_status(message.status, by_s))
    return message


def _call(call: Call, by_s: float) -> Call:
    match call:
        case Put() | Acquire():
            return replace(call, now=call.now + by_s)
        case Release():
            done = [(key, _outcome(outcome, by_s)) for key, outcome in call.done]
            return replace(call, done=done, now=call.now + by_s)
    return call


def _outcome(outcome: Outcome, by_s: float) -> Outcome:
    if isinstance(outcome, Resolved):
        return replace(outcome, expires_at=_later(outcome.expires_at, by_s))
    if not outcome.ended_at:  # no clock of a host is touched
        return outcome
    times = {
        "asked_at": _later(outcome.asked_at, by_s),
        "ended_at": _later(outcome.ended_at, by_s),
    }
    if isinstance(outcome, RobotsFetched):
        times["expires_at"] = _later(outcome.expires_at, by_s)
    return replace(outcome, **times)


def _status(status: Status, by_s: float) -> Status:
    return replace(
        status,
        next_page_at=_later(status.next_page_at, by_s),
        next_admission_at=_later(status.next_admission_at, by_s),
    )


def _later(at: float, by_s: float) -> float:
    return at + by_s if 0.0 < at < inf else at
