"""`make demo`: the crawler on a simulated web for half a minute, and the web's own verdict.

Needs no root and no internet. Whatever it starts ends with it.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from webcrawl.simweb import Running, faults, running  # noqa: E402  (found by the line above)

OUT = ROOT / "crawl" / "demo"
HOST_DELAY_S = 0.5
WORLD = ("--hosts", "400", "--pages-per-host", "12", "--host-delay", str(HOST_DELAY_S))


def main() -> int:
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    with running(*WORLD) as web:
        seeds = OUT / "seeds.txt"
        seeds.write_text("\n".join(web.seeds) + "\n")
        command = crawl_command(web, seeds)
        print(
            "A simulated web is up:",
            len(web.seeds),
            "seeds. The crawl is",
            *command[2:],
            sep="\n  ",
        )
        if (code := run(command)) == 0:
            print(*verdict(web.ledger()), sep="\n")
    print(f"WARC files and the crawl's report are in {OUT.relative_to(ROOT)}/")
    return code


def crawl_command(web: Running, seeds: Path) -> list[str]:
    settings = {
        "DNS_SERVERS": web.dns,
        "ALLOW_PRIVATE_ADDRESSES": 1,  # the simulated web is on loopback
        "DOWNLOAD_DELAY": HOST_DELAY_S,
        "IP_DELAY": 0,
        "WARC_DIR": OUT,
        "LOG_LEVEL": "WARNING",
    }
    options = [part for name, value in settings.items() for part in ("-s", f"{name}={value}")]
    return [sys.executable, "-m", "scrapy", "crawl", "broad", "-a", f"seeds={seeds}", *options]


def run(command: list[str]) -> int:
    """The exit code. Ctrl-C is handed on once, and the crawl given time to end cleanly."""
    stdin = subprocess.DEVNULL
    with subprocess.Popen(command, cwd=ROOT, stdin=stdin, process_group=0) as crawl:
        for signum in (signal.SIGINT, signal.SIGTERM):
            signal.signal(signum, lambda *_: crawl.send_signal(signal.SIGINT))
        return crawl.wait()


def verdict(ledger: dict[str, Any]) -> list[str]:
    """What the servers saw."""
    fetched, truth, requests = ledger["fetched"], ledger["truth"], ledger["totals"]["requests"]
    return [
        f"The servers saw {requests} requests for {fetched['pages']} of {truth['pages']} pages.",
        *(faults(ledger) or ["None was early, disallowed or made twice, and no page is missing."]),
    ]


if __name__ == "__main__":
    sys.exit(main())
