"""Crawls real sites on loopback, and compares the fetched URLs with the files.

    python benchmarks/real_sites.py [HOST...]

Prints one line: pages, pages per second, CPU seconds of the crawler per page, missing and invented
URLs. Other load on the machine lowers the speed; it changes the CPU time less.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.crawl.closure import judge  # noqa: E402  (needs the path set above)
from tests.crawl.crawling import Crawl  # noqa: E402
from tests.crawl.realsites import SITES, Site, Unavailable, serving  # noqa: E402

LONGEST_S = 2 * 3600.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("hosts", nargs="*", metavar="HOST", help="only these (default: all)")
    parser.add_argument("--delay", type=float, default=0.0, help="delay per host, in seconds")
    arguments = parser.parse_args()
    known = {site.host: site for site in SITES}
    if unknown := set(arguments.hosts) - known.keys():
        parser.error(f"{', '.join(unknown)}: none of {', '.join(known)}")
    sites = [known[host] for host in arguments.hosts or known]
    with tempfile.TemporaryDirectory() as folder:
        try:
            return measure(sites, Path(folder), arguments.delay)
        except Unavailable as reason:
            print(reason, file=sys.stderr)
            return 2


def measure(sites: list[Site], folder: Path, delay_s: float) -> int:
    with serving(sites, folder) as web:
        before_s = cpu_s()
        result = Crawl(folder / "crawl", *web.seeds, **web.settings(delay_s)).wait(LONGEST_S)
        spent_s = cpu_s() - before_s
        verdict = judge(web)
    crawled = result.report["counts"]["crawled"]
    print(
        f"{len(sites)} sites, {verdict.pages} HTML pages, {crawled} fetched,"
        f" {crawled / result.seconds:.0f} pages/s, {spent_s / crawled * 1000:.2f} ms CPU a page,"
        f" {len(verdict.missing)} missing, {len(verdict.invented)} invented,"
        f" {len(verdict.twice)} twice"
    )
    for fault in ("missing", "invented", "twice"):
        for url in getattr(verdict, fault)[:10]:
            print(f"{fault}: {url}", file=sys.stderr)
    return int(bool(result.exit_code or verdict.missing or verdict.invented or verdict.twice))


def cpu_s() -> float:
    """CPU seconds of the crawls so far. nginx still runs, so it is not counted."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    sys.exit(main())
