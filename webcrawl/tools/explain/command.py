"""`scrapy explain JOBDIR URL`: why a URL was fetched, refused, or is waiting."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import cast
from urllib.parse import quote

from scrapy.exceptions import UsageError
from scrapy.settings import Settings

from webcrawl.base.textfile import named_folder
from webcrawl.base.wording import SettingError
from webcrawl.config.build import hub_in
from webcrawl.frontier.buckets import hub_of
from webcrawl.frontier.disk.database import is_begun
from webcrawl.frontier.disk.frontier import FOLDER
from webcrawl.frontier.disk.inspection import Inspection
from webcrawl.frontier.store import StoreError
from webcrawl.live.client import NotRunning, Refused, ask
from webcrawl.live.explanation import SCOPE_SETTINGS, explained
from webcrawl.parse.urls import canonicalize, host_of
from webcrawl.tools import command


class Command(command.Command):
    """Prints how scope, caps, robots.txt, the queue and the delays have decided on one URL."""

    arguments = "<JOBDIR> <URL>"
    about = (
        "its outcome and the time, the scope rule, cap or robots.txt"
        " rule that decided, the rules of its host (RULES), its level, the page it was found"
        " on, its place in the queue, and when its host may be asked next. Times are UTC. Reads"
        " the last commit, also while the crawl runs, and changes nothing. In a crawl with"
        " several hubs, the hub that runs in JOBDIR asks the one that has the URL."
    )

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        settings = cast("Settings", self.settings)
        if len(args) == 2:
            settings.set("JOBDIR", args.pop(0), "cmdline")
        if len(args) != 1 or not settings.get("JOBDIR"):  # -s JOBDIR=... was the only way
            raise UsageError("give the folder of the crawl, its JOBDIR, and one URL")
        url = canonicalize(args[0])
        if url is None:
            raise command.WrongUse(f"{args[0]} is not an http(s) URL")
        jobdir = named_folder(settings["JOBDIR"])
        try:
            hub = hub_in(jobdir)
            owner = hub_of(host_of(url), hub.hubs) if hub is not None else 0
            is_elsewhere = hub is not None and hub.number != owner
            has_rows = is_begun(jobdir / FOLDER) and not is_elsewhere
            if not has_rows and (lines := _of_running_crawl(jobdir, url)):
                print(*lines, sep="\n")
                return
            if is_elsewhere:
                raise StoreError(
                    f"{url} is a URL of hub {owner}: give the JOBDIR of that hub, or ask while this"
                    " one runs"
                )
            frontier = Inspection(jobdir / FOLDER)
            # Of the crawl's last run, whose command line may have set them.
            for name in SCOPE_SETTINGS & frontier.settings.keys():
                settings.set(name, frontier.settings[name], "cmdline")
            print(*explained(settings, frontier, url), sep="\n")
            frontier.close()
        except (StoreError, SettingError, Refused) as error:
            self.fail(error, 1)


def _of_running_crawl(jobdir: Path, url: str) -> list[str]:
    """The lines of the crawl that runs in `jobdir`; none if none runs. Refused."""
    try:
        answer = ask(jobdir, "GET", f"/explain?url={quote(url, safe='')}")
    except NotRunning:
        return []
    lines = answer.get("lines", []) if isinstance(answer, dict) else []
    return [str(line) for line in lines]
