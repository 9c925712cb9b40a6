"""`scrapy hub`: gives a hub whose machine is lost a JOBDIR (docs/cluster.md)."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeVar, cast

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError
from scrapy.settings import Settings

from webcrawl import __version__
from webcrawl.base.wording import needs_extra
from webcrawl.config.table import TABLE
from webcrawl.frontier.store import StoreError

if TYPE_CHECKING:  # each command loads this one, and only it loads nats-py
    from webcrawl.cluster.bus import Bus
    from webcrawl.cluster.checkpoints import Found
    from webcrawl.cluster.claims import Claim

T = TypeVar("T")


class Command(ScrapyCommand):
    """Makes a JOBDIR; the same `scrapy crawl` with it is the hub again."""

    requires_crawler_process = False
    default_settings = {"LOG_ENABLED": False}

    def syntax(self) -> str:
        return "restore <JOBDIR> --from FOLDER | begin <JOBDIR> --number K"

    def short_desc(self) -> str:
        return "Give a hub whose machine is lost a new JOBDIR"

    def long_desc(self) -> str:
        return (
            f"{self.short_desc()}, on any machine. Then start the same scrapy crawl with it."
            " `restore --from` makes it from the hub's folder in CLUSTER_CHECKPOINTS, or in"
            " ARCHIVE_STORE: pages since then are fetched again. `begin` makes an empty one for"
            " hub K of the crawl on the bus: all that only the lost hub knew is lost. Both are"
            " refused while the hub runs; they ask the bus, for 10 s. Exit codes: 0 done, 1 it"
            " could not be done, 2 wrong usage."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument(
            "--from", dest="source", metavar="FOLDER", help="the hub's checkpoints, or their URL"
        )
        parser.add_argument("--number", metavar="K", type=int, help="of the hub: 0 is the first")
        parser.add_argument("--cluster", metavar="URL", help="the bus, in place of CLUSTER")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        from webcrawl.cluster.bus import BusError  # noqa: PLC0415
        from webcrawl.cluster.claims import ClaimError  # noqa: PLC0415

        match args:
            case ["restore", jobdir] if opts.source and opts.number is None:
                do = self._restore
            case ["begin", jobdir] if opts.number is not None and not opts.source:
                do = self._begin
            case _:
                raise UsageError("give restore JOBDIR --from FOLDER, or begin JOBDIR --number K")
        try:
            print(do(Path(jobdir), opts))
        except (BusError, ClaimError, StoreError) as error:
            print(error, file=sys.stderr)
            self.exitcode = 1
        except OSError as error:
            print(f"{error.filename or jobdir}: {error.strerror}", file=sys.stderr)
            self.exitcode = 1

    def _restore(self, jobdir: Path, opts: argparse.Namespace) -> str:
        from webcrawl.cluster import restoring  # noqa: PLC0415

        restoring.refuse_if_used(jobdir)
        with TemporaryDirectory(prefix="webcrawl-") as folder:
            if "://" in opts.source:
                found = self._fetched(opts, Path(folder))
            else:
                found = restoring.find_checkpoint(Path(opts.source))
                self._refuse_if_owned(opts, found[1].claim)
            restoring.make_jobdir(jobdir, found[1].claim, found[0])
        minutes = (time.time() - found[1].time) / 60
        return f"{jobdir} is {_named(found[1].claim)}, as it was {minutes:.0f} min ago"

    def _fetched(self, opts: argparse.Namespace, folder: Path) -> Found:
        from webcrawl.cluster.sentcheckpoints import fetch_checkpoint  # noqa: PLC0415

        try:
            return fetch_checkpoint(opts.source, folder, partial(self._refuse_if_owned, opts))
        except ModuleNotFoundError:
            raise StoreError(needs_extra(opts.source, "obstore", "store")) from None

    def _begin(self, jobdir: Path, opts: argparse.Namespace) -> str:
        from webcrawl.cluster import restoring  # noqa: PLC0415

        restoring.refuse_if_used(jobdir)
        wanted = __version__, opts.number
        claim = self._ask_bus(opts, lambda bus: restoring.claim_of(bus, *wanted))
        restoring.make_jobdir(jobdir, claim, None)
        return f"{jobdir} is {_named(claim)}, and is empty"

    def _refuse_if_owned(self, opts: argparse.Namespace, claim: Claim) -> None:
        from webcrawl.cluster.restoring import refuse_if_owned  # noqa: PLC0415

        self._ask_bus(opts, lambda bus: refuse_if_owned(bus, claim.crawl, claim.number))

    def _ask_bus(self, opts: argparse.Namespace, ask: Callable[[Bus], Awaitable[T]]) -> T:
        """Raises what `ask` raises, and BusError."""
        from webcrawl.config.cluster import bus_from  # noqa: PLC0415

        settings = cast("Settings", self.settings)
        if opts.cluster:
            settings.set("CLUSTER", opts.cluster, "cmdline")
        if not settings.get("CLUSTER"):
            raise UsageError("give --cluster URL", print_help=False)
        if not TABLE["CLUSTER"].fits(settings["CLUSTER"]):
            raise UsageError(f"--cluster: allowed is {TABLE['CLUSTER'].allowed}")

        async def over() -> T:
            bus = bus_from(settings)
            await bus.open()
            try:
                return await ask(bus)
            finally:
                await bus.close()

        return asyncio.run(over())


def _named(claim: Claim) -> str:
    return f"hub {claim.number} of the crawl {claim.crawl}"
