"""`python -m tests.crawl.faulty ...` is `scrapy ...` that kills itself at one of its commits.

FAULT = "before 7" or "after 7" in the environment says at which, and on which side of it.
"""

from __future__ import annotations

import os
import signal
import sys

from scrapy.cmdline import execute

from webcrawl.frontier.database import Database


def main() -> None:
    side, _, at = os.environ.get("FAULT", "never 0").partition(" ")
    commit, count = Database.commit, 0

    def faulty(database: Database) -> None:
        nonlocal count
        count += 1
        if side == "before" and count == int(at):
            os.kill(os.getpid(), signal.SIGKILL)
        commit(database)
        if side == "after" and count == int(at):
            os.kill(os.getpid(), signal.SIGKILL)

    Database.commit = faulty  # type: ignore[method-assign]
    sys.exit(execute())


if __name__ == "__main__":
    main()
