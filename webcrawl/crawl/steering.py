"""Commands for a running crawl: the interface that the live page and `scrapy ctl` call.

`crawl_of(crawler).steering` is None for a crawl that cannot be steered: a debugging command, a
worker process, or another scheduler.

The way of a command: `live` hears it and calls this interface; `extensions.steering` carries it
out, or with several hubs asks hub 0 to (`extensions.hubprocess`, by letters of `cluster.steering`);
in each process `scheduler.controls` obeys, and `keptcommands` has it for the next run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from webcrawl.fetch.exchange import TRANSIENT
from webcrawl.hub.wire import SteeringError

__all__ = ["COMMANDS", "KEPT_REASONS", "Steering", "SteeringError", "check", "kept_reasons"]

# Each command, and what its arguments are.
COMMANDS: Final[dict[str, str]] = {
    "pause": "",
    "resume": "",
    "stop": "",
    "seeds": "URL, host or file ...",
    "allow": "host, suffix or regular expression ...",
    "deny": "host, suffix or regular expression ...",
    "target": "number of pages, 0 for no target",
    "retry": "reason ..., or all",
    "status": "",
}


# Reasons for which URLs are kept for a later try.
KEPT_REASONS: Final = TRANSIENT | {"host_retired", "robots_unreachable"}


def check(command: str, arguments: Sequence[str]) -> None:
    """SteeringError for a command that does not exist, or with wrong arguments."""
    if command not in COMMANDS:
        known = ", ".join(COMMANDS)
        raise SteeringError(f"there is no command {command[:50]!r}; there are {known}")
    wanted = COMMANDS[command]
    if not wanted and arguments:
        raise SteeringError(f"{command} takes no arguments")
    if wanted and not any(each.strip() for each in arguments):
        raise SteeringError(f"{command} needs arguments: {wanted}")
    if command == "target" and not (len(arguments) == 1 and is_number(arguments[0])):
        raise SteeringError(f"target = {' '.join(arguments)!r}: allowed is one number of pages")
    if command == "retry":
        kept_reasons(arguments)


def kept_reasons(arguments: Sequence[str]) -> frozenset[str]:
    """The reasons of `retry`: "all", or some of KEPT_REASONS, each alone or several with commas."""
    words = (word.strip() for argument in arguments for word in argument.split(","))
    reasons = frozenset(filter(None, words))
    if reasons == {"all"}:
        return KEPT_REASONS
    if unknown := reasons - KEPT_REASONS:
        known = ", ".join(sorted(KEPT_REASONS))
        raise SteeringError(f"retry {', '.join(sorted(unknown))}: allowed are {known}, and all")
    return reasons


def is_number(text: str) -> bool:
    """Whether `text` is a whole number that a counter can reach."""
    return text.isascii() and text.isdecimal() and len(text) <= 18


class Steering(Protocol):
    """Steers one crawl."""

    @property
    def is_paused(self) -> bool:
        """Whether no request is sent until `resume`."""

    async def do(self, command: str, arguments: Sequence[str], by: str) -> str:
        """Carry out one of COMMANDS. Returns one line for the user; SteeringError if refused.

        `by` names the origin of the command in the log: "scrapy ctl" or "live page".
        """
