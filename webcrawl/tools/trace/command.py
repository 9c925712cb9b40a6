"""`scrapy trace URL...`: each step of the fetch of a URL, with its time and its result."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from typing import cast

from scrapy.settings import Settings
from uvloop import new_event_loop

from webcrawl.base.wording import INTERRUPTED
from webcrawl.tools import command
from webcrawl.tools.trace.tracer import Tracer


class Command(command.Command):
    """Traces URLs with `tracer`. Exit code 1 if a step failed, 130 for Ctrl-C."""

    arguments = "[options] <URL> ..."
    about = (
        "parsing the URL, DNS, connecting, loading, chunks, content"
        " coding and links, each with its time or sizes, then the header of the answer. Uses"
        " the settings of a crawl, but waits 1 s between two requests to a host unless"
        " DOWNLOAD_DELAY is set on the command line or robots.txt has a longer Crawl-delay."
        " Archives nothing. Exit code 1 if a step failed."
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument(
            "--robots",
            action="store_true",
            help="fetch robots.txt first, show the rule that decides, and obey it"
            " (-s ROBOTSTXT_OBEY=0: only show it)",
        )
        parser.add_argument("--follow", action="store_true", help="follow redirects of the page")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if not args:
            raise command.WrongUse("give one or more URLs")
        try:
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                self.exitcode = runner.run(self._trace(args, opts))
        except KeyboardInterrupt:
            print()
            self.exitcode = INTERRUPTED

    async def _trace(self, urls: Sequence[str], opts: argparse.Namespace) -> int:
        settings = cast("Settings", self.settings)
        tracer = Tracer(settings, _write, _note, robots=opts.robots, follow=opts.follow)
        failed = False
        try:
            for number, url in enumerate(urls):
                if number:
                    _write("\n")
                failed |= not await tracer.trace(url)
        finally:
            await tracer.close()
        return int(failed)


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _note(line: str) -> None:
    print(f"trace: {line}", file=sys.stderr)
