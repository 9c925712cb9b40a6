"""`make cluster`: a hub and two fetchers crawl a simulated web through kills; prints its verdict.

Needs nats-server, no root and no internet. All its processes end with it.
"""

from __future__ import annotations

import re
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.demo import verdict
from benchmarks.here import ROOT
from benchmarks.processes import NoBus, Process, serving_bus
from simweb import Running, faults, running

OUT = Path("crawl/cluster")  # in the project
SEEDS = OUT / "seeds.txt"
HUB, FETCHERS = "hub", ("fetcher1", "fetcher2")
UNDER_WAY_MAX = 20  # of a process; the ledger names so many repeated pages
WITHOUT = (  # what takes long time-outs
    "-host-*,-dns-silent,-dns-servfail,-dns-refused,-robots-silent,-robots-error,-robots-reset,"
    "-robots-not-http,-page-hang,-page-drip,-page-half-head"
)
WORLD = (
    *("--hosts=500", "--pages-per-host=6", "--host-delay=0.1", "--slowness=0.2"),
    f"--features=default,{WITHOUT}",
)
SETTINGS = {
    "ALLOW_PRIVATE_ADDRESSES": 1,  # the simulated web is on loopback
    "DOWNLOAD_DELAY": 0.1,  # short, so that the demo does not take hours
    "IP_DELAY": 0,
    "DOWNLOAD_TIMEOUT": 5,  # a hub waits for it after a kill
    "CONCURRENT_REQUESTS": UNDER_WAY_MAX,
    "STATS_INTERVAL": 1,
    "LOG_LEVEL": "INFO",
}
# Seconds after the start: what happens, to whom, and what is said.
PLAN = (
    (4.0, "start", FETCHERS[0], "joins: the same command without JOBDIR and seeds"),
    (5.0, "start", FETCHERS[1], "joins"),
    (9.0, "kill", FETCHERS[0], "is killed (-9): what it had under way goes back to the hub"),
    (13.0, "kill", HUB, "is killed (-9): its fetchers send no request after 10 s of silence"),
    (14.0, "start", HUB, "starts again, and waits until no old request can be under way"),
)
KILLS = 2
LINE_S = 3.0
GRACE_S = 10.0
LONGEST_S = 300.0
CRAWLED = re.compile(r"^\[ *\d+\] .* C +(\d+) L ", re.MULTILINE)


def main() -> int:
    shutil.rmtree(ROOT / OUT, ignore_errors=True)
    (ROOT / OUT).mkdir(parents=True)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        with serving_bus(ROOT / OUT / "bus") as bus, running(*WORLD) as web:
            (ROOT / SEEDS).write_text("\n".join(web.seeds) + "\n")
            return crawl(bus.url, web)
    except NoBus as reason:
        print(f"make cluster: {reason}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted: all processes have ended")
        return 130


def crawl(bus: str, web: Running) -> int:
    """Carry out the plan; the exit code."""
    commands = {name: command(name, bus, web.dns) for name in (HUB, *FETCHERS)}
    print(
        "A nats-server (the bus of the crawl) and a simulated web are up. The hub of the crawl"
        f" starts:\n\n{shlex.join(commands[HUB])}\n",
        flush=True,
    )
    with started(commands) as processes:
        codes = watch(processes, commands)
        if codes is None or any(codes.values()):
            print(f"\nThe crawl failed: {codes or f'it ran for {LONGEST_S:.0f} s'}.", files())
            return 1
    good = judge(web.ledger())
    print(files())
    return 0 if good else 1


def command(name: str, bus: str, dns: str) -> list[str]:
    folder = OUT / name
    settings = {"CLUSTER": bus, "WARC_DIR": folder / "warc", "DNS_SERVERS": dns, **SETTINGS}
    seeds = []
    if name == HUB:
        settings["JOBDIR"] = folder / "job"
        seeds = ["-a", f"seeds={SEEDS}"]
    options = [part for key, value in settings.items() for part in ("-s", f"{key}={value}")]
    return ["scrapy", "crawl", "broad", *seeds, *options]


def log_of(name: str) -> Path:
    return ROOT / OUT / name / "log.txt"


def start(command: list[str], name: str) -> Process:
    log_of(name).parent.mkdir(exist_ok=True)
    return Process([sys.executable, "-m", *command], log_of(name))


@contextmanager
def started(commands: dict[str, list[str]]) -> Iterator[dict[str, Process]]:
    """The processes by name, at first the hub; those that still run at the end are ended."""
    processes = {HUB: start(commands[HUB], HUB)}
    try:
        yield processes
    finally:
        for process in processes.values():
            process.send(signal.SIGINT)
        for process in processes.values():
            process.wait(GRACE_S)
            process.kill()


def watch(
    processes: dict[str, Process], commands: dict[str, list[str]]
) -> dict[str, int | None] | None:
    """Carry out the plan, and print a line now and then until all have ended: the exit codes.

    None: they do not end.
    """
    began, line_at, left = time.monotonic(), 0.0, list(PLAN)
    while (now := time.monotonic() - began) < LONGEST_S:
        if left and now >= left[0][0]:
            _, what, name, words = left.pop(0)
            if what == "kill":
                processes[name].kill()
            else:
                processes[name] = start(commands[name], name)
            print(f"{now:3.0f} s  {name} {words}", flush=True)
        if now >= line_at:
            line_at = now + LINE_S
            if pages := pages_in(log_of(HUB).read_text(errors="replace")):
                print(f"{now:3.0f} s  {pages} pages", flush=True)
        killed = FETCHERS[0]
        codes = {name: each.poll() for name, each in processes.items() if name != killed}
        if not left and None not in codes.values():
            return codes
        time.sleep(0.1)
    return None


def pages_in(log: str) -> int:
    found = CRAWLED.findall(log)
    return int(found[-1]) if found else 0


def judge(ledger: dict[str, Any]) -> bool:
    """Print what the servers saw; whether all is well."""
    repeated = ledger["violations"]["twice"]
    twice = repeated["count"]
    # The hub's kill ends the fetchers' leases too.
    if twice <= UNDER_WAY_MAX * (KILLS + len(FETCHERS)):
        repeated["count"] = 0
    print("\nThe hub and the fetcher that was not killed have ended, exit code 0.")
    print(*verdict(ledger), sep="\n")
    if twice and not repeated["count"]:
        print(f"{twice} pages that were under way at the two kills were asked for again.")
    return not faults(ledger)


def files() -> str:
    return (
        f"\nIn {OUT}/hub: log.txt, job/ (the frontier), warc/ (archive, crawl log, report.txt); in"
        " fetcher1 and fetcher2:\nlog.txt and warc/. docs/cluster.md says how to do the same on"
        " real machines."
    )


if __name__ == "__main__":
    sys.exit(main())
