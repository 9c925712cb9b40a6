"""`scrapy shard JOBDIR COMMAND`: where the shards of a crawl are, and their moves."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from webcrawl.cluster.agreement.nodefile import NodeFileError, read_node
from webcrawl.cluster.bus import Bus, BusError, bus_from
from webcrawl.cluster.errors import MoveError
from webcrawl.config.table import read
from webcrawl.live.client import NotRunning, Refused, ask_for
from webcrawl.report.console import discard_output

_COMMANDS = ("list", "move", "checkpoint", "restore", "leave")
_USAGE = (
    "JOBDIR list; JOBDIR move SHARD NODE; JOBDIR checkpoint [--to DIR];"
    " JOBDIR restore SHARD --from DIR; JOBDIR leave. With --cluster URL in place of a JOBDIR:"
    " list, and move SHARD NODE"
)


class Command(ScrapyCommand):
    """Asks a node, over the socket in its JOBDIR, or all nodes over the bus."""

    requires_crawler_process = False
    default_settings = {"LOG_ENABLED": False}

    def syntax(self) -> str:
        return "<JOBDIR>|--cluster URL <COMMAND> [ARG ...]"

    def short_desc(self) -> str:
        return "Shards of a crawl on several machines: list, move, checkpoint, restore, leave"

    def long_desc(self) -> str:
        return (
            f"{self.short_desc()}. {_USAGE}. NODE is the ID of a node, or its beginning. Exit"
            " codes: 0 done, 1 no node runs there or it could not be done, 2 wrong usage."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--cluster", metavar="URL", help="the bus, as in the setting CLUSTER")
        parser.add_argument("--to", metavar="DIR", help="where checkpoints are made")
        parser.add_argument("--from", dest="source", metavar="DIR", help="where checkpoints are")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        try:
            print(self._answer(args, opts), flush=True)
        except BrokenPipeError:  # the reader of standard output has exited, as `head` does
            discard_output()
        except (NotRunning, Refused, MoveError, BusError, NodeFileError) as error:
            print(error, file=sys.stderr)
            self.exitcode = 1

    def _answer(self, args: list[str], opts: argparse.Namespace) -> str:
        jobdir = None
        if not opts.cluster:
            if len(args) < 2:
                raise UsageError(_USAGE)
            if args[0] in _COMMANDS:  # the order was COMMAND JOBDIR
                args[:2] = reversed(args[:2])
            jobdir = Path(args.pop(0))
        command, *rest = args or [""]
        match command, rest:
            case "list", []:
                order = ["list"]
            case "move", [shard, node]:
                order = ["move", shard, node]
            case "checkpoint", [] if jobdir:
                order = ["checkpoint", *([os.path.abspath(opts.to)] if opts.to else [])]
            case "restore", [shard] if jobdir and opts.source:
                order = ["restore", shard, os.path.abspath(opts.source)]
            case "leave", [] if jobdir:
                order = ["leave"]
            case _:
                raise UsageError(_USAGE)
        if jobdir is None:
            return self._over_bus(opts.cluster, order)
        try:
            return ask_for(jobdir, "/shard", order)
        except NotRunning as error:
            raise NotRunning(f"{error}{_of_stopped(jobdir)}") from None

    def _over_bus(self, url: str, order: list[str]) -> str:
        from webcrawl.cluster.moving.desk import (  # noqa: PLC0415  (each command loads this one)
            listing,
            move,
        )

        assert self.settings is not None
        try:
            bus = bus_from(url, read(self.settings, "CLUSTER_NAME", str))
        except ValueError as error:
            raise UsageError(f"--cluster {error}", print_help=False) from None

        async def over(do: Callable[[Bus], Coroutine[Any, Any, str]]) -> str:
            await bus.open()
            try:
                return await do(bus)
            finally:
                await bus.close()

        async def lines(bus: Bus) -> str:
            return "\n".join(await listing(bus))

        async def moved(bus: Bus) -> str:
            return await move(bus, order[1], order[2])

        return asyncio.run(over(lines if order == ["list"] else moved))


def _of_stopped(jobdir: Path) -> str:
    """What the file of a node that does not run says."""
    node = read_node(jobdir)
    if node is None:
        return ""
    has = ", ".join(map(str, sorted(node.begun))) or "none"
    return f"; it is that of node {node.node}, with the shards {has}"
