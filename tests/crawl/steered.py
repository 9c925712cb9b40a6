"""Crawls that a test steers, by the command of a user."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import pytest

from simweb import Running
from tests.crawl.crawling import Crawl, wait_for_servers
from webcrawl.live.client import NotRunning, Refused, ask


class Steered(Crawl):
    """A crawl in the folder `job`, which `ctl` steers.

    It cannot end between `after` and the command or kill behind it, however busy the machine is:
    the servers give no answer meanwhile.
    """

    def __init__(self, folder: Path, *seeds: str, web: Running, **settings: Any) -> None:
        self.web = web
        self.jobdir = folder / "job"
        super().__init__(folder, *seeds, web=web, JOBDIR=self.jobdir, **settings)

    def ctl(self, command: str, *arguments: str) -> str:
        """The answer to a command. It waits until the crawl listens."""
        self.web.release()  # a pause and a deny wait some time for answers
        answers: list[Any] = []

        def is_answered() -> bool:
            with suppress(NotRunning):
                body = {"command": command, "arguments": arguments}
                answers.append(ask(self.jobdir, "POST", "/command", body))
            return bool(answers)

        self.until_true(is_answered)
        return str(answers[0]["message"])

    def refusal(self, command: str, *arguments: str) -> str:
        """The reason why a command is refused."""
        with pytest.raises(Refused) as refused:
            self.ctl(command, *arguments)
        return str(refused.value)

    def after(self, pages: int) -> Self:
        """Wait until servers were asked so often. They answer nothing until `ctl` or `kill`."""
        self.web.hold(pages)
        self.until_true(lambda: self.web.totals().get("pages", 0) >= pages)
        return self

    def kill(self) -> None:
        super().kill()
        self.web.release()

    def servers_time(self) -> float:
        """Of now (monotonic), after the servers have read all that was sent before."""
        wait_for_servers(self.web.port)
        return time.monotonic()

    def requests_since(self, when: float) -> list[str]:
        """The URLs, without scheme, that servers were asked for since `when` (monotonic)."""
        return [host + target for at, _, host, target in self.web.latest() if at > when]
