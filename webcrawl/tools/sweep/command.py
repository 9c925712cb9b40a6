"""`scrapy sweep`: how fast, how large and how long, by experiment.

By default the crawls run on a simulated web of this machine, which is imported only then: an
installed package has none.
"""

from __future__ import annotations

import argparse
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import cast

from scrapy.settings import Settings

from webcrawl.base.wording import INTERRUPTED
from webcrawl.config.check import problems_of
from webcrawl.config.table import read
from webcrawl.spiders.broad import BroadSpider, project_root
from webcrawl.spiders.seeds import BadSeed, SeedSource
from webcrawl.tools import command
from webcrawl.tools.report.folder import find_crawl
from webcrawl.tools.report.page import write_page
from webcrawl.tools.report.report import make_report, open_crawl
from webcrawl.tools.sweep.sweeps import (
    LONG_CRAWL,
    CrawlFailed,
    Lab,
    concurrency,
    memory_against_disk,
    write_csv,
)

STEPS = "8,16,32,64,128,256,512"
STEPS_MAX = 64  # those of 8:512:8
HOUR_S = 3600.0
PAGES = 1_000
PAGES_OF_STORES = 100_000
# Each crawl has its own values of these.
MANAGED = {
    *("CLOSESPIDER_PAGECOUNT", "CLOSESPIDER_TIMEOUT"),
    *("CONCURRENT_REQUESTS", "FRONTIER_STORE", "JOBDIR", "LOG_FILE", "REPORT_DIR"),
    *("STATS_INTERVAL", "WARC_DIR"),
}
# Pages of 25 kB, three in ten with gzip, on servers that all answer after the same time.
FEATURES = (
    "page-plain=40,page-chunked=25,page-gzip=30,page-404=5,"
    "robots-allow-all=50,robots-none=25,robots-some=15,robots-wildcards=10,"
    "host-plain=0,host-slow=1"
)


