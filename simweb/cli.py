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
from simweb.ledger import Rules, faults
from simweb.model import FEATURES
from simweb.server import Options, SimulatedWeb
from simweb.spec import WorldSpec

try:  # a quarter less CPU per request
    from uvloop import new_event_loop
except ImportError:  # uvloop does not support Windows
    from asyncio import new_event_loop  # type: ignore[assignment]  # another class of loop

DESCRIPTION = "Serve a simulated web on loopback: DNS, many hosts, and a ledger that judges."


# The options of fields, in the order of `--help`: name, placeholder and help.
Rows = dict[str, tuple[str, str, str]]
WORLD: Rows = {
    "seed": ("seed", "N", "each N makes another web"),
    "hosts": ("hosts", "N", "hosts"),
    "pages_per_host": ("pages-per-host", "N", "mean number of pages per host"),
    "ips": ("ips", "N", "IP addresses; 0: 2/3 of hosts"),
    "seeds": ("seeds", "N", "seed URLs; 0: 1/10 of hosts"),
    "page_bytes": ("page-bytes", "N", "mean size of a page"),
    "menu": ("menu", "N", "links on every page of a host, in addition to 5 to 50 other links"),
    "br_share": ("br-share", "X", "share of hosts in .br"),
    "features": (
        *("features", "LIST"),
        (
            "default, all, none, a,b (only these) or -a,-b (without these); * matches any"
            " characters, a=9 sets a weight; see --list-features"
        ),
    ),
    "change_cycle_s": (
        *("changes", "S"),
        (
            "pages change: 12 %% 28 times in S seconds, 18 %% 4 times, the others seldom; the"
            " ledger tells how fresh a crawl keeps them; 0: never"
        ),
    ),
    "token": ("token", "NAME", "the crawler's product token in robots.txt"),
}
RULES: Rows = {
    "host_delay_s": ("host-delay", "S", "seconds between two requests to a host"),
    "ip_delay_s": ("ip-delay", "S", "seconds between two requests to an address"),
    "crawl_delay_max_s": ("crawl-delay-max", "S", "a longer Crawl-delay is cut to this"),
    "delay_factor": (
        *("delay-factor", "X"),
        "the delay is at least X times the smoothed time to first byte; 0: not judged",
    ),
    "adaptive_delay_max_s": ("adaptive-delay-max", "S", "up to here"),
    "tolerance_s": ("tolerance", "S", "accept requests this much too early"),
    "scope_suffix": ("scope-suffix", ".br", "suffix of the hosts in scope (all)"),
    "partial": ("partial", "", "the crawl may stop anywhere: do not look for missing pages"),
}
SERVING: Rows = {
    "port": ("port", "PORT", "port of HTTP; 0 here and below: any free port"),
    "secure_port": ("https-port", "PORT", "port of HTTPS"),
    "dns_port": ("dns-port", "PORT", "port of DNS"),
    "control_port": ("control-port", "PORT", "port of ledger and control"),
    "slowness": ("slowness", "X", "multiply all pauses by X"),
    "seeds_out": ("seeds-out", "FILE", "write the seed list here"),
    "journal": (
        *("journal", "FILE"),
        "write a line of JSON for each request and each answer to FILE",
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    world = parser.add_argument_group("the world")
    _add(world, WorldSpec(), WORLD)
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
    _add(parser.add_argument_group("the rules that the crawler must keep"), Rules(), RULES)
    serving = parser.add_argument_group("serving")
    _add(serving, Options(), SERVING)
    serving.add_argument(
        "--prepared",
        type=int,
        default=0,
        metavar="MB",
        help="make this many megabytes of pages before the first request (%(default)s)",
    )
    serving.add_argument(
        "--human", action="store_true", help="print text for people instead of JSON"
    )
    serving.add_argument(
        "--strict", action="store_true", help="exit code 1 if there are violations or missing pages"
    )


def _add(group: argparse._ArgumentGroup, spec: object, rows: Rows) -> None:
    """Add an option for each row. `spec` has the defaults."""
    for field, (name, placeholder, text) in rows.items():
        default = getattr(spec, field)
        if default is False:
            group.add_argument(f"--{name}", dest=field, action="store_true", help=text)
            continue
        shown = f"{text} (%(default)s)" if default != "" else text
        group.add_argument(
            f"--{name}",
            dest=field,
            type=type(default),
            default=default,
            metavar=placeholder,
            help=shown,
        )


def options(args: argparse.Namespace) -> Options:
    """The options of the server. Raises ValueError: one line with the name of the option."""
    for field, (name, placeholder, _) in SERVING.items():
        port = getattr(args, field)
        if placeholder == "PORT" and not 0 <= port <= 65535:
            raise ValueError(f"--{name} {port}: ports are 0 to 65535")
    if args.survey:
        spec = survey.spec(args.survey, args.seed, args.page_bytes, args.menu)
    else:
        spec = WorldSpec(**_values(args, WORLD), host_delay_s=args.host_delay_s)
    return Options(
        spec=spec,
        rules=Rules(**_values(args, RULES), slowness=args.slowness),
        survey_lines=args.survey,
        prepared_bytes=args.prepared << 20,
        **_values(args, SERVING),
    )


def _values(args: argparse.Namespace, rows: Rows) -> dict[str, Any]:
    return {field: getattr(args, field) for field in rows}


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
