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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _add_world(parser.add_argument_group("the world"))
    _add_rules(parser.add_argument_group("the rules that the crawler must keep"))
    _add_serving(parser.add_argument_group("serving"))


def _add_world(group: argparse._ArgumentGroup) -> None:
    default = WorldSpec()
    group.add_argument(
        "--seed", type=int, default=1, metavar="N", help="each N makes another web (%(default)s)"
    )
    group.add_argument(
        "--hosts", type=int, default=default.hosts, metavar="N", help="hosts (%(default)s)"
    )
    group.add_argument(
        "--pages-per-host",
        type=float,
        default=default.pages_per_host,
        metavar="N",
        help="mean number of pages per host (%(default)s)",
    )
    group.add_argument(
        "--ips", type=int, default=0, metavar="N", help="IP addresses (2/3 of hosts)"
    )
    group.add_argument(
        "--seeds", type=int, default=0, metavar="N", help="seed URLs (1/10 of hosts)"
    )
    group.add_argument(
        "--page-bytes",
        type=int,
        default=default.page_bytes,
        metavar="N",
        help="mean size of a page (%(default)s)",
    )
    group.add_argument(
        "--menu",
        type=int,
        default=default.menu,
        metavar="N",
        help="links on every page of a host, in addition to 5 to 50 other links (%(default)s)",
    )
    group.add_argument(
        "--br-share",
        type=float,
        default=default.br_share,
        metavar="X",
        help="share of hosts in .br (%(default)s)",
    )
    group.add_argument(
        "--features",
        default=default.features,
        metavar="LIST",
        help="default, all, none, a,b (only these) or -a,-b (without these); * matches any "
        "characters, a=9 sets a weight; see --list-features",
    )
    group.add_argument(
        "--changes",
        type=float,
        default=0.0,
        metavar="S",
        help="pages change: 12 %% 28 times in S seconds, 18 %% 4 times, the others seldom; the"
        " ledger tells how fresh a crawl keeps them (%(default)s: never)",
    )
    group.add_argument("--list-features", action="store_true", help="print the features and exit")
    group.add_argument(
        "--survey",
        type=int,
        nargs="?",
        const=300_000,
        default=0,
        metavar="N",
        help="serve the world of a list of N URLs (300000); the ledger has the expected counts",
    )


def _add_rules(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--host-delay",
        type=float,
        default=0.5,
        metavar="S",
        help="seconds between two requests to a host (%(default)s)",
    )
    group.add_argument(
        "--ip-delay",
        type=float,
        default=0.0,
        metavar="S",
        help="seconds between two requests to an address (%(default)s)",
    )
    group.add_argument(
        "--crawl-delay-max",
        type=float,
        default=float("inf"),
        metavar="S",
        help="a longer Crawl-delay is cut to this (no limit)",
    )
    group.add_argument(
        "--delay-factor",
        type=float,
        default=0.0,
        metavar="X",
        help="the delay is at least X times the smoothed time to first byte (not judged)",
    )
    group.add_argument(
        "--adaptive-delay-max",
        type=float,
        default=float("inf"),
        metavar="S",
        help="up to here (no limit)",
    )
    group.add_argument(
        "--tolerance",
        type=float,
        default=0.0,
        metavar="S",
        help="accept requests this much too early (%(default)s)",
    )
    group.add_argument(
        "--scope-suffix", default="", metavar=".br", help="suffix of the hosts in scope (all)"
    )
    group.add_argument(
        "--partial",
        action="store_true",
        help="the crawl may stop anywhere: do not look for missing pages",
    )
    group.add_argument(
        "--token",
        default=WorldSpec().token,
        help="the crawler's product token in robots.txt (%(default)s)",
    )


def _add_serving(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--port", type=int, default=0, help="port of HTTP; 0 here and below: any free port"
    )
    group.add_argument("--https-port", type=int, default=0, metavar="PORT")
    group.add_argument("--dns-port", type=int, default=0, metavar="PORT")
    group.add_argument("--control-port", type=int, default=0, metavar="PORT")
    group.add_argument(
        "--slowness",
        type=float,
        default=1.0,
        metavar="X",
        help="multiply all pauses by X (%(default)s)",
    )
    group.add_argument(
        "--prepared",
        type=int,
        default=0,
        metavar="MB",
        help="make this many megabytes of pages before the first request (%(default)s)",
    )
    group.add_argument("--seeds-out", default="", metavar="FILE", help="write the seed list here")
    group.add_argument(
        "--journal",
        default="",
        metavar="FILE",
        help="write a line of JSON for each request and each answer to FILE",
    )
    group.add_argument("--human", action="store_true", help="print text for people instead of JSON")
    group.add_argument(
        "--strict", action="store_true", help="exit code 1 if there are violations or missing pages"
    )


def options(args: argparse.Namespace) -> Options:
    """The options of the server. Raises ValueError: one line with the name of the option."""
    for name in ("port", "https_port", "dns_port", "control_port"):
        if not 0 <= getattr(args, name) <= 65535:
            option = name.replace("_", "-")
            raise ValueError(f"--{option} {getattr(args, name)}: ports are 0 to 65535")
    if args.survey:
        spec = survey.spec(args.survey, args.seed, args.page_bytes, args.menu)
    else:
        spec = WorldSpec(
            seed=args.seed,
            hosts=args.hosts,
            pages_per_host=args.pages_per_host,
            ips=args.ips,
            features=args.features,
            br_share=args.br_share,
            page_bytes=args.page_bytes,
            menu=args.menu,
            seeds=args.seeds,
            host_delay_s=args.host_delay,
            token=args.token,
            change_cycle_s=args.changes,
        )
    rules = Rules(
        host_delay_s=args.host_delay,
        ip_delay_s=args.ip_delay,
        crawl_delay_max_s=args.crawl_delay_max,
        tolerance_s=args.tolerance,
        scope_suffix=args.scope_suffix,
        partial=args.partial,
        delay_factor=args.delay_factor,
        adaptive_delay_max_s=args.adaptive_delay_max,
        slowness=args.slowness,
    )
    return Options(
        spec=spec,
        rules=rules,
        port=args.port,
        secure_port=args.https_port,
        dns_port=args.dns_port,
        control_port=args.control_port,
        slowness=args.slowness,
        survey_lines=args.survey,
        prepared_bytes=args.prepared << 20,
        seeds_out=args.seeds_out,
        journal=args.journal,
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
