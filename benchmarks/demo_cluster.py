"""`make cluster`: three nodes crawl a simulated web, one is killed; prints the web's own verdict.

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

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.nodes import NoBus, Process, serving_bus  # noqa: E402  (needs the path set above)
from simweb import Running, faults, running  # noqa: E402
from webcrawl.cluster.buckets import Buckets  # noqa: E402
from webcrawl.settings import CLUSTER_SHARDS  # noqa: E402

OUT = Path("crawl/cluster")  # in the project
SEEDS = OUT / "seeds.txt"
NODES, KILLED = 3, 2
UNDER_WAY_MAX = 20  # the ledger names so many repeated pages
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
    "DOWNLOAD_TIMEOUT": 10,  # a busy machine may answer after seconds
    "CONCURRENT_REQUESTS": UNDER_WAY_MAX,
    "STATS_INTERVAL": 1,
    "LOG_LEVEL": "INFO",
}
PAGES_BEFORE = 150  # of the node that is killed
DOWN_S = 6.0  # until it starts again
LINE_S = 3.0
GRACE_S = 10.0
LONGEST_S = 300.0
CRAWLED = re.compile(r"^\[ *\d+\] .* C +(\d+) L ", re.MULTILINE)
shard_of = Buckets(CLUSTER_SHARDS).shard_of
HELD = re.compile(r"Shard (\d+) is (?:begun|resumed) on this node")


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
    """Run the nodes, and kill one; the exit code."""
    commands = {number: command(number, bus, web.dns) for number in range(1, NODES + 1)}
    print(
        "A nats-server (the bus of the crawl) and a simulated web are up. Three nodes crawl this"
        " web together, each as\non a machine of its own. They differ in their folders only. The"
        f" first:\n\n{shlex.join(commands[1])}\n",
        flush=True,
    )
    with nodes_of(commands) as nodes:
        codes = watch(nodes, commands)
        if codes is None or any(codes.values()):
            print(f"\nThe crawl failed: {codes or f'it ran for {LONGEST_S:.0f} s'}.", files())
            return 1
    good = judge(web.ledger(), nodes)
    print(files())
    return 0 if good else 1


def command(number: int, bus: str, dns: str) -> list[str]:
    folder = OUT / f"node{number}"
    settings = {
        "CLUSTER": bus,
        "JOBDIR": folder / "job",
        "WARC_DIR": folder / "warc",
        "DNS_SERVERS": dns,
        **SETTINGS,
    }
    options = [part for name, value in settings.items() for part in ("-s", f"{name}={value}")]
    return ["scrapy", "crawl", "broad", "-a", f"seeds={SEEDS}", *options]


def log_of(number: int) -> Path:
    return ROOT / OUT / f"node{number}" / "log.txt"


def start(command: list[str], number: int) -> Process:
    log_of(number).parent.mkdir(exist_ok=True)
    return Process([sys.executable, "-m", *command], log_of(number))


@contextmanager
def nodes_of(commands: dict[int, list[str]]) -> Iterator[dict[int, Process]]:
    """The nodes by number; those that still run at the end are ended."""
    nodes: dict[int, Process] = {}
    try:
        for number, each in commands.items():
            nodes[number] = start(each, number)
        yield nodes
    finally:
        for node in nodes.values():
            node.send(signal.SIGINT)
        for node in nodes.values():
            node.wait(GRACE_S)
            node.kill()


def watch(nodes: dict[int, Process], commands: dict[int, list[str]]) -> dict[int, int] | None:
    """Print a line now and then until all have ended; the exit codes. None: they do not end."""
    began = time.monotonic()
    killed_at, line_at = 0.0, 0.0
    print("The nodes meet on the bus, and each takes a share of the shards. Pages by node:\n")
    say("  s", *(f"node {number}" for number in nodes), "pages in all")
    while time.monotonic() < began + LONGEST_S:
        now = time.monotonic() - began
        logs = {number: log_of(number).read_text(errors="replace") for number in nodes}
        pages = {number: pages_in(log) for number, log in logs.items()}
        if not killed_at and pages[KILLED] >= PAGES_BEFORE:
            nodes[KILLED].send(signal.SIGKILL)
            nodes[KILLED].wait(10.0)
            killed_at, line_at = now, 0.0
            held = len(shards_of(KILLED))
            print(
                f"{now:3.0f}  kill -9 of node {KILLED}: its {held} shards pause, the others go on"
            )
        elif killed_at and now > killed_at + DOWN_S and nodes[KILLED].poll() == -signal.SIGKILL:
            nodes[KILLED] = start(commands[KILLED], KILLED)
            print(f"{now:3.0f}  node {KILLED} starts again: the same command, the same JOBDIR")
        codes = {number: node.poll() for number, node in nodes.items()}
        ended = {number: code for number, code in codes.items() if code is not None}
        if now >= line_at or len(ended) == len(nodes):
            line_at = now + LINE_S
            if any(pages.values()):
                say(f"{now:3.0f}", *pages.values(), sum(pages.values()))
        if len(ended) == len(nodes) or any(code > 0 for code in ended.values()):
            return ended
        time.sleep(0.1)
    return None


def say(time_s: str, *columns: object) -> None:
    print(time_s, *(f"{column!s:>8}" for column in columns), flush=True)


def pages_in(log: str) -> int:
    found = CRAWLED.findall(log)
    return int(found[-1]) if found else 0


def shards_of(number: int) -> set[int]:
    return set(map(int, HELD.findall(log_of(number).read_text(errors="replace"))))


def judge(ledger: dict[str, Any], nodes: dict[int, Process]) -> bool:
    """Print what the servers saw; whether all is well."""
    repeated = ledger["violations"]["twice"]
    twice = repeated["count"]
    hosts = {example.split()[0] for example in repeated["examples"]}
    if twice <= UNDER_WAY_MAX and {shard_of(host) for host in hosts} <= shards_of(KILLED):
        repeated["count"] = 0  # the kill may repeat them
    wrong = faults(ledger)
    requests, pages = ledger["totals"]["requests"], ledger["truth"]["pages"]
    reached = pages - ledger["missing"]["count"]
    held = "; ".join(f"node {n} {' '.join(map(str, sorted(shards_of(n))))}" for n in nodes)
    print(
        f"\nAll nodes have found the end, exit code 0. Their shards: {held}.",
        f"The servers saw {requests} requests, for {reached} of the {pages} pages to be found.",
        *(wrong or [f"None of them was early, disallowed or made twice{but(twice)}."]),
        sep="\n",
    )
    return not wrong


def but(twice: int) -> str:
    return (
        f",\nexcept {twice} pages that were under way in node {KILLED} when it was killed"
        f" ({UNDER_WAY_MAX} at most, CONCURRENT_REQUESTS)"
        if twice
        else ""
    )


def files() -> str:
    return (
        f"\nIn {OUT}/node1, node2 and node3: log.txt, job/ (the shards), warc/ (archive, crawl log,"
        " report.txt).\ndocs/machines.md says how to do the same on real machines."
    )


if __name__ == "__main__":
    sys.exit(main())
