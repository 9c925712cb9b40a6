"""Receivers of a signal, and a signal manager that calls them with less overhead than Scrapy's.

Uses pydispatch's tables, and nothing that is private to Scrapy.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property
from inspect import CO_VARKEYWORDS, isawaitable
from itertools import repeat
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


# A receiver of a signal: a function that returns it, or None once it is gone, and the names of its
# arguments. None if it takes any name (`**kwargs`) or is no function: pydispatch calls these.
_Known = tuple[Callable[[], Any], tuple[str, ...] | None]


def receivers_of(manager: SignalManager, signal: Any) -> list[Any]:
    """The receivers of a signal that `manager` sends."""
    known = manager.known if type(manager) is Signals else _BySignal(manager.sender)
    receivers = known[signal]
    return [each for get, _ in receivers if (each := get()) is not None] if receivers else []


class _BySignal(dict[Any, list[_Known]]):
    """The receivers of what one sender sends, by signal, looked up at the first use."""

    def __init__(self, sender: Any) -> None:
        super().__init__()
        self._sender = sender

    def __missing__(self, signal: Any) -> list[_Known]:
        """`[*liveReceivers(getAllReceivers(sender, signal))]`, each once."""
        found, known = [], []
        for table in [connections.get(id(each), {}) for each in (self._sender, Anyone)]:
            for reference in (*table.get(signal, ()), *table.get(Anyone, ())):
                is_weak = isinstance(reference, WEAKREF_TYPES)
                receiver = reference() if is_weak else reference
                if receiver is not None and receiver not in found:
                    found.append(receiver)
                    get = reference if is_weak else repeat(receiver).__next__
                    known.append((get, _arguments(receiver)))
        self[signal] = known
        return known


def _arguments(receiver: Any) -> tuple[str, ...] | None:
    function = receiver.__func__ if isinstance(receiver, MethodType) else receiver
    if not isinstance(function, FunctionType) or function.__code__.co_flags & CO_VARKEYWORDS:
        return None
    return function.__code__.co_varnames[: function.__code__.co_argcount]


class Signals(SignalManager):
    """Sends signals without tasks: most have no receiver, and few receivers are coroutines.

    Looks the receivers of a signal up once, until one is connected or disconnected here: one that
    is connected by pydispatch, past this object, gets no signal that was sent before.
    """

    @cached_property  # no __init__: `engine.install` changes the class of an object
    def known(self) -> _BySignal:
        return _BySignal(self.sender)

    def connect(self, receiver: Any, signal: Any, **named: Any) -> None:
        super().connect(receiver, signal, **named)
        self.known.clear()

    def disconnect(self, receiver: Any, signal: Any, **named: Any) -> None:
        super().disconnect(receiver, signal, **named)
        self.known.clear()

    def disconnect_all(self, signal: Any, **named: Any) -> None:
        super().disconnect_all(signal, **named)
        self.known.clear()

    def send_catch_log(
        self, signal: Any, *, sender: Any = None, dont_log: Any = None, **named: Any
    ) -> list[tuple[Any, Any]]:
        known = self.known[signal] if sender is None else _BySignal(sender)[signal]
        if not known:
            return []
        named |= {"signal": signal, "sender": self.sender if sender is None else sender}
        answers = []
        for get, names in known:
            receiver = get()
            if receiver is None:
                continue
            try:
                answer = _call(receiver, names, named)
            except Exception as error:
                answer = Failure()  # type: ignore[no-untyped-call]
                if not isinstance(error, (*_each(dont_log), StopDownload)):
                    _log_raised(receiver, error, named)
            else:
                if isinstance(answer, Deferred):
                    logger.error("Cannot return deferreds from signal handler: %s", receiver)
            answers.append((receiver, answer))
        return answers

    async def send_catch_log_async(
        self, signal: Any, *, sender: Any = None, dont_log: Any = None, **named: Any
    ) -> list[tuple[Any, Any]]:
        """Only a receiver that returns an awaitable gets a task."""
        known = self.known[signal] if sender is None else _BySignal(sender)[signal]
        named |= {"signal": signal, "sender": self.sender if sender is None else sender}

        def raised(receiver: Any, error: Exception) -> Exception:
            if not isinstance(error, _each(dont_log)):
                _log_raised(receiver, error, named)
            return error

        async def waited_for(receiver: Any, answer: Awaitable[Any]) -> Any:
            try:
                return await ensure_awaitable(answer, _warn=global_object_name(receiver))
            except Exception as error:
                return raised(receiver, error)

        answers, waits = {}, {}
        for get, names in known:
            receiver = get()
            if receiver is None:
                continue
            try:
                answers[receiver] = answer = _call(receiver, names, named)
            except Exception as error:
                answers[receiver] = raised(receiver, error)
            else:
                if answer is not None and (isinstance(answer, Deferred) or isawaitable(answer)):
                    waits[receiver] = waited_for(receiver, answer)
        if waits:
            done = await asyncio.gather(*waits.values(), return_exceptions=True)
            answers.update(zip(waits, done, strict=True))
        return list(answers.items())


def _call(receiver: Any, names: tuple[str, ...] | None, named: dict[str, Any]) -> Any:
    """Call `receiver` with the arguments that it takes: `robustApply` in a third of the time."""
    if names is None:
        return robustApply(receiver, **named)
    return receiver(**{name: named[name] for name in names if name in named})


def _each(dont_log: Any) -> tuple[type[Exception], ...]:
    """The exceptions that the sender of a signal does not want logged."""
    if dont_log is None:
        return ()
    return tuple(dont_log) if isinstance(dont_log, Sequence) else (dont_log,)


def _log_raised(receiver: Any, error: Exception, named: dict[str, Any]) -> None:
    logger.error(
        "Error caught on signal handler: %s", receiver,
        exc_info=error, extra={"spider": named.get("spider")},
    )  # fmt: skip
