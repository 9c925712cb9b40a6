"""The mail in letters between hubs: what is written is read, and nothing else is."""

from __future__ import annotations

import zlib
from typing import Any

import pytest
from isal import isal_zlib
from msgspec import DecodeError
from msgspec.msgpack import encode
from msgspec.structs import replace

from tests.cases import each_of
from webcrawl.cluster.letters import ROWS_BYTES_MAX, MailRows, read_rows, write_rows
from webcrawl.frontier.lease import FIRST_KEPT, LAST_REQUISITE, REQUISITE, Link, RobotsTask
from webcrawl.frontier.mailbox import (
    FoundLink,
    Mail,
    Packed,
    RobotsAnswered,
    RobotsAsked,
    RobotsFailed,
)
from webcrawl.parse.jointrules import joint_rules
from webcrawl.parse.robots import RobotsRules

LINK = Link("https://a.example/x", "a.example", 2, 1, "http://b.example:8080/", sequence=3)
TASK = RobotsTask("https://a.example", "a.example", "https://b.example/robots.txt", 1, 2)
RULES = RobotsRules.parse(b"user-agent: *\ndisallow: /private\ncrawl-delay: 3", "x")
JOINT_RULES = joint_rules(b"user-agent: *\ndisallow: /p\nuser-agent: x\nallow: /", "x,y")
ANSWER = RobotsAnswered(TASK, zlib.compress(RULES.to_bytes()), 3600.0, "2xx", "")
MAIL: list[Mail] = [
    FoundLink(LINK),
    FoundLink(replace(LINK, url="http://a.example:8080/?q", via=""), 0.25, force=True),
    FoundLink(replace(LINK, url="http://[::1]/", host="::1")),
    RobotsAsked(TASK),
    ANSWER,
    RobotsAnswered(TASK, zlib.compress(JOINT_RULES.to_bytes()), 3600.0, "2xx", ""),
    RobotsFailed(TASK, "timeout", again=True, retry_after_s=3.0),
]


def letter_of(rows: Any, *, count: int | None = None) -> MailRows:
    data = isal_zlib.compress(encode(rows), 1)
    return MailRows(20, len(rows) if count is None else count, data)


def read(letter: MailRows) -> list[Mail]:
    return read_rows(letter, lambda host: host != "c.example")


def test_what_is_written_is_read() -> None:
    letter = write_rows(Packed(len(MAIL), encode(MAIL), 11))
    assert letter.last == 10 + len(MAIL)
    assert read(letter) == MAIL


BAD_LINKS = {
    "a payload": replace(LINK, payload=b"code"),
    "tries": replace(LINK, retries=1),
    "counted": replace(LINK, is_counted=True),
    "kept": replace(LINK, kept="dns"),
    "head": replace(LINK, head_done=True),
    "negative depth": replace(LINK, depth=-1),
    "a depth that no priority can have": replace(LINK, depth=FIRST_KEPT - 1),
    "huge redirects": replace(LINK, redirects=1 << 40),
    "another host": replace(LINK, host="b.example"),
    "a longer host": replace(LINK, url="https://a.example.com/x"),
    "lastmod": replace(LINK, lastmod=-1),
    "a kind": replace(LINK, sitemap=LAST_REQUISITE - 1),
    "a requisite of nobody": replace(LINK, sitemap=REQUISITE, via=""),
    "a sitemap of nobody": replace(LINK, sitemap=1, via="x"),
    "no host": replace(LINK, url="https:///x", host=""),
    "a host in upper case": replace(LINK, url="https://A.example/", host="A.example"),
    "another scheme": replace(LINK, url="ftp://a.example/x"),
    "no path": replace(LINK, url="https://a.example"),
    "user info": replace(LINK, url="https://u@a.example/", host="u@a.example"),
    "a line end": replace(LINK, url="https://a.example/x\n"),
    "a space": replace(LINK, via="https://b.example/ HTTP/1.1"),
    "not ASCII": replace(LINK, via="https://b.example/é"),
    "too long": replace(LINK, url="https://a.example/" + "x" * 8192),
    "a number as URL": replace(LINK, url=7),
}


@each_of("link", BAD_LINKS.values(), ids=BAD_LINKS)
def test_a_link_that_no_frontier_writes_is_refused(link: Link) -> None:
    with pytest.raises(DecodeError):
        read(letter_of([MAIL[0], FoundLink(link)]))


BAD_ROWS = {
    "cash that is no number": FoundLink(LINK, float("nan")),
    "endless cash": FoundLink(LINK, float("inf")),
    "negative cash": FoundLink(LINK, -0.1),
    "a task of no origin": RobotsAsked(TASK._replace(origin="file:///x")),
    "a task of another host": RobotsFailed(TASK._replace(home="b.example"), "timeout", again=True),
    "a task of nobody": RobotsAsked(TASK._replace(origin="https://", home="")),
    "a task of a path": RobotsAsked(TASK._replace(origin="https://a.example/x")),
    "a task with a line end": RobotsAsked(TASK._replace(url="https://a.example/\r\nx:y")),
    "rules that are not compressed": replace(ANSWER, rules=b"x"),
    "rules that are none": replace(ANSWER, rules=zlib.compress(b"x")),
    "rules as a bomb": replace(ANSWER, rules=isal_zlib.compress(bytes(16 << 20))),
    "rules that hold for ever": replace(ANSWER, valid_s=float("inf")),
    "another reason": RobotsFailed(TASK, "a reason\n", again=True),
    "no mail": 7,
    "another kind of mail": ["Other", 7],
    "a task of no host": RobotsAsked(TASK._replace(url="https://")),
    "a link for another hub": FoundLink(replace(LINK, url="http://c.example/", host="c.example")),
    "a task for another hub": RobotsAsked(TASK._replace(url="https://c.example/robots.txt")),
    "rules for another hub": replace(ANSWER, robots_task=TASK._replace(home="c.example")),
}


@each_of("row", BAD_ROWS.values(), ids=BAD_ROWS)
def test_a_mail_that_is_not_for_this_hub_or_of_no_frontier_is_refused(row: Any) -> None:
    with pytest.raises(DecodeError):
        read(letter_of([MAIL[0], row]))


@each_of(
    "letter",
    [
        letter_of(MAIL, count=len(MAIL) - 1),
        letter_of([7] * 100_000, count=500),
        MailRows(9, 1, b"no zlib"),
        MailRows(9, 1, zlib.compress(encode(MAIL[:1]))[:-5]),
        MailRows(9, 1, zlib.compress(encode(MAIL[:1])) + b"more"),
        MailRows(9, 1, isal_zlib.compress(bytes(8 << 20))),
        MailRows(9, 1, zlib.compress(b"\xdd\xff\xff\xff\xff")),
        MailRows(9, 1, zlib.compress(b"\x91" * ROWS_BYTES_MAX)),
    ],
    ids=["fewer", "more", "garbage", "cut", "two", "bomb", "endless", "deep"],
)
def test_other_data_is_refused(letter: MailRows) -> None:
    with pytest.raises(DecodeError):
        read(letter)
