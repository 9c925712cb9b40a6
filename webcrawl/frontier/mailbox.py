"""Mail between the shards of a crawl on several machines: links, and robots.txt of other hosts.

A shard is a frontier that has the hosts of some registered domains; a host of another shard is
foreign. Owns the kinds of mail, and the numbers of mail sent and received. Does not know how mail
travels.

A shard writes each mail as a row of its store, in the commit that makes it: a link in the commit
that releases its page. The rows for each other shard are numbered 1, 2, 3 and so on, without gaps.
A row is deleted once the other shard has it (`sent`). The other shard stores the number of the last
row that it has applied in the commit that applies it, and skips rows up to that number. So each row
is applied once, whatever is lost, repeated or reordered on its way, and after a kill of either.

A robots.txt of a host that redirects to a foreign host: the task travels to the shard of that host,
which asks for it as for any robots.txt of its own hosts, and perhaps sends the task on. The result
travels to the task's home. The shard that has the task keeps it in a row until then. The home does
not: in its next run it asks for robots.txt again, and at worst gets two answers.

A link that was sent lately is sent again unless `urlcache` leaves it out; its shard ignores it.

Times of two machines are not compared: mail has durations only.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, Protocol

from msgspec import Struct
from msgspec.msgpack import Decoder, Encoder

from webcrawl.frontier.lease import Link, RobotsFetched, RobotsTask
from webcrawl.frontier.store import Store
from webcrawl.parse.robots import RobotsRules
from webcrawl.parse.robotsparsers import read_rules

# Of rules as they travel, so that a mail fits into one message. Only a robots.txt of 500 KB that
# does not compress is larger.
RULES_BYTES_MAX: Final = 256 << 10


class Abroad(Protocol):
    """The other shards, as one shard sees them."""

    def shard_of(self, host: str) -> int | None:
        """The shard that has a canonical `host`; None if it is our own."""


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

encode: Callable[[Mail | RobotsTask], bytes] = Encoder().encode
decode: Callable[[bytes], Mail] = Decoder(Mail).decode
_decode_task: Callable[[bytes], RobotsTask] = Decoder(RobotsTask).decode


def answered(robots_task: RobotsTask, outcome: RobotsFetched, now: float) -> Mail:
    """The mail to the home of `robots_task`, whose robots.txt was fetched."""
    rules = zlib.compress(outcome.rules.to_bytes(), 1)
    if len(rules) > RULES_BYTES_MAX:
        return RobotsFailed(robots_task, "too_large", again=False)
    valid_s = outcome.expires_at - now
    return RobotsAnswered(robots_task, rules, valid_s, outcome.kind, outcome.agent)


class Mailbox:
    """The numbers of one shard's mail, and its rows in `store`.

    outbox -- by shard: the first row that is kept, and the last row ever written; without rows the
        first is the last plus 1
    inbox -- by shard: the last row of it that was applied
    robots_tasks -- origins whose robots.txt a host of ours is to fetch for a foreign host

    Memory: two numbers for each shard; the tasks. On disk one row for each mail that is not sent.
    """

    def __init__(self, store: Store, abroad: Abroad | None) -> None:
        """`abroad` None: all hosts are ours, in a folder that only a command opens."""
        self._store = store
        self._abroad = abroad
        numbers = store.numbers.get("mail", {})
        outbox, inbox = numbers.get("outbox", {}), numbers.get("inbox", {})
        self.outbox: dict[int, tuple[int, int]] = {int(k): (v[0], v[1]) for k, v in outbox.items()}
        self.inbox: dict[int, int] = {int(k): v for k, v in inbox.items()}
        self.robots_tasks: set[str] = set()

    def shard_of(self, host: str) -> int | None:
        """The shard of a foreign `host`; None if the host is ours."""
        return None if self._abroad is None else self._abroad.shard_of(host)

    def numbers(self) -> dict[str, Any]:
        """JSON values for the next run."""
        return {"outbox": self.outbox, "inbox": self.inbox}

    # Out

    def send(self, shard: int, mail: Mail) -> None:
        first, last = self.outbox.get(shard, (1, 0))
        self._store.put_mail(shard, last + 1, encode(mail))
        self.outbox[shard] = first, last + 1

    def unsent(self, shard: int, after: int, limit: int) -> list[Mail]:
        """The rows of the last commit behind number `after`, `limit` at most; 2 µs each.

        None if the next of them was deleted (`outbox`): `shard` has lost what it had.
        """
        if after + 1 < self.outbox.get(shard, (1, 0))[0]:
            return []
        return [decode(row) for row in self._store.mail(shard, after, limit)]

    def sent(self, shard: int, upto: int) -> int:
        """`shard` has all rows up to number `upto`: delete them. Returns their number."""
        first, last = self.outbox.get(shard, (1, 0))
        end = min(upto, last) + 1
        if end <= first:
            return 0
        self._store.drop_mail(shard, first, end)
        self.outbox[shard] = end, last
        return end - first

    # In

    def new_of(self, sender: int, first: int, mail: Sequence[Mail]) -> Sequence[Mail]:
        """The part of `mail` that was not applied. All of it is numbered from `first` on.

        Empty if rows before `first` are missing. The rest counts as applied from now on.
        """
        applied = self.inbox.get(sender, 0)
        if first > applied + 1:
            return ()
        new = mail[applied + 1 - first :]
        self.inbox[sender] = applied + len(new)
        return new

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
