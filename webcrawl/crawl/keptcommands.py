"""The commands of a crawl that its next run must obey too: `allow`, `deny` and `target`.

Each is a row of the frontier, one JSON object, on the disk before the command is answered:

    {"time": "2026-01-31T12:00:00Z", "by": "scrapy ctl", "command": "deny", "arguments": ["a.test"]}

`setting` is CLOSESPIDER_PAGECOUNT when the command came. A later run with another
CLOSESPIDER_PAGECOUNT obeys that one, since it is the newer wish of the user.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from webcrawl.base.wording import printable
from webcrawl.frontier.store import StoreError

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


_decode = msgspec.json.Decoder(Command).decode


class Steered:
    """The commands of earlier runs."""

    def __init__(self, commands: Sequence[Command] = ()) -> None:
        self.commands = commands
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
    """The commands of `rows`. StoreError if one cannot be read: the user may forget it."""
    commands: list[Command] = []
    for number, row in enumerate(rows, 1):
        try:
            commands.append(_decode(row))
        except msgspec.MsgspecError as error:
            raise StoreError(
                f"command {number} of scrapy ctl that was kept is damaged: {error}."
                f" scrapy frontier JOBDIR --forget {number} takes it back"
            ) from None
    return Steered(commands)


def shown(command: str, arguments: Sequence[str]) -> str:
    """A command as one line of text, without control characters; a long one is cut."""
    words = [command, *arguments[:_SHOWN]]
    if len(arguments) > _SHOWN:
        words.append(f"and {len(arguments) - _SHOWN} more")
    return printable(" ".join(words))
