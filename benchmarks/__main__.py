"""`python -m benchmarks NAME`: measures webcrawl, and prints one line of numbers.

A benchmark serves a simulated web on this machine, crawls it, verifies that the work was done and
prints one line; `frontier` crawls nothing. Progress is on standard error. Exit code 1: the work was
not done, and the line says why. docs/performance.md has the figures and the method.
"""

from __future__ import annotations

import argparse
import sys
from types import ModuleType

from benchmarks import (
    calls,
    cores,
    frontier,
    hub,
    memory,
    overheads,
    seeds,
    survey,
    vs_scrapy,
)
from benchmarks.crawls import NotDone

BENCHMARKS: dict[str, ModuleType] = {
    "vs-scrapy": vs_scrapy,
    "cores": cores,
    "survey": survey,
    "memory": memory,
    "frontier": frontier,
    "hub": hub,
    "overheads": overheads,
    "seeds": seeds,
    "calls": calls,
}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=(__doc__ or "").partition("\n\n")[2]
    )
    names = parser.add_subparsers(dest="name", metavar="NAME", required=True)
    for name, module in BENCHMARKS.items():
        about = module.__doc__ or ""
        one = names.add_parser(
            name,
            help=about.partition("\n")[0],
            description=about,
            formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        )
        module.add_arguments(one)
    arguments = parser.parse_args()
    try:
        print(f"{arguments.name}: {BENCHMARKS[arguments.name].measure(arguments)}")
    except NotDone as reason:
        print(f"{arguments.name}: not done: {reason}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
