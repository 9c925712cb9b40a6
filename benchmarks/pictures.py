"""`make pictures`: makes docs/pictures/ anew, from a small crawl of a simulated web.

The live page, `scrapy top` and the report, as headless Chromium shows them (on Debian: apt-get
install chromium; else Playwright's own). Look at each picture before you commit it.
"""

from __future__ import annotations

import html
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from playwright.sync_api import Page, sync_playwright

from benchmarks.here import ROOT
from simweb import running

SCRAPY: Final = (sys.executable, "-m", "scrapy")
PICTURES: Final = ROOT / "docs" / "pictures"
PAGES: Final = 4_000  # of the crawl when its pictures are taken
POLITE: Final = "hosts wait for their delay"  # the usual limit; on a busy machine it comes and goes
WAIT_S: Final = 300
WORLD: Final = (
    *("--hosts=1500", "--pages-per-host=20", "--features=default,-dns-*,-robots-*"),
    *("--slowness=0.4", "--host-delay=12"),
)
SETTINGS: Final = {
    "ALLOW_PRIVATE_ADDRESSES": 1,
    "DOWNLOAD_DELAY": 12,
    "IP_DELAY": 0,
    "CLOSESPIDER_PAGECOUNT": 20_000,
    "LIVE": 1,
    "LOG_LEVEL": "ERROR",
}
# It asks nothing of the network by itself, and runs as root.
ARGS: Final = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")
TERMINAL: Final = """<body style="background: #1e1e1e; margin: 0">
<pre style="margin: 0; padding: 16px; color: #e6e6e6; width: max-content;
font: 14px/19px 'DejaVu Sans Mono', monospace">{}</pre>"""


def main() -> None:
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGS)
        page = browser.new_page(bypass_csp=True, viewport={"width": 1180, "height": 880})
        with crawling(Path(folder)) as (job, url):
            take_live_page(page, url)
            looks = (scrapy("top", str(job), "--once") for _ in range(20))
            take_terminal(page, next(look for look in looks if POLITE in look))
        report = scrapy("report", str(job)).partition("\n")[0]
        take_report(page, Path(report).resolve().as_uri())
        browser.close()


@contextmanager
def crawling(folder: Path) -> Iterator[tuple[Path, str]]:
    """A running crawl: its JOBDIR, and the URL of its live page. The block's end stops it."""
    job, log, seeds = folder / "job", folder / "log", folder / "seeds.txt"
    with running(*WORLD) as web:
        seeds.write_text("\n".join(web.seeds))
        settings = SETTINGS | {"DNS_SERVERS": web.dns, "JOBDIR": job, "WARC_DIR": folder / "warc"}
        command = [*SCRAPY, "crawl", "broad", "-a", f"seeds={seeds}"]
        for name, value in settings.items():
            command += ["-s", f"{name}={value}"]
        with log.open("w") as output, subprocess.Popen(command, cwd=ROOT, stdout=output) as crawl:
            try:
                yield job, live_url(log)
            finally:
                crawl.terminate()


def live_url(log: Path) -> str:
    deadline = time.monotonic() + WAIT_S
    while not (found := re.search(r"Live page: (\S+)\n", log.read_text())):
        if time.monotonic() > deadline:
            raise SystemExit("the crawl did not start")
        time.sleep(0.2)
    return found[1]


def scrapy(*arguments: str) -> str:
    env = os.environ | {"COLUMNS": "96"}  # of `scrapy top`
    return subprocess.check_output([*SCRAPY, *arguments], cwd=ROOT, env=env, text=True)


def take_live_page(page: Page, url: str) -> None:
    page.goto(url)
    page.wait_for_function(
        "([pages, limit]) => document.querySelector('#limit').innerText.includes(limit)"
        " && Number(document.querySelector('#crawled').innerText.replace(/\\D/g, '')) > pages"
        " && Number(document.querySelector('#pages_per_s').innerText) > 60",
        arg=[PAGES, POLITE],
        timeout=1000 * WAIT_S,
    )
    page.screenshot(path=PICTURES / "live.png")


def take_terminal(page: Page, text: str) -> None:
    page.set_content(TERMINAL.format(html.escape("\n".join(text.splitlines()[:28]))))
    page.locator("pre").screenshot(path=PICTURES / "top.png")


def take_report(page: Page, url: str) -> None:
    page.goto(url)
    page.wait_for_selector(".main-svg")
    page.set_viewport_size({"width": 1180, "height": 985})
    page.screenshot(path=PICTURES / "report.png")


if __name__ == "__main__":
    main()
