"""The fast path's signals against Scrapy's: receivers, their arguments, and results."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from pydispatch import dispatcher
from scrapy.exceptions import StopDownload
from scrapy.signalmanager import SignalManager
from twisted.internet.defer import succeed
from twisted.python.failure import Failure

from tests.cases import each_of
from webcrawl.crawl import receivers as receivers_module
from webcrawl.crawl.receivers import Signals

SIGNAL, OTHER = object(), object()
NAMED = {"response": "a response", "request": "a request", "spider": "a spider"}


class Listener:
    def __init__(self) -> None:
        self.heard: list[object] = []

    def some(self, response: object, spider: object) -> str:
        self.heard.append((response, spider))
        return "some"

    def whole(self, **named: Any) -> str:
        self.heard.append({name: named[name] for name in named if name != "sender"})
        return "whole"

    def default(self, unknown: int = 3) -> int:
        return unknown

    def __call__(self, request: object) -> object:
        return request


def nothing() -> None:
    pass


def lacks(missing: object) -> None:
    raise AssertionError("it cannot be called")


def fails() -> None:
    raise ZeroDivisionError


def stops() -> None:
    raise StopDownload


def defers() -> object:
    return succeed(1)


def sent(make: type[SignalManager], connect: Callable[[SignalManager], object]) -> object:
    """The results, with failures by their type, and the log lines."""
    manager = make(object())
    records: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage().partition(" at 0x")[0])  # type: ignore[method-assign]
    logging.getLogger().addHandler(handler)
    try:
        kept = connect(manager)
        answers = manager.send_catch_log(SIGNAL, **NAMED)
    finally:
        logging.getLogger().removeHandler(handler)
    results = [
        answer.type if isinstance(answer, Failure) else type(answer) if answer else answer
        for _, answer in answers
    ]
    return [getattr(each, "__name__", "object") for each, _ in answers], results, records, kept


def some_and_whole(manager: SignalManager) -> object:
    listener = Listener()
    manager.connect(listener.some, SIGNAL)
    manager.connect(listener.whole, SIGNAL)
    manager.connect(listener.some, SIGNAL)  # once more
    manager.connect(listener.default, SIGNAL)
    manager.connect(nothing, OTHER)
    manager.send_catch_log(SIGNAL, **NAMED)
    return [each if isinstance(each, tuple) else {**each, "signal": 0} for each in listener.heard]


def of_any_sender_or_signal(manager: SignalManager) -> None:
    manager.connect(nothing, dispatcher.Any)
    dispatcher.connect(fails, SIGNAL)
    dispatcher.connect(nothing, SIGNAL)


def gone(manager: SignalManager) -> None:
    manager.connect(Listener().some, SIGNAL)
    manager.connect(nothing, SIGNAL)


def callable_objects(manager: SignalManager) -> None:
    manager.connect(Listener(), SIGNAL, weak=False)
    manager.connect(partial(nothing), SIGNAL, weak=False)


def connecting(*receivers: Callable[..., object]) -> Callable[[SignalManager], None]:
    def connect(manager: SignalManager) -> None:
        for receiver in receivers:
            manager.connect(receiver, SIGNAL)

    return connect


@pytest.fixture(autouse=True)
def connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test starts without connections, and leaves none."""
    monkeypatch.setattr(dispatcher, "connections", {})
    monkeypatch.setattr(receivers_module, "connections", dispatcher.connections)


@each_of(
    "connect",
    [
        some_and_whole,
        of_any_sender_or_signal,
        gone,
        callable_objects,
        connecting(),
        connecting(fails, stops, nothing),
        connecting(lacks, nothing),
        connecting(defers),
    ],
    ids=["methods", "any", "gone", "objects", "none", "raise", "lacks", "defers"],
)
def test_signals_behave_as_scrapys(connect: Callable[[SignalManager], object]) -> None:
    assert sent(Signals, connect) == sent(SignalManager, connect)


def test_dont_log_keeps_an_error_from_the_log(caplog: pytest.LogCaptureFixture) -> None:
    manager = Signals(object())
    manager.connect(fails, SIGNAL)
    ((_, answer),) = manager.send_catch_log(SIGNAL, dont_log=ZeroDivisionError)
    assert isinstance(answer, Failure)
    ((_, error),) = asyncio.run(manager.send_catch_log_async(SIGNAL, dont_log=ZeroDivisionError))
    assert isinstance(error, ZeroDivisionError)
    assert not caplog.records
    asyncio.run(manager.send_catch_log_async(SIGNAL))
    assert "Error caught on signal handler" in caplog.text


def test_a_receiver_that_comes_or_goes_later_is_noticed() -> None:
    signals, listener = Signals(object()), Listener()
    assert signals.send_catch_log(SIGNAL) == []
    signals.connect(listener.default, SIGNAL)
    assert signals.send_catch_log(SIGNAL) == [(listener.default, 3)]
    signals.connect(nothing, SIGNAL)
    assert len(signals.send_catch_log(SIGNAL)) == 2
    signals.disconnect(listener.default, SIGNAL)
    assert signals.send_catch_log(SIGNAL) == [(nothing, None)]
    signals.disconnect_all(SIGNAL)
    assert signals.send_catch_log(SIGNAL) == []
