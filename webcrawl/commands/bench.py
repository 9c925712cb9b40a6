"""`scrapy bench`: Scrapy's spider and server on this machine, without delays and robots.txt.

It measures one host with one request at a time, since the frontier allows no more per host. The
speed of a broad crawl is in docs/performance.md.
"""

from __future__ import annotations

import argparse

from scrapy.commands import bench

from webcrawl.commands.debugging import DebugCommand

SETTINGS = {
    "ALLOW_PRIVATE_ADDRESSES": True,  # Scrapy's server is on this machine
    "CLOSESPIDER_TIMEOUT": 10,
    "IP_DELAY": 0,
    "LOGSTATS_INTERVAL": 1,
    "ROBOTSTXT_OBEY": False,  # Scrapy's server serves a page under that path too
    "SCOPE_ALLOW": [],
    "SCOPE_DENY": [],
    "SCOPE_RULES": [],
    "SCOPE_SUFFIXES": [],
}


class Command(DebugCommand, bench.Command):
    """Runs a quick benchmark; see `scrapy bench --help`."""

    delay_s = 0.0

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        super().process_options(args, opts)
        assert self.settings is not None
        for name, value in SETTINGS.items():
            self.settings.set(name, value, priority="cmdline")
