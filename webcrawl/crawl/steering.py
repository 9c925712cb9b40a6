"""Commands for a running crawl: the interface that the live page and `scrapy ctl` call.

`crawl_of(crawler).steering` is None for a crawl that cannot be steered: a debugging command, or
another scheduler.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

# Each command, and what its arguments are.
COMMANDS: Final[dict[str, str]] = {
    "pause": "",
    "resume": "",
    "stop": "",
    "seeds": "URL, host or file ...",
    "allow": "host, suffix or regular expression ...",
    "deny": "host, suffix or regular expression ...",
    "target": "number of pages, 0 for no target",
    "status": "",
}


class SteeringError(Exception):
    """A command that was not carried out: one line for the user."""


class Steering(Protocol):
    """Steers one crawl."""

    @property
    def is_paused(self) -> bool:
        """Whether no request is sent until `resume`."""

    async def do(self, command: str, arguments: Sequence[str], by: str) -> str:
        """Carry out one of COMMANDS. Returns one line for the user; SteeringError if refused.

        `by` names the origin of the command in the log: "scrapy ctl" or "live page".
        """
