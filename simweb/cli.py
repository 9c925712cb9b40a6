"""The command line of the simulated web, for `python -m simweb` and `scrapy simweb`."""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import stat
import sys
from typing import Any

from simweb import survey
from simweb.features import select
from simweb.ledger import Rules, faults
from simweb.model import FEATURES
from simweb.options import add_options, values
from simweb.server import Options, SimulatedWeb
from simweb.spec import WorldSpec

try:  # a quarter less CPU per request
    from uvloop import new_event_loop
except ImportError:  # uvloop does not support Windows
    from asyncio import new_event_loop  # type: ignore[assignment]  # another class of loop

DESCRIPTION = "Serve a simulated web on loopback: DNS, many hosts, and a ledger that judges."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    world = parser.add_argument_group("the world")
    add_options(world, WorldSpec)
    world.add_argument("--list-features", action="store_true", help="print the features and exit")
    world.add_argument(
        "--survey",
        type=int,
        nargs="?",
        const=300_000,
        default=0,
        metavar="N",
        help="serve the world of a list of N URLs (300000); the ledger has the expected counts",
    )
    add_options(parser.add_argument_group("the rules that the crawler must keep"), Rules)
    serving = parser.add_argument_group("serving")
    add_options(serving, Options)
    serving.add_argument(
        "--human", action="store_true", help="print text for people instead of JSON"
    )
    serving.add_argument(
        "--strict", action="store_true", help="exit code 1 if there are violations or missing pages"
    )


def options(args: argparse.Namespace) -> Options:
    """The options of the server. Raises ValueError: one line with the name of the option."""
    serving = values(args, Options)
    for name, port in serving.items():
        if name.endswith("port") and not 0 <= port <= 65535:
            raise ValueError(f"--{name.replace('_', '-')} {port}: ports are 0 to 65535")
    if args.hosts < 1:
        raise ValueError(f"--hosts {args.hosts}: at least 1")
    select(args.features, FEATURES)  # before a socket is bound
    if args.survey:
        spec = survey.spec(args.survey, args.seed, args.page_bytes, args.menu)
    else:
        spec = WorldSpec(**values(args, WorldSpec), host_delay_s=args.host_delay_s)
    return Options(
        spec=spec,
        rules=Rules(**values(args, Rules)),
        survey_lines=args.survey,
        **serving,
    )


def feature_list() -> str:
    """One line per feature. `-` marks a feature that is off by default."""
    lines = [f"{'' if row.default else '-'}{row.name:<22} {row.about}" for row in FEATURES]
    return "\n".join(lines)


def run(args: argparse.Namespace) -> int:
    """Serves until it is stopped. Returns the exit code."""
    if args.list_features:
        print(feature_list())
        return 0
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            report = runner.run(_serve(args))
    except (OSError, ValueError) as error:
        print(f"simweb: {error}", file=sys.stderr)
        return 2
    wrong = faults(report)
    print(_summary(report, wrong) if args.human else json.dumps(report), flush=True)
    return 1 if args.strict and wrong else 0


async def _serve(args: argparse.Namespace) -> dict[str, Any]:
    web = SimulatedWeb(options(args))
    ready = await web.start()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    if not args.human:
        _stop_with_stdin(web)
        print(json.dumps(ready), flush=True)
    else:
        for name, value in ready.items():
            print(f"{name:<8} {value}", flush=True)
    await web.run()
    return web.report()


def _stop_with_stdin(web: SimulatedWeb) -> None:
    """Stops the web at the end of standard input if that is a pipe: it ends with its parent."""
    if not stat.S_ISFIFO(os.fstat(0).st_mode):
        return
    loop = asyncio.get_running_loop()

    def readable() -> None:
        if not os.read(0, 4096):
            loop.remove_reader(0)
            web.stop()

    loop.add_reader(0, readable)


def _summary(report: dict[str, Any], wrong: list[str]) -> str:
    totals, fetched = report["totals"], report["fetched"]
    reached = []
    if "truth" in report:
        truth, missing = report["truth"]["pages"], report["missing"]["count"]
        reached = [f"{truth} pages must be reached, {missing} are missing"]
    lines = [
        f"{totals.get('requests', 0)} requests, {totals.get('robots', 0)} for robots.txt",
        f"{fetched['pages']} pages on {fetched['hosts']} hosts, {totals.get('retries', 0)} retries",
        *reached,
        f"{report['dns']['queries']} DNS queries for {report['dns']['names']} names",
        *wrong,
    ]
    return "\n".join(lines if wrong else [*lines, "no violation"])
