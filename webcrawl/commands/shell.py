"""`scrapy shell`: Scrapy's command, which writes nothing to the crawl's folders."""

from __future__ import annotations

import argparse
import threading

from scrapy.commands import shell

from webcrawl.commands.debugging import DebugCommand

_END_S = 5.0  # for the thread of the reactor


class Command(DebugCommand, shell.Command):
    """The interactive shell; see `scrapy shell --help`."""

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        super().run(args, opts)
        _end_reactor()


def _end_reactor() -> None:
    """End the thread in which the reactor runs. Scrapy leaves it, and a loop that goes on while
    Python ends is now and then a segmentation fault.
    """
    from twisted.internet import reactor  # noqa: PLC0415  (its import installs it)

    ended: list[threading.Thread] = []
    is_called = threading.Event()

    def end() -> None:
        ended.append(threading.current_thread())
        reactor.crash()  # type: ignore[misc]
        is_called.set()

    reactor.callFromThread(end)
    is_called.wait(_END_S)
    for thread in ended:
        thread.join(_END_S)
