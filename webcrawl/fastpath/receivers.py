"""Receivers of a signal, and a signal manager that calls them with less overhead than Scrapy's.

Uses pydispatch's tables, and nothing that is private to Scrapy.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from functools import cached_property, lru_cache
from inspect import CO_VARKEYWORDS, isawaitable
from types import FunctionType, MethodType
from typing import Any

from pydispatch.dispatcher import WEAKREF_TYPES, connections  # type: ignore[import-untyped]
from pydispatch.dispatcher import Any as Anyone
from pydispatch.robustapply import robustApply  # type: ignore[import-untyped]
from scrapy.exceptions import StopDownload
from scrapy.signalmanager import SignalManager
from scrapy.utils.defer import ensure_awaitable
from scrapy.utils.python import global_object_name
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

logger = logging.getLogger("scrapy.core.engine")  # Scrapy's own lines, so Scrapy's logger


def receivers_of(manager: SignalManager, signal: Any) -> list[Any]:
    """The receivers of a signal that `manager` sends."""
    if isinstance(manager, Signals):
        return manager.receivers_of(signal)
    return _live(_references(manager.sender, signal))


def _references(sender: Any, signal: Any) -> list[Any]:
    """`[*getAllReceivers(sender, signal)]`, in a third of the time."""
    tables = [connections.get(id(each), {}) for each in (sender, Anyone)]
    return [
        each for table in tables for wanted in (signal, Anyone) for each in table.get(wanted, ())
    ]


def _live(references: list[Any]) -> list[Any]:
    """`[*liveReceivers(references)]`, each once."""
    found: list[Any] = []
    for reference in references:
        receiver = reference() if isinstance(reference, WEAKREF_TYPES) else reference
        if receiver is not None and receiver not in found:
            found.append(receiver)
    return found


def call(receiver: Any, named: dict[str, Any]) -> Any:
    """Call `receiver` with the arguments that it takes: `robustApply` in half the time."""
    function = receiver.__func__ if isinstance(receiver, MethodType) else receiver
    if not isinstance(function, FunctionType):
        return robustApply(receiver, **named)
    wanted = _arguments(function)
    if wanted is None:
        return receiver(**named)
    return receiver(**{name: named[name] for name in wanted if name in named})


@lru_cache(1024)
def _arguments(function: FunctionType) -> tuple[str, ...] | None:
    """The argument names of `function`; None if it takes any name (`**kwargs`)."""
    code = function.__code__
    return None if code.co_flags & CO_VARKEYWORDS else code.co_varnames[: code.co_argcount]


class Signals(SignalManager):
    """Sends signals without tasks: most have no receiver, and few receivers are coroutines.

    Looks the receivers of a signal up once, until one is connected or disconnected here: one that
    is connected by pydispatch, past this object, gets no signal that was sent before.
    """

    @cached_property  # no __init__: `engine.install` changes the class of an object
    def _by_signal(self) -> dict[Any, list[Any]]:
        return {}

    def connect(self, receiver: Any, signal: Any, **named: Any) -> None:
        super().connect(receiver, signal, **named)
        self._by_signal.clear()

    def disconnect(self, receiver: Any, signal: Any, **named: Any) -> None:
        super().disconnect(receiver, signal, **named)
        self._by_signal.clear()

    def disconnect_all(self, signal: Any, **named: Any) -> None:
        super().disconnect_all(signal, **named)
        self._by_signal.clear()

    def receivers_of(self, signal: Any, sender: Any = None) -> list[Any]:
        if sender is not None and sender is not self.sender:
            return _live(_references(sender, signal))
        references = self._by_signal.get(signal)
        if references is None:
            references = self._by_signal[signal] = _references(self.sender, signal)
        return _live(references) if references else references

    def send_catch_log(self, signal: Any, **named: Any) -> list[tuple[Any, Any]]:
        receivers = self.receivers_of(signal, named.get("sender"))
        if not receivers:
            return []
        expected = (*_expected(named), StopDownload)
        named = {"signal": signal, "sender": self.sender, **named}
        answers = []
        for receiver in receivers:
            try:
                answer = call(receiver, named)
            except Exception as error:
                answer = Failure()  # type: ignore[no-untyped-call]
                if not isinstance(error, expected):
                    _log_raised(receiver, error, named)
            else:
                if isinstance(answer, Deferred):
                    logger.error("Cannot return deferreds from signal handler: %s", receiver)
            answers.append((receiver, answer))
        return answers

    async def send_catch_log_async(self, signal: Any, **named: Any) -> list[tuple[Any, Any]]:
        """Only a receiver that returns an awaitable gets a task."""
        expected = _expected(named)
        named = {"signal": signal, "sender": self.sender, **named}

        def raised(receiver: Any, error: Exception) -> Exception:
            if not isinstance(error, expected):
                _log_raised(receiver, error, named)
            return error

        async def waited_for(receiver: Any, answer: Awaitable[Any]) -> Any:
            try:
                return await ensure_awaitable(answer, _warn=global_object_name(receiver))
            except Exception as error:
                return raised(receiver, error)

        answers, waits = {}, {}
        for receiver in self.receivers_of(signal, named["sender"]):
            try:
                answers[receiver] = answer = call(receiver, named)
            except Exception as error:
                answers[receiver] = raised(receiver, error)
            else:
                if answer is not None and (isinstance(answer, Deferred) or isawaitable(answer)):
                    waits[receiver] = waited_for(receiver, answer)
        if waits:
            done = await asyncio.gather(*waits.values(), return_exceptions=True)
            answers.update(zip(waits, done, strict=True))
        return list(answers.items())


def _expected(named: dict[str, Any]) -> tuple[type[Exception], ...]:
    """The exceptions that the sender of a signal does not want logged."""
    dont_log = named.pop("dont_log", None)
    if dont_log is None:
        return ()
    return tuple(dont_log) if isinstance(dont_log, Sequence) else (dont_log,)


def _log_raised(receiver: Any, error: Exception, named: dict[str, Any]) -> None:
    logger.error(
        "Error caught on signal handler: %s", receiver,
        exc_info=error, extra={"spider": named.get("spider")},
    )  # fmt: skip