class Command(command.Command):
    """Runs one of the experiments of `webcrawl.tools.sweep.sweeps`.

    Exit code 1 if a crawl failed, 2 for wrong arguments, 130 after Ctrl-C. Crawls that were done
    before keep their results.
    """

    arguments = "[options]"
    about = (
        f"by default {PAGES:,} pages with each of {STEPS} fetches at once. Crawls a simulated"
        " web on this machine, or your own seeds with the delays of a real crawl. Writes CSV"
        " files and plots."
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        what = parser.add_mutually_exclusive_group()
        what.add_argument(
            "--steps",
            default=STEPS,
            metavar="LIST",
            help=f"fetches at once: {STEPS}, or FIRST:LAST:STEP such as 8:512:8",
        )
        what.add_argument(
            "--memory-vs-disk",
            action="store_true",
            help=f"{PAGES_OF_STORES:,} pages with the frontier in memory, then on disk",
        )
        what.add_argument("--long", action="store_true", help="one crawl, for an hour")
        parser.add_argument("--pages", type=int, metavar="N", help="pages of each crawl")
        parser.add_argument(
            "--longest",
            type=float,
            metavar="S",
            help=f"end each crawl after S seconds (900; {HOUR_S:g} with --memory-vs-disk, --long)",
        )
        parser.add_argument(
            "-a",
            dest="spargs",
            action="append",
            default=[],
            metavar="seeds=SEEDS",
            help="crawl these, as `scrapy crawl broad` does, in place of a simulated web",
        )
        parser.add_argument(
            "--latency",
            type=float,
            default=1.0,
            metavar="S",
            help="time of a simulated server before each answer (1.0)",
        )
        parser.add_argument(
            "--out", type=Path, default=Path("sweep"), metavar="DIR", help="for results (sweep)"
        )
        parser.add_argument(
            "--keep", action="store_true", help="keep the archive and the frontier of each crawl"
        )

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if args:
            raise command.WrongUse("takes options only")
        steps, seeds = steps_of(opts.steps), seeds_of(opts.spargs)
        for name, value in (("pages", opts.pages), ("longest", opts.longest)):
            if value is not None and value <= 0:
                raise command.WrongUse(f"--{name} {value}: more than 0 is needed")
        if opts.latency < 0:
            raise command.WrongUse(f"--latency {opts.latency}: 0 or more is needed")
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            lab = self._lab(seeds, opts)
            with nullcontext() if seeds else simulated_web(lab, opts):
                _experiment(lab, opts, steps)
        except BadSeed as error:
            self.fail(f"bad seed: {error}", 1)
        except (CrawlFailed, OSError) as error:
            self.fail(f"sweep: {error}", 1)
        except KeyboardInterrupt:
            self.fail(f"sweep: stopped; {opts.out} has the crawls before", INTERRUPTED)

    def _lab(self, seeds: str, opts: argparse.Namespace) -> Lab:
        """Where the results go, and the settings of all crawls.

        UsageError, BadSeed, CrawlFailed.
        """
        settings = cast("Settings", self.settings)
        chosen = dict(each.split("=", 1) for each in opts.set)
        if managed := MANAGED & chosen.keys():
            raise command.WrongUse(f"{min(managed)} is set by the sweep")
        if problems := problems_of(settings, BroadSpider):
            raise command.WrongUse("; ".join(problems))
        if seeds:
            SeedSource(seeds, project_root()).check()
        elif find_spec("simweb") is None:
            raise CrawlFailed(
                "the simulated web needs a checkout of webcrawl: run at its root, or give"
                " -a seeds=..."
            )
        try:
            if opts.out.exists() and any(opts.out.iterdir()):
                raise command.WrongUse(f"--out {opts.out} is not empty: choose another folder")
            opts.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise command.WrongUse(f"--out {opts.out}: {error.strerror}") from None
        longest_s = HOUR_S if opts.long or opts.memory_vs_disk else 900.0
        return Lab(
            seeds=seeds,
            folder=opts.out,
            settings=chosen,
            longest_s=opts.longest or longest_s,
            pause_s=read(settings, "DOWNLOAD_DELAY", float) if seeds else 0.0,
            keep=opts.keep,
        )


def _experiment(lab: Lab, opts: argparse.Namespace, steps: Sequence[int]) -> None:
    if opts.long:
        LONG_CRAWL.run(lab)
        folder = find_crawl(lab.folder / "long")
        with open_crawl(folder) as (log, state):
            print(write_page(make_report(log, folder, state), folder.report_dir / "report"))
    elif opts.memory_vs_disk:
        done = memory_against_disk(opts.pages or PAGES_OF_STORES).run(lab)
        rows = [{"store": row["store"], **asdict(each)} for row, seen in done for each in seen]
        write_csv(lab.folder / "memory-vs-disk-samples.csv", rows)
    else:
        concurrency(steps, opts.pages or PAGES).run(lab)


def steps_of(text: str) -> list[int]:
    """The numbers of "8,16" or "8:512:8". UsageError."""
    try:
        first, *rest = (int(each) for each in text.split(":" if ":" in text else ","))
        if ":" in text:
            last, step = rest
            steps = list(range(first, last + 1, step)[: STEPS_MAX + 1])
        else:
            steps = [first, *rest]
        if not steps or min(steps) < 1 or len(steps) > STEPS_MAX or len(set(steps)) < len(steps):
            raise ValueError(text)
    except ValueError:
        raise command.WrongUse(
            f"--steps {text}: different numbers from 1, such as 8,16,32 or 8:512:8,"
            f" at most {STEPS_MAX}"
        ) from None
    return steps


def seeds_of(arguments: Sequence[str]) -> str:
    """The seeds of `-a seeds=...`; "" without. UsageError."""
    seeds = ""
    for argument in arguments:
        name, _, seeds = argument.partition("=")
        if name != "seeds" or not seeds:
            raise command.WrongUse(f"-a {argument}: only -a seeds=... is known")
    if seeds == "-":
        raise command.WrongUse("-a seeds=-: standard input cannot be read twice")
    return seeds


@contextmanager
def simulated_web(lab: Lab, opts: argparse.Namespace) -> Iterator[None]:
    """Serve a simulated web for the experiment, as the seeds and settings of `lab`."""
    simweb = import_module("simweb")
    seeds = lab.folder / "seeds.txt"
    with simweb.running(*world(opts), f"--seeds-out={seeds}") as web:

        def judge() -> list[str]:
            faults: list[str] = simweb.faults(web.ledger())
            web.reset()
            return faults

        delays = {} if opts.long else {"DOWNLOAD_DELAY": 0, "IP_DELAY": 0}
        lab.seeds, lab.judge = str(seeds), judge
        lab.settings = {
            "DNS_SERVERS": web.dns,
            "ALLOW_PRIVATE_ADDRESSES": 1,
            **delays,
            **lab.settings,
        }
        yield


def world(opts: argparse.Namespace) -> list[str]:
    """The arguments of a simulated web that is larger than the crawl."""
    if opts.long:  # the usual web, with its failures, and the default delays
        size = ("--hosts=2000", "--pages-per-host=150")
        return [*size, "--host-delay=30", "--ip-delay=1", "--crawl-delay-max=300", "--partial"]
    pages = opts.pages or (PAGES_OF_STORES if opts.memory_vs_disk else PAGES)
    if opts.memory_vs_disk:
        size = (f"--hosts={min(10_000, 100 + pages)}", "--pages-per-host=30")
    else:
        size = (f"--hosts={100 + 2 * pages}", "--pages-per-host=10")
    hosts = size[0].replace("hosts", "seeds")
    rest = (f"--features={FEATURES}", "--host-delay=0", f"--slowness={opts.latency}", "--partial")
    return [*size, hosts, *rest]
