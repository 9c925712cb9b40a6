"""Mail between the hubs of a crawl on several machines: links, and robots.txt of other hosts.

A hub is a frontier that has the hosts of some registered domains; a host of another hub is
foreign. Owns the kinds of mail, and the numbers of mail sent and received. Does not know how mail
travels.

A hub writes mail to its store in the commit that makes it: a link in the commit that releases
its page. The mail for each other hub is numbered, in each run without gaps. It is deleted
once the other hub has it (`sent`). The other hub stores the number of the last mail that it has
applied in the commit that applies it, and skips mail up to that number. So each mail is applied
once, whatever is lost, repeated or reordered on its way, and after a kill of either.

A folder that was set back, by a loss of power or to a checkpoint, no longer has the last mail that
it has sent. So the mail of each run has higher numbers than that of all runs before (`send`):
no other hub takes new mail for mail that it has applied. The mail that the folder still has keeps
its numbers.

The mail of one commit for one hub is one row, ROW_MAX of them at most: an array, as it travels.
So it is encoded once, and not decoded before it is there.

A robots.txt of a host that redirects to a foreign host: the task travels to the hub of that host,
which asks for it as for any robots.txt of its own hosts, and perhaps sends the task on. The result
travels to the task's home. The hub that has the task keeps it in a row until then. The home does
not: in its next run it asks for robots.txt again, and at worst gets two answers.

A link that was sent lately is sent again unless `urlcache` leaves it out; its hub ignores it.

Times of two machines are not compared: mail has durations only.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal, NamedTuple

from msgspec import Struct
from msgspec.msgpack import Decoder, Encoder

from webcrawl.frontier.disk import rows
from webcrawl.frontier.disk.store import Store
from webcrawl.frontier.lease import Link, RobotsFetched, RobotsTask
from webcrawl.parse.jointrules import read_rules
from webcrawl.parse.robots import RobotsRules

# Of rules as they travel, so that a mail fits into one message. Only a robots.txt of 500 KB that
# does not compress is larger.
RULES_BYTES_MAX: Final = 256 << 10
# Mail of one row, and the bytes of a row with more than one.
ROW_MAX: Final = 100
ROW_BYTES_MAX: Final = 64 << 10
NO_MAIL: Final = (1, 0)  # the numbers of an outbox without mail
JUMP: Final = 1 << 30  # more mail than a hub sends in a second


# The other hubs: the one that has a canonical host; None if it is our own.
Partition = Callable[[str], int | None]


class _Mail(Struct, frozen=True, array_like=True, gc=False, tag=True):
    """An array that begins with the name of its class."""


class FoundLink(_Mail, frozen=True):
    """A link to a host of the receiver. It has no payload.

    cash -- from its page, moved out of the sender's ordering; None if it is not from a page
    force -- skip the URL-seen test
    """

    link: Link
    cash: float | None = None
    force: bool = False


class RobotsAsked(_Mail, frozen=True):
    """`robots_task.url` is on a host of the receiver, which is to fetch it."""

    robots_task: RobotsTask


class RobotsAnswered(_Mail, frozen=True):
    """The rules for a home of the receiver, compressed; valid for `valid_s` from now on."""

    robots_task: RobotsTask
    rules: bytes
    valid_s: float
    kind: Literal["2xx", "4xx", "redirects"]
    agent: str

    def read(self) -> RobotsRules:
        return read_rules(zlib.decompress(self.rules))


class RobotsFailed(_Mail, frozen=True):
    """A robots.txt for a home of the receiver was not fetched. `again`: it may be tried again."""

    robots_task: RobotsTask
    reason: str
    again: bool
    retry_after_s: float = 0.0


Mail = FoundLink | RobotsAsked | RobotsAnswered | RobotsFailed

encode: Callable[[RobotsTask | Sequence[Mail]], bytes] = Encoder().encode
decode_all: Callable[[bytes], list[Mail]] = Decoder(list[Mail]).decode
_decode_task: Callable[[bytes], RobotsTask] = Decoder(RobotsTask).decode


class Packed(NamedTuple):
    """`number` mails, the first of them with number `first`, as one array of MessagePack."""

    number: int
    data: bytes
    first: int


class _Row(NamedTuple):
    """A row of the store: its mail has the numbers from `after` + 1 to `last`."""

    after: int
    last: int
    data: bytes


def _items(row: bytes) -> tuple[int, int]:
    """(the number of mails in an array, where the first one begins)."""
    head = row[0]
    if head < 0xA0:  # a fixarray: 0x90 and the number
        return head - 0x90, 1
    return int.from_bytes(row[1:3]), 3  # an array 16: 0xdc


def answered(robots_task: RobotsTask, outcome: RobotsFetched, now: float) -> Mail:
    """The mail to the home of `robots_task`, whose robots.txt was fetched."""
    rules = zlib.compress(outcome.rules.to_bytes(), 1)
    if len(rules) > RULES_BYTES_MAX:
        return RobotsFailed(robots_task, "too_large", again=False)
    valid_s = outcome.expires_at - now
    return RobotsAnswered(robots_task, rules, valid_s, outcome.kind, outcome.agent)


class Mailbox:
    """The numbers of one hub's mail, and its rows in `store`.

    outbox -- by hub: the number of the first mail that is kept, and of the last one ever written;
        if none is kept, the first is the last plus 1. Where a run has begun, numbers are left out:
        a multiple of JUMP
    inbox -- by hub: the last mail of it that was applied
    robots_tasks -- origins whose robots.txt a host of ours is to fetch for a foreign host

    Memory: two numbers and the first rows for each hub (`RowLine`); the tasks; the mail of the
    next commit. On disk 150 bytes for each link that is not sent.
    """

    def __init__(self, store: Store, partition: Partition | None, time: float = 0.0) -> None:
        """`partition` None: all hosts are ours, in a folder that only a command opens.

        `time`: the beginning of this run, UTC. Runs begin two seconds apart, by any clock.
        """
        self._store = store
        self._partition = partition
        numbers = store.numbers.get("mail", {})
        outbox, inbox = numbers.get("outbox", {}), numbers.get("inbox", {})
        self.outbox: dict[int, tuple[int, int]] = {int(k): (v[0], v[1]) for k, v in outbox.items()}
        self.inbox: dict[int, int] = {int(k): v for k, v in inbox.items()}
        self._began = int(time) * JUMP
        self._jumps_min = int(store.resumed)
        self._sent_to: set[int] = set()  # the hubs that this run has sent mail to
        self.robots_tasks: set[str] = set()
        self._unwritten: dict[int, list[Mail]] = {}  # by hub

    def hub_of(self, host: str) -> int | None:
        """The hub of a foreign `host`; None if the host is ours."""
        return None if self._partition is None else self._partition(host)

    def numbers(self) -> dict[str, Any]:
        """JSON values for the next run."""
        return {"outbox": self.outbox, "inbox": self.inbox}

    # Out

    def send(self, hub: int, mail: Mail) -> None:
        """Write `mail` with the next commit."""
        first, last = self.outbox.get(hub, NO_MAIL)
        if hub not in self._sent_to:
            self._sent_to.add(hub)
            jumps = max(-(-(self._began - last) // JUMP), self._jumps_min)
            first = first if first <= last else last + jumps * JUMP + 1
            last += jumps * JUMP
        last += 1
        self.outbox[hub] = first, last
        unwritten = self._unwritten.setdefault(hub, [])
        unwritten.append(mail)
        if len(unwritten) == ROW_MAX:
            self._write(hub, last, self._unwritten.pop(hub))

    def write(self) -> None:
        """Give the store what was sent. Call it before each commit."""
        for hub, mail in self._unwritten.items():
            self._write(hub, self.outbox[hub][1], mail)
        self._unwritten.clear()

    def _write(self, hub: int, last: int, mail: Sequence[Mail]) -> None:
        """Write `mail`, of which the last one has number `last`."""
        row = encode(mail)
        if len(row) <= ROW_BYTES_MAX or len(mail) == 1:
            self._store.mail_line(hub).add(rows.mail_key(hub, last), row)
        else:
            half = len(mail) // 2
            self._write(hub, last - len(mail) + half, mail[:half])
            self._write(hub, last, mail[half:])

    def packed(self, hub: int, after: int, limit: int, limit_bytes: int) -> Packed:
        """The rows with mail behind number `after`: of `limit` mails at most, in `limit_bytes`,
        unless the first row is larger; and of one run. 1 µs for each row.
        """
        parts: list[bytes] = []
        count = size_bytes = 0
        after = max(after, self.outbox.get(hub, NO_MAIL)[0] - 1)
        for row in self._rows(hub, after):
            new, begin = _items(row.data)
            if not parts:
                after = row.after
            elif row.after > after + count:
                break
            size_bytes += len(row.data)
            if parts and (count + new > limit or size_bytes > limit_bytes):
                break
            parts.append(row.data[begin:])
            count += new
        return Packed(count, b"\xdc" + count.to_bytes(2) + b"".join(parts), after + 1)

    def _rows(self, hub: int, after: int) -> Iterable[_Row]:
        """The rows with mail behind number `after`, the first of them at least."""
        for key, row in self._store.mail_line(hub).rows(rows.mail_key(hub, after)):
            last = rows.mail_number(key)
            yield _Row(last - _items(row)[0], last, row)

    def sent(self, hub: int, upto: int) -> int:
        """`hub` has all mail up to number `upto`: delete it. Returns its number."""
        first, last = self.outbox.get(hub, NO_MAIL)
        end = min(upto, last) + 1
        if end <= first:
            return 0
        for row in self._rows(hub, first - 1):
            if row.last >= end:
                break
            self._store.mail_line(hub).remove(rows.mail_key(hub, row.last))
        self.outbox[hub] = end, last
        return end - first

    # In

    def new_of(self, sender: int, last: int, mail: Sequence[Mail]) -> Sequence[Mail]:
        """The part of `mail` that was not applied. Its last one has the number `last`.

        All mail up to `last` counts as applied from now on: mail arrives in order, so what is
        missing before it was lost.
        """
        new = last - self.inbox.get(sender, 0)
        if new <= 0:
            return ()
        self.inbox[sender] = last
        return mail[max(len(mail) - new, 0) :]

    # Robots tasks of foreign hosts

    def keep_task(self, robots_task: RobotsTask) -> None:
        """A host of ours is to fetch it. One task for each origin."""
        self.robots_tasks.add(robots_task.origin)
        self._store.keep_robots_task(robots_task.origin, encode(robots_task))

    def end_task(self, robots_task: RobotsTask) -> None:
        """It was fetched, or sent on."""
        if robots_task.origin in self.robots_tasks:
            self.robots_tasks.remove(robots_task.origin)
            self._store.drop_robots_task(robots_task.origin)

    def kept_tasks(self) -> list[RobotsTask]:
        """Those of an earlier run."""
        return [_decode_task(row) for row in self._store.robots_tasks()]
