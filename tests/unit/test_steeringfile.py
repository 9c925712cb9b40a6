"""`steering.jsonl`: the commands of a crawl that its next run obeys."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webcrawl.crawl.steeringfile import (
    NAME,
    Command,
    SteeringFileError,
    append,
    read_steering,
    repair,
    shown,
)
from webcrawl.extensions.steering import _entries
from webcrawl.scope import ScopeError

DENY = Command("2026-01-31T12:00:00Z", "scrapy ctl", "deny", ("a.test", "re:x$"))
ALLOW = Command("2026-01-31T12:00:01Z", "live page", "allow", ("ünïcode.test",))


def target(pages: int, setting: int) -> Command:
    return Command("2026-01-31T13:00:00Z", "scrapy ctl", "target", (str(pages),), setting)


def test_a_crawl_without_a_file_was_not_steered(tmp_path: Path) -> None:
    steered = read_steering(tmp_path)
    assert (steered.allow, steered.deny, steered.target(7)) == ((), (), 7)
    assert list(steered.lines(7)) == []


def test_the_file_gives_back_what_was_added(tmp_path: Path) -> None:
    for each in (DENY, ALLOW, target(9, 0)):
        append(tmp_path, each)
    steered = read_steering(tmp_path)
    assert steered.commands == [DENY, ALLOW, target(9, 0)]
    assert (steered.allow, steered.deny) == (ALLOW.arguments, DENY.arguments)
    assert list(steered.lines(0)) == [
        "steering: deny a.test re:x$, from 2026-01-31T12:00:00Z",
        "steering: allow ünïcode.test, from 2026-01-31T12:00:01Z",
        "steering: target 9, from 2026-01-31T13:00:00Z",
    ]


def test_the_newer_wish_is_the_target(tmp_path: Path) -> None:
    append(tmp_path, target(50, 10))
    append(tmp_path, target(70, 10))
    steered = read_steering(tmp_path)
    assert steered.target(10) == 70
    assert list(steered.lines(10)) == ["steering: target 70, from 2026-01-31T13:00:00Z"]
    assert steered.target(100) == 100
    assert list(steered.lines(100)) == [
        (
            "steering: target 70, from 2026-01-31T13:00:00Z, is not used:"
            " CLOSESPIDER_PAGECOUNT was 10 then, and is 100 now"
        )
    ]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        "[]",
        '{"command": "deny"}',
        '{"command": "deny", "arguments": "a.test"}',
        '{"command": "deny", "arguments": ["re:("]}',
        '{"command": "pause", "arguments": []}',
        '{"command": "deny", "arguments": ["\\udcff"]}',
        '{"command": "target", "arguments": ["x"]}',
        '{"command": "target", "arguments": ["1"], "setting": "x"}',
    ],
)
def test_a_damaged_line_is_named(tmp_path: Path, line: str) -> None:
    append(tmp_path, DENY)
    with (tmp_path / NAME).open("a") as file:
        file.write(line + "\n")
    append(tmp_path, ALLOW)
    with pytest.raises(SteeringFileError) as error:
        read_steering(tmp_path)
    assert f"{NAME}, line 2 cannot be used: " in str(error.value)
    assert "\n" not in str(error.value)


def test_a_torn_last_line_is_cut_off_wherever_it_ends(tmp_path: Path) -> None:
    append(tmp_path, DENY)
    path = tmp_path / NAME
    before = path.read_bytes()
    append(tmp_path, target(9, 0))
    whole = path.read_bytes()
    for end in range(len(before) + 1, len(whole) - 1):
        path.write_bytes(whole[:end])
        assert read_steering(tmp_path).commands == [DENY]
        assert path.read_bytes() == whole[:end], "another process may be writing it"
        assert repair(tmp_path) == whole[len(before) : end].decode()
        assert path.read_bytes() == before
        assert repair(tmp_path) == ""
    append(tmp_path, target(9, 0))
    assert path.read_bytes() == whole


def test_the_only_line_may_be_torn(tmp_path: Path) -> None:
    append(tmp_path, DENY)
    path = tmp_path / NAME
    whole = path.read_bytes()
    for end in range(len(whole) - 1):
        path.write_bytes(whole[:end])
        assert read_steering(tmp_path).commands == []
        assert repair(tmp_path) == whole[:end].decode()
        assert path.read_bytes() == b""


def test_a_torn_line_need_not_be_text(tmp_path: Path) -> None:
    append(tmp_path, DENY)
    before = (tmp_path / NAME).read_bytes()
    for torn in (b"\0" * 512, b"{\xc3"):  # after a loss of power, or of an editor
        (tmp_path / NAME).write_bytes(before + torn)
        assert read_steering(tmp_path).commands == [DENY]
        assert repair(tmp_path)
        assert (tmp_path / NAME).read_bytes() == before


def test_a_last_line_that_lacks_only_its_line_break_holds(tmp_path: Path) -> None:
    """As editors leave it, so a host that was denied is not asked."""
    append(tmp_path, ALLOW)
    append(tmp_path, DENY)
    whole = (tmp_path / NAME).read_bytes()
    (tmp_path / NAME).write_bytes(whole[:-1])
    assert read_steering(tmp_path).commands == [ALLOW, DENY]
    assert repair(tmp_path) == ""
    assert (tmp_path / NAME).read_bytes() == whole


def test_without_a_file_there_is_nothing_to_repair(tmp_path: Path) -> None:
    assert repair(tmp_path) == ""
    assert not (tmp_path / NAME).exists()


def test_a_damaged_line_before_a_torn_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text('{"command": "deny"\n{"comm')
    with pytest.raises(SteeringFileError, match="line 1 cannot be used"):
        read_steering(tmp_path)


def test_a_whole_last_line_that_is_no_command_is_refused(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text('{"command": "undo", "arguments": []}')
    with pytest.raises(SteeringFileError, match="line 1 cannot be used"):
        read_steering(tmp_path)


def test_entries_are_unicode(tmp_path: Path) -> None:
    with pytest.raises(ScopeError, match="valid Unicode"):
        _entries("deny", ["a.test/\udcff"])


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"\xff\n")
    with pytest.raises(SteeringFileError, match="cannot be read"):
        read_steering(tmp_path)


@given(st.lists(st.text(min_size=1)))
def test_a_shown_command_is_one_printable_line(arguments: list[str]) -> None:
    assert shown("deny", arguments).isprintable()


def test_a_long_command_is_cut() -> None:
    assert shown("deny", [str(n) for n in range(9)]) == "deny 0 1 2 3 4 and 4 more"


def test_hosts_with_commas_are_several_entries() -> None:
    arguments = ["a.test,", "b.test,c.test", "re:x{1,2}", "a.test/x,y"]
    entries = ("a.test", "b.test", "c.test", "re:x{1,2}", "a.test/x,y")
    assert _entries("deny", arguments) == entries
