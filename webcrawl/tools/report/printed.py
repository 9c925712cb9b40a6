"""What `scrapy report` writes and prints: the page, ten lines, the summary as JSON, the hosts."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from webcrawl.base.wording import by_reason, counted, printable, size_text
from webcrawl.frontier.counters import REFUSED_ACCESS
from webcrawl.tools.report.archive import Found, read_archive
from webcrawl.tools.report.columns import WORDS
from webcrawl.tools.report.folder import CrawlFolder
from webcrawl.tools.report.page import duration_text, write_page
from webcrawl.tools.report.report import Report, make_report, open_crawl
from webcrawl.tools.report.summary import counts_of
from webcrawl.tools.report.tables import one, write_csv

LISTED = 8  # HTTP codes and reasons in the printed lines


def write_report(folder: CrawlFolder, opts: argparse.Namespace, domain: str) -> None:
    """Write the page and print what the options ask for.

    NoCrawlError, OSError; duckdb.Error: no room for its files, for example.
    """
    if folder.others:
        others = f"{len(folder.others)} other crawls" if len(folder.others) > 1 else "another crawl"
        where = folder.report_dir if folder.jobdir or not folder.store else folder.store
        print(
            f"Reports on crawl {folder.crawl}; {where} also has {others}: --crawl"
            f" {folder.others[-1]}",
            file=sys.stderr,
        )
    with ExitStack() as stack:
        log, state = stack.enter_context(open_crawl(folder))
        found = None
        if opts.tokens or domain:
            found = _read_archive(log, folder, opts.tokens, domain)
        report = make_report(log, folder, state, found, domain)
        path = write_page(
            report, Path(opts.output) if opts.output else folder.report_dir / "report"
        )
        if opts.json:
            print(json.dumps(summary_of(report, path), indent=1))
        elif opts.hosts:
            print(path, file=sys.stderr)
            _print_hosts(report)
        else:
            print(path, *lines_of(report), sep="\n")


def _read_archive(log: Any, folder: CrawlFolder, has_tokens: bool, domain: str) -> Found:
    """Shows a bar on standard error, if that is a terminal."""
    (pages,) = one(log, "SELECT count(warc) FROM document")
    warc_dirs = [(part.warc_dir, part.store) for part in folder.parts]
    with Progress(console=Console(stderr=True), disable=not sys.stderr.isatty()) as bar:
        advance = partial(bar.advance, bar.add_task(f"{pages:,} pages of WARC files", total=pages))
        found = read_archive(log, warc_dirs, has_tokens=has_tokens, domain=domain, progress=advance)
    if found.unread:
        dirs = ", ".join(url or str(folder) for folder, url in warc_dirs)
        print(f"{found.unread:,} pages cannot be read from {dirs}", file=sys.stderr)
    return found


def summary_of(report: Report, path: Path) -> dict[str, Any]:
    """The summary as JSON values."""
    folder = report.folder
    funnel = {row["stage"]: row["count"] for row in report.tables["funnel"].records()}
    return {
        "crawl": report.folder.crawl,
        "state": report.state.text,
        "page": str(path),
        **report.totals,
        "funnel": funnel,
        "codes": {str(r["status"]): r["pages"] for r in report.tables["codes"].records()},
        "reasons": {
            f"{r['ended_as']}/{r['reason']}": r["urls"] for r in report.tables["reasons"].records()
        },
        "page_requisites": counts_of(report.state, "requisites"),
        "walls": {service: count for service, count, _ in report.walls},
        "questions": {r["figure"]: r["value"] for r in report.tables["questions"].records()},
        "unreadable_lines": report.unreadable,
        **({"hubs": [folder.hubs_given, folder.hubs]} if folder.hubs > 1 else {}),
        **({"in_degree": {"domain": report.domain, **report.in_degree}} if report.domain else {}),
    }


def lines_of(report: Report) -> list[str]:
    """The ten most useful lines, one about page requisites, bot walls, and --in-degree each."""
    tables = report.tables
    funnel = "  ".join(f"{row['stage']} {row['count']:,}" for row in tables["funnel"].records())
    codes = most_of(
        [
            # With its name if the owner refuses access.
            (f"{code}{f' {name}' if code in REFUSED_ACCESS else ''}: {pages:,}", pages)
            for code, name, pages, *_ in tables["codes"].rows()
        ]
    )
    words = WORDS["reasons", "ended_as"]
    losses = most_of(
        [
            (f"{reason} {urls:,} ({words.get(ended_as, ended_as)})", urls)
            for reason, ended_as, urls in tables["reasons"].rows()
        ]
    )
    largest = ", ".join(
        f"{row['host']} {row['pages']:,}" for row in tables["largest_hosts"].records(5)
    )
    t = report.totals
    hosts = f"{t['hosts_answered']:,} hosts in {t['registered_domains_answered']:,} domains"
    request = f"{t['mean_request_s']:.3f} s a request on average"
    kept = f"{t['html_pages_kept']:,} HTML pages kept ({size_text(t['html_bytes_kept'])})"
    again = f" and {t['later_visits']:,} later visits" if t["later_visits"] else ""
    near = ""
    if t["near_duplicates"]:
        copies = counted(int(t["near_duplicates"]), "near-duplicate")
        near = f", {copies} whose links were not followed"
    later = f"{t['urls_kept_for_a_later_try']:,} kept for a later try"
    lines = [
        f"Crawl {report.folder.crawl}: {report.state.text}",
        f"{t['pages_answered']:,} pages{again} in {duration_text(t['elapsed_s'])}, {request}",
        f"{kept}, {t['duplicates']:,} of them duplicates{near}",
        f"{t['pages_per_s']:.1f} pages/s, {t['mbps']:.1f} Mbit/s",
        f"Funnel: {funnel}",
        f"HTTP codes: {codes or 'none'}",
        f"URLs lost: {losses or 'none'}",
        f"{hosts}; {report.one_page_share:.1%} of hosts with a page have exactly one",
        f"Largest hosts: {largest or 'none'}",
        f"URLs queued: {t['urls_pending']:,.0f}, of these {later}",
    ]
    if requisites := counts_of(report.state, "requisites"):
        lines.append(f"Page requisites: {by_reason(requisites)}")
    if report.walls:
        walls = ", ".join(
            f"{service} {count:,} (on {counted(hosts, 'host')})"
            for service, count, hosts in report.walls
        )
        lines.append(f"Bot walls in the place of pages: {walls}")
    if report.folder.missing_hubs:
        lines.append(report.folder.missing_hubs)
    if report.domain:
        found = report.in_degree
        lines.append(
            f"{found['pages_that_link']:,} of {found['pages_read']:,} pages link to"
            f" {report.domain}: {found['from_inside']:,} from inside, {found['from_outside']:,}"
            " from outside"
        )
    return [printable(line) for line in lines]


def most_of(parts: list[tuple[str, int]]) -> str:
    """The LISTED largest of (text, count), in their order, and the sum of the others."""
    largest = sorted(parts, key=lambda each: each[1], reverse=True)[:LISTED]
    texts = [text for text, count in parts if (text, count) in largest]
    others = sum(count for _, count in parts) - sum(count for _, count in largest)
    return ", ".join([*texts, *([f"others: {others:,}"] if others else [])])


def _print_hosts(report: Report) -> None:
    """A table of the width of the terminal, or CSV."""
    hosts = report.tables["hosts"]
    if not sys.stdout.isatty():
        write_csv(hosts, sys.stdout)
        return
    width = max(20, shutil.get_terminal_size().columns - 50)
    print(f"{'host':{width}} {'visited':>9} {'pages':>9} {'time':>10}  being visited")
    for row in hosts.rows():  # one by one: there may be millions
        each = dict(zip(hosts.columns, row, strict=True))
        host = printable(each["host"])[:width]
        print(
            f"{host:{width}} {each['visited_urls']:9,} {each['pages']:9,}"
            f" {each['time_s']:8.1f} s  {each['being_visited']}"
        )
