"""`make demo`: crawls a simulated web for a minute, and prints the web's own verdict.

Needs no root and no internet. All its processes end with it.
"""

from __future__ import annotations

import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.here import ROOT
from simweb import faults, running

OUT = Path("crawl/demo")  # in the project
SEEDS = OUT / "seeds.txt"
WORLD = ("--hosts=1000", "--pages-per-host=6", "--host-delay=0.1", "--slowness=0.4")
SETTINGS = {
    "ALLOW_PRIVATE_ADDRESSES": 1,  # the simulated web is on loopback
    "DOWNLOAD_DELAY": 0.1,  # short, so that the demo does not take hours
    "IP_DELAY": 0,
    "DOWNLOAD_TIMEOUT": 10,  # a busy machine may answer after seconds
    "WARC_DIR": OUT,
    "JOBDIR": OUT / "job",
    "LOG_LEVEL": "WARNING",
}


def main() -> int:
    shutil.rmtree(ROOT / OUT, ignore_errors=True)
    (ROOT / OUT).mkdir(parents=True)
    with running(*WORLD) as web:
        (ROOT / SEEDS).write_text("\n".join(web.seeds) + "\n")
        command = crawl_command(web.dns)
        print(f"A simulated web is up, and {SEEDS} leads into it. The crawl:", flush=True)
        print(shlex.join(command), end="\n\n", flush=True)
        code = run([sys.executable, "-m", *command])
        if code == 0:
            print("", *verdict(web.ledger()), sep="\n")
    if any((ROOT / OUT).glob("*.warc.gz")):
        print(f"\nWARC files, crawl log and statistics are in {OUT}/")
        print(*report(), sep="\n")
    return code


def crawl_command(dns: str) -> list[str]:
    settings = {"DNS_SERVERS": dns, **SETTINGS}
    options = [part for name, value in settings.items() for part in ("-s", f"{name}={value}")]
    return ["scrapy", "crawl", "broad", "-a", f"seeds={SEEDS}", *options]


def run(command: list[str]) -> int:
    """The exit code; 130 after Ctrl-C, which the crawl gets as well, to end cleanly."""
    stopped = False
    stdin = subprocess.DEVNULL
    with subprocess.Popen(command, cwd=ROOT, stdin=stdin, process_group=0) as crawl:

        def stop(*_: object) -> None:
            nonlocal stopped
            stopped = True
            crawl.send_signal(signal.SIGINT)

        signal.signal(signal.SIGINT, stop)
        signal.signal(signal.SIGTERM, stop)
        code = crawl.wait()
    return 130 if stopped else code


def report() -> list[str]:
    """Lines about the page that `scrapy report` writes, in seconds."""
    command = ["scrapy", "report", str(SETTINGS["JOBDIR"])]
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        return [f"{shlex.join(command)} failed: {done.stderr.strip()}"]
    page = Path(done.stdout.partition("\n")[0])
    return [
        f"Figures and tables of the crawl, made by {shlex.join(command)}:",
        f"open {page.resolve().as_uri()} in a browser",
    ]


def verdict(ledger: dict[str, Any]) -> list[str]:
    """The lines about what the servers saw."""
    requests, pages = ledger["totals"]["requests"], ledger["truth"]["pages"]
    reached = pages - ledger["missing"]["count"]
    return [
        f"The servers saw {requests} requests, for {reached} of the {pages} pages to be found.",
        *(faults(ledger) or ["None of them was early, disallowed or made twice."]),
    ]


if __name__ == "__main__":
    sys.exit(main())
