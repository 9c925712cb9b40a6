"""`scrapy report DIR`: what a crawl collected and what it missed, as a page, CSV files and JSON."""

from __future__ import annotations

import argparse
import re
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
from scrapy.exceptions import UsageError

from webcrawl.base.wording import printable
from webcrawl.parse.urls import canonicalize, host_of
from webcrawl.tools import command
from webcrawl.tools.report.folder import NoCrawlError, find_crawls
from webcrawl.tools.report.printed import write_report
from webcrawl.tools.stored import is_stored

WRONG = 2  # exit code for a DIR without a crawl and for options that cannot be used


class Command(command.Command):
    """Reads the crawl log, the time series, the frontier and, if asked, the WARC files."""

    arguments = "<DIR> [DIR ...] [options]"
    about = (
        "writes DIR/report/index.html, a page that needs no network, with"
        " each figure also as CSV beside it. DIR is a JOBDIR, or the folder of the crawl log"
        " (REPORT_DIR, by default WARC_DIR). Several folders are those of the hubs of a"
        " crawl: the report is of the whole crawl. DIR may be in an object store, as in"
        " ARCHIVE_STORE; then give -o. Changes nothing else."
        " docs/output.md lists the figures."
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        add = parser.add_argument
        add("-o", "--output", metavar="FOLDER", help="write the page to FOLDER")
        add("--crawl", metavar="ID", default="", help="the crawl, if DIR has several (the latest)")
        add("--tokens", action="store_true", help="count tokens: reads the WARC files")
        add(
            "--in-degree",
            metavar="DOMAIN",
            default="",
            help="list pages that link to DOMAIN or a subdomain: reads the WARC files",
        )
        add(
            "--hosts",
            action="store_true",
            help="print the registry of hosts; as CSV if standard output is no terminal",
        )
        add("--json", action="store_true", help="print the summary as JSON")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if not args:
            raise UsageError("give one folder, a JOBDIR or a REPORT_DIR, or one of each hub")
        if opts.hosts and opts.json:
            raise command.WrongUse("give --hosts or --json, not both")
        try:
            domain = domain_of(opts.in_degree)
            if is_stored(args[0]) and not opts.output:
                raise NoCrawlError("of a store: give -o FOLDER, where the page is written")
            with TemporaryDirectory(prefix="webcrawl-") as temporary:
                folder = find_crawls(args, Path(temporary), opts.crawl)
                write_report(folder, opts, domain)
        except NoCrawlError as error:
            self.fail(error, WRONG)
        except BrokenProcessPool:
            self.fail("a process that read WARC files was ended from outside", 1)
        except duckdb.Error as error:
            self.fail(f"The crawl log: {str(error).partition(chr(10))[0]}", 1)


def domain_of(text: str) -> str:
    """A domain as a canonical host; "" for "". NoCrawlError if it is none."""
    if not text:
        return ""
    url = None if set(text) & set("/:@?#\\ ") else canonicalize(f"http://{text}/")
    host = host_of(url).rstrip(".") if url is not None else ""
    if not re.fullmatch(r"[\w.-]+", host):
        raise NoCrawlError(f"--in-degree {printable(text)} is not a domain, such as tamu.edu")
    return host
