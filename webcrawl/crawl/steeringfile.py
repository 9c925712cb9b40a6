"""`JOBDIR/steering.jsonl`: the commands of a crawl that its next run must obey too.

One JSON object per line, in the order of the commands:

    {"time": "2026-01-31T12:00:00Z", "by": "scrapy ctl", "command": "deny", "arguments": ["a.test"]}

`target` has `setting` too: CLOSESPIDER_PAGECOUNT when the command came. A later run with another
CLOSESPIDER_PAGECOUNT obeys that one, since it is the newer wish of the user.

A damaged file is refused, and the crawl does not start: a host that was denied must not be asked
because a line cannot be read.

A line is on the disk before its command is answered. So a torn last line, as a kill leaves it, is
of a command that was never answered: `read_steering` ignores it, and `repair` cuts it off.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from webcrawl.crawl.steering import is_number, is_unicode
from webcrawl.scope import Scope, ScopeError
from webcrawl.wording import printable

NAME: Final = "steering.jsonl"
_SHOWN: Final = 5  # arguments of a command in a line of the log


class SteeringFileError(Exception):
    """The file cannot be used: one line for the user."""


@dataclass(frozen=True)
class Command:
    """One line of the file."""

    time: str
    by: str
    command: str  # "allow", "deny" or "target"
    arguments: tuple[str, ...]
    setting: int = 0


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


def read_steering(jobdir: Path) -> Steered:
    """The commands in the file of `jobdir`; none without a file. SteeringFileError."""
    path = jobdir / NAME
    try:
        data = path.read_bytes()
        lines = data[: len(data) - len(_torn(data))].decode().split("\n")
    except FileNotFoundError:
        return Steered()
    except (OSError, UnicodeError) as error:
        raise SteeringFileError(f"{path} cannot be read: {error}") from None
    if not lines[-1]:
        lines.pop()
    commands = []
    for number, line in enumerate(lines, 1):
        try:
            commands.append(_command(json.loads(line)))
        except (ValueError, ScopeError) as error:
            raise SteeringFileError(
                f"{path}, line {number} cannot be used: {error}; mend it, or delete the line"
            ) from None
    return Steered(commands)


def repair(jobdir: Path) -> str:
    """Cut off a torn last line; return it. A whole one that lacks its line break gets it. OSError.

    Only for the process that has the lock of `jobdir`: another one may be writing the line.
    """
    try:
        with (jobdir / NAME).open("r+b") as file:
            data = file.read()
            torn = _torn(data)
            if torn:
                file.truncate(len(data) - len(torn))
            elif data and not data.endswith(b"\n"):
                file.write(b"\n")
            file.flush()
            os.fsync(file.fileno())
    except FileNotFoundError:
        return ""
    return torn.decode("utf-8", "replace")


def append(jobdir: Path, command: Command) -> None:
    """Add `command`; when it returns, the line is on the disk. OSError; then nothing is added."""
    value: dict[str, Any] = {
        "time": command.time,
        "by": command.by,
        "command": command.command,
        "arguments": list(command.arguments),
    }
    if command.command == "target":
        value["setting"] = command.setting
    path = jobdir / NAME
    line = json.dumps(value).encode() + b"\n"
    is_new = not path.exists()
    with path.open("ab", buffering=0) as file:
        size_bytes = file.tell()
        try:
            if file.write(line) != len(line):
                raise OSError("the disk is full")
            os.fsync(file.fileno())
        except OSError:
            file.truncate(size_bytes)
            raise
    if is_new:
        folder = os.open(jobdir, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def shown(command: str, arguments: Sequence[str]) -> str:
    """A command as one line of text, without control characters; a long one is cut."""
    words = [command, *arguments[:_SHOWN]]
    if len(arguments) > _SHOWN:
        words.append(f"and {len(arguments) - _SHOWN} more")
    return printable(" ".join(words))


def _torn(data: bytes) -> bytes:
    """The last line of `data`, if it has no line break and is not whole; else nothing."""
    line = data[data.rfind(b"\n") + 1 :]
    try:
        json.loads(line)
    except ValueError:
        return line
    return b""


def _command(value: object) -> Command:
    """The command of a line. ValueError, ScopeError."""
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    arguments = value.get("arguments")
    if not isinstance(arguments, list) or not all(isinstance(each, str) for each in arguments):
        raise ValueError('"arguments" is not a list of texts')
    if not all(map(is_unicode, arguments)):
        raise ValueError('"arguments" are not valid Unicode')
    command, setting = value.get("command"), value.get("setting", 0)
    match command:
        case "allow" | "deny":
            Scope().extend(**{command: arguments})
        case "target":
            if len(arguments) != 1 or not is_number(arguments[0]) or not isinstance(setting, int):
                raise ValueError("a target is one number")
        case _:
            raise ValueError(f'"command" is {command!r}, and not allow, deny or target')
    time, by = str(value.get("time", "?")), str(value.get("by", "?"))
    return Command(time, by, command, tuple(arguments), setting)
