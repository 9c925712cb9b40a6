"""The commands that look at a crawl from outside: `webcrawl.tools` carries them out.

Scrapy imports the modules of all commands in each process. A crawl needs nothing of the tools, and
their libraries are an extra of the package: so a tool is imported when its command is given.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from webcrawl.base.wording import INTERRUPTED, needs_extra
from webcrawl.report.console import discard_output

if TYPE_CHECKING:
    from webcrawl.tools.command import Command

    _Base = ScrapyCommand
else:  # Scrapy takes each subclass in this package for a command
    _Base = object


class ToolCommand(_Base):
    """Mixin of the command NAME, which `webcrawl.tools.NAME.command` carries out.

    Exit code 2 if a library of the extra is missing, 130 after Ctrl-C.
    """

    requires_crawler_process = False
    default_settings = {"LOG_ENABLED": False}
    summary: str  # in the list of all commands, which imports no tool
    extra: str  # of the package, with the libraries of the command

    @cached_property
    def _command(self) -> Command:
        name = self.__module__.rpartition(".")[2]
        try:
            module = import_module(f"webcrawl.tools.{name}.command")
        except ModuleNotFoundError as error:
            missing = str(error.name).partition(".")[0]
            if missing == "webcrawl":
                raise
            print(needs_extra(f"scrapy {name}", missing, self.extra), file=sys.stderr)
            raise SystemExit(2) from None
        except KeyboardInterrupt:
            raise SystemExit(INTERRUPTED) from None
        command: Command = module.Command()
        return command

    def syntax(self) -> str:
        return self._command.arguments

    def short_desc(self) -> str:
        return self.summary

    def long_desc(self) -> str:
        return ": ".join(filter(None, (self.summary, self._command.about)))

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        self._command.settings = self.settings
        self._command.add_options(parser)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if unknown := [each for each in args if each.startswith("-")]:  # Scrapy lets them pass
            raise UsageError(f"there is no option {unknown[0]}")
        try:
            with suppress(AttributeError):  # standard output is closed
                # Paths and texts of the web may have what the terminal's character set has not.
                sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
            self._command.run(args, opts)
            print(end="", flush=True)
        except KeyboardInterrupt:
            self._command.exitcode = INTERRUPTED
        except BrokenPipeError:  # the reader of standard output has exited, as `head` does
            discard_output()
        except OSError as error:
            if error.filename is None:
                discard_output()
            print(f"{error.filename or 'standard output'}: {error.strerror}", file=sys.stderr)
            self._command.exitcode = 1
        self.exitcode = self._command.exitcode


def tool_command(
    module: str, summary: str, *bases: type, extra: str = "tools"
) -> type[ScrapyCommand]:
    """The class `Command` of the module named `module`: Scrapy looks for classes of that module."""
    values = {"__module__": module, "summary": summary, "extra": extra}
    return type("Command", (*bases, ToolCommand, ScrapyCommand), values)
