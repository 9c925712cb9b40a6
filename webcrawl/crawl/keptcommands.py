"""The commands of a crawl that its next run must obey too: `allow`, `deny` and `target`.

Each is a row of the frontier, one JSON object, on the disk before the command is answered:

    {"time": "2026-01-31T12:00:00Z", "by": "scrapy ctl", "command": "deny", "arguments": ["a.test"]}

`setting` is CLOSESPIDER_PAGECOUNT when the command came. A later run with another
CLOSESPIDER_PAGECOUNT obeys that one, since it is the newer wish of the user.

A row that cannot be read is not obeyed, and is one line for the user.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from webcrawl.crawl.steering import is_number
from webcrawl.scope.rules import check_entry
from webcrawl.wording import printable

_SHOWN: Final = 5  # arguments of a command in a line of the log


class Command(msgspec.Struct, frozen=True):
    """One row."""

    time: str
    by: str
    command: str  # "allow", "deny" or "target"
    arguments: tuple[str, ...]
    setting: int = 0

    @property
    def row(self) -> bytes:
        return msgspec.json.encode(self)


class Steered:
    """The commands of earlier runs. `problems`: a line for each that cannot be obeyed."""

    def __init__(self, commands: Sequence[Command] = (), problems: Sequence[str] = ()) -> None:
        self.commands = commands
        self.problems = problems
        self.allow = self._entries("allow")
        self.deny = self._entries("deny")

    def target(self, setting: int) -> int:
        """The target of a run with `setting` as its CLOSESPIDER_PAGECOUNT."""
        last = self._last_target()
        return int(last.arguments[0]) if last and last.setting == setting else setting

    def lines(self, setting: int) -> Iterator[str]:
        """A line for the log for each command that holds."""
        last = self._last_target()
        for each in self.commands:
            what = shown(each.command, each.arguments)
            if each.command != "target" or (each is last and each.setting == setting):
                yield f"steering: {what}, from {each.time}"
            elif each is last:
                yield (
                    f"steering: {what}, from {each.time}, is not used:"
                    f" CLOSESPIDER_PAGECOUNT was {each.setting} then, and is {setting} now"
                )

    def _entries(self, command: str) -> tuple[str, ...]:
        return tuple(
            entry for each in self.commands if each.command == command for entry in each.arguments
        )

    def _last_target(self) -> Command | None:
        targets = [each for each in self.commands if each.command == "target"]
        return targets[-1] if targets else None


def steered_by(rows: Iterable[bytes]) -> Steered:
    """The commands of `rows`."""
    commands, problems = [], []
    for row in rows:
        try:
            commands.append(command_of(row))
        except ValueError as error:
            text = printable(row[:200].decode("utf-8", "replace"))
            problems.append(f"a command that was kept is not obeyed: {error}: {text}")
    return Steered(commands, problems)


def command_of(row: bytes) -> Command:
    """The command of a row, which is tested as if it were given now. ValueError."""
    found = msgspec.json.decode(row, type=Command)
    if found.command in ("allow", "deny"):
        for entry in found.arguments:
            check_entry(found.command, entry)
    elif found.command != "target":
        raise ValueError(f"{found.command!r} is not allow, deny or target")
    elif len(found.arguments) != 1 or not is_number(found.arguments[0]):
        raise ValueError("a target is one number")
    return found


def shown(command: str, arguments: Sequence[str]) -> str:
    """A command as one line of text, without control characters; a long one is cut."""
    words = [command, *arguments[:_SHOWN]]
    if len(arguments) > _SHOWN:
        words.append(f"and {len(arguments) - _SHOWN} more")
    return printable(" ".join(words))
