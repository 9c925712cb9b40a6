"""The commands of a crawl that its next run obeys."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from pathlib import Path

import pytest

from tests.cases import each_of
from webcrawl.base.wording import SettingError
from webcrawl.crawl.keptcommands import Command, Steered, shown, steered_by
from webcrawl.extensions.steering import _entries
from webcrawl.frontier.base import Policy
from webcrawl.frontier.disk import database as database_module
from webcrawl.frontier.disk.frontier import LocalFrontier
from webcrawl.frontier.lease import Link
from webcrawl.frontier.politeness import Politeness
from webcrawl.frontier.store import StoreError
from webcrawl.hub.server import FrontierServer
from webcrawl.hub.wire import Orders
from webcrawl.scheduler.opening import _obey
from webcrawl.scope import Scope
from webcrawl.tools.frontier.command import Command as FrontierCommand

DENY = Command("2026-01-31T12:00:00Z", "scrapy ctl", "deny", ("a.test", "re:x$"))
ALLOW = Command("2026-01-31T12:00:01Z", "live page", "allow", ("ünïcode.test",))


def target(pages: int, setting: int) -> Command:
    return Command("2026-01-31T13:00:00Z", "scrapy ctl", "target", (str(pages),), setting)


def opened(jobdir: Path) -> LocalFrontier:
    policy = Policy(politeness=Politeness(0.0, 0.0))
    return LocalFrontier(jobdir, policy, identity={"FRONTIER_ORDER": "level"})


def kept(jobdir: Path, *commands: Command | bytes) -> list[bytes]:
    """The rows that the next run reads."""

    async def keep() -> None:
        frontier = opened(jobdir)
        await frontier.put([Link("http://a.test/", "a.test")], 1.0)
        for each in commands:
            await frontier.keep_command(each if isinstance(each, bytes) else each.row)
        await frontier.close()

    asyncio.run(keep())
    again = opened(jobdir)
    asyncio.run(again.close())
    return list(again.commands)


def test_the_frontier_gives_back_what_was_kept(tmp_path: Path) -> None:
    steered = steered_by(kept(tmp_path, DENY, ALLOW, target(9, 0)))
    assert steered.commands == [DENY, ALLOW, target(9, 0)]
    assert (steered.allow, steered.deny) == (ALLOW.arguments, DENY.arguments)
    assert list(steered.lines(0)) == [
        "steering: deny a.test re:x$, from 2026-01-31T12:00:00Z",
        "steering: allow ünïcode.test, from 2026-01-31T12:00:01Z",
        "steering: target 9, from 2026-01-31T13:00:00Z",
    ]


async def test_a_command_that_is_kept_outlives_a_power_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is synced to the disk behind its commit."""
    calls: list[str] = []
    for name in ("commit", "sync"):
        real = getattr(database_module.Database, name)

        def called(self: object, name: str = name, real: object = real) -> None:
            calls.append(name)
            real(self)  # type: ignore[operator]

        monkeypatch.setattr(database_module.Database, name, called)
    frontier = opened(tmp_path)
    calls.clear()
    await frontier.keep_command(DENY.row)
    assert calls == ["commit", "sync"]
    await frontier.close()


def test_the_newer_wish_is_the_target() -> None:
    steered = Steered([target(50, 10), target(70, 10)])
    assert steered.target(10) == 70
    assert list(steered.lines(10)) == ["steering: target 70, from 2026-01-31T13:00:00Z"]
    assert steered.target(100) == 100
    assert list(steered.lines(100)) == [
        (
            "steering: target 70, from 2026-01-31T13:00:00Z, is not used:"
            " CLOSESPIDER_PAGECOUNT was 10 then, and is 100 now"
        )
    ]


@each_of(
    "row",
    [
        b"{",
        b"\xff",
        b'{"command": "deny"}',
        DENY.row.replace(b'["a.test","re:x$"]', b'"a.test"'),
        target(9, 0).row.replace(b'"setting":0', b'"setting":"x"'),
    ],
)
def test_a_row_that_cannot_be_read_is_an_error(row: bytes) -> None:
    with pytest.raises(StoreError, match=r"^command 2 .* is damaged: .*--forget 2 takes"):
        steered_by([DENY.row, row])


def test_a_run_obeys_what_was_kept() -> None:
    frontier = FrontierServer(LocalFrontier(None, in_memory=True), target=5)
    scope = Scope()
    orders = _obey([DENY.row, ALLOW.row, target(9, 5).row], frontier, scope)
    asyncio.run(frontier.close())
    assert orders == Orders(allow=ALLOW.arguments, deny=DENY.arguments)
    assert scope.refuses("http://a.test/", "a.test") == "deny"
    assert frontier.target == 9


def test_a_command_is_shown_and_taken_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(tmp_path, DENY, ALLOW)
    command = FrontierCommand()
    options = {"retry": None, "export": None, "set_clock": False, "forget": None}
    command.run([str(tmp_path)], Namespace(**options))
    said = capsys.readouterr().out.splitlines()
    assert "         1 deny a.test re:x$, from 2026-01-31T12:00:00Z" in said
    command.run([str(tmp_path)], Namespace(**options | {"forget": 1}))
    assert capsys.readouterr().out == "Command 1 is taken back\n"
    assert steered_by(kept(tmp_path, DENY)).commands == [ALLOW, DENY]
    command.run([str(tmp_path)], Namespace(**options | {"forget": 4}))
    assert capsys.readouterr().err == "there is no command 4\n"
    assert command.exitcode == 1


def test_entries_are_unicode() -> None:
    with pytest.raises(SettingError, match="valid Unicode"):
        _entries("deny", ["a.test/\udcff"])


def test_a_shown_command_is_one_printable_line_and_is_cut() -> None:
    assert shown("deny", ["a\x1b[2J", "b\nc"]) == r"deny a\x1b[2J b\nc"
    assert shown("deny", [str(n) for n in range(9)]) == "deny 0 1 2 3 4 and 4 more"


def test_hosts_with_commas_are_several_entries() -> None:
    arguments = ["a.test,", "b.test,c.test", "re:x{1,2}", "a.test/x,y"]
    entries = ("a.test", "b.test", "c.test", "re:x{1,2}", "a.test/x,y")
    assert _entries("deny", arguments) == entries
