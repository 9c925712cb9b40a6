"""The entries of one crawl in JetStream: a key-value bucket of NATS, by its API's messages.

A bucket is a stream that keeps the last message of each subject (NATS ADR-8); compare-and-set is
the header `Nats-Expected-Last-Subject-Sequence`. Uses what nats-server 2.9 has.

Deviation: the keys of a bucket begin with its generation, a random number of the stream's own
subjects. NATS numbers the messages of a new stream from 1, so after a wipe an old revision could
match another entry's. With the generation a write for a wiped bucket meets no stream at all, and a
revision (generation and sequence) is never given twice.

A deleted key leaves a marker of some hundred bytes in the bucket, as in any bucket of NATS.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import logging
from collections.abc import Callable
from secrets import randbelow
from typing import Any, Final

from webcrawl.cluster.bus.base import Entry, Refused, Unreachable, decoded, encoded
from webcrawl.cluster.bus.natsclient import Connection
from webcrawl.cluster.bus.natswire import Message

logger = logging.getLogger(__name__)

TIMEOUT_S: Final = 5.0  # of one call
RETRY_S: Final = 0.2  # while a cluster of servers chooses a leader
SEQUENCE_BITS: Final = 39  # 600 writes a second for 29 years
GENERATIONS: Final = 1 << (63 - SEQUENCE_BITS)
HEARTBEAT_S: Final = 1

# JetStream's error codes (nats-server, server/errors.json)
_NO_MESSAGE: Final = 10037
_NO_STREAM: Final = 10059
_NOT_OF_STREAM: Final = 10093  # a consumer of subjects that the stream does not have
_OTHER_CONFIG: Final = 10058  # the stream exists
_WRONG_SEQUENCE: Final = (10071, 10164)
_NO_JETSTREAM: Final = (10039, 10076)
_NOT_CLUSTERED: Final = 10074
_FULL: Final = (10023, 10047, 10002, 10028)  # resources, storage, account's limit
_NO_PEERS: Final = 10005

_SEQUENCE = "Nats-Expected-Last-Subject-Sequence"
_OPERATION = "KV-Operation"


class BucketLost(Exception):  # noqa: N818
    """There is no stream with these subjects now: wiped, or without a leader."""


class Bucket:
    """The bucket of one crawl over one connection. `open` first."""

    def __init__(self, connection: Connection, crawl: str, replicas: int) -> None:
        self.connection = connection
        self._bucket = f"webcrawl_{crawl}"
        self.stream = f"KV_{self._bucket}"
        self._replicas = replicas
        self._generation = 0
        self._opening = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<Bucket {self._bucket} generation {self._generation}>"

    # The stream

    async def open(self) -> None:
        """Find the stream, or make it. Raises Refused, Unreachable."""
        async with self._opening:
            found = await self._api(f"STREAM.INFO.{self.stream}", {})
            if _code(found) == _NO_STREAM:
                found = await self._make()
            if _code(found) == _OTHER_CONFIG:  # another node was first
                found = await self._api(f"STREAM.INFO.{self.stream}", {})
            self._raise(found)
            self._generation = self._generation_of(found)

    async def _check_generation(self) -> None:
        """What is not found may be in a bucket that another node has made since. BucketLost."""
        found = await self._api(f"STREAM.INFO.{self.stream}", {})
        self._raise(found)
        if self._generation_of(found) != self._generation:
            raise BucketLost("wiped, and made again")

    def _generation_of(self, found: dict[str, Any]) -> int:
        prefix, suffix = f"$KV.{self._bucket}.", ".>"
        for subject in found.get("config", {}).get("subjects", ()):
            number = subject.removeprefix(prefix).removesuffix(suffix)
            if subject == f"{prefix}{number}{suffix}" and number.isdecimal():
                return int(number)
        raise Refused(f"the bucket {self._bucket} of the bus is not webcrawl's")

    async def _make(self) -> dict[str, Any]:
        is_cluster = bool(self.connection.info.get("cluster"))
        replicas = self._replicas or (3 if is_cluster else 1)
        config = {
            "name": self.stream,
            "subjects": [f"$KV.{self._bucket}.{randbelow(GENERATIONS - 1) + 1}.>"],
            "max_msgs_per_subject": 1,
            "max_msgs": -1,
            "max_bytes": -1,
            "max_age": 0,
            "max_consumers": -1,
            "storage": "file",
            "retention": "limits",
            "discard": "new",
            "deny_delete": True,
            "allow_rollup_hdrs": True,
            "num_replicas": replicas,
        }
        made = await self._api(f"STREAM.CREATE.{self.stream}", config)
        if not self._replicas and _code(made) == _NOT_CLUSTERED:  # a leaf of a cluster, say
            made = await self._api(f"STREAM.CREATE.{self.stream}", config | {"num_replicas": 1})
        return made

    async def _api(self, call: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The reply, which may have an "error"."""
        data = json.dumps(arguments).encode() if arguments else b""
        try:
            message = await self.connection.request(f"$JS.API.{call}", data, TIMEOUT_S)
        except Unreachable:
            if self.connection.violation:
                raise Refused(f"{self.connection.server}: {self.connection.violation}") from None
            raise
        if message.status == "503":
            if self.connection.info.get("jetstream"):  # a cluster's has no leader yet
                raise Unreachable(f"{self.connection.server}: JetStream is not ready")
            raise Refused(f"{self.connection.server} has no JetStream: start nats-server with -js")
        return self._json(message)

    def _json(self, message: Message) -> dict[str, Any]:
        try:
            reply = json.loads(message.data)
        except (ValueError, RecursionError):
            reply = None
        if not isinstance(reply, dict):
            raise Unreachable(f"{self.connection.server}: not an answer of JetStream")
        return reply

    def _raise(self, reply: dict[str, Any]) -> None:
        """Turn an error of the reply into an exception."""
        code = _code(reply)
        if code is None:
            return
        server, said = self.connection.server, str(reply["error"].get("description", code))
        if code in _NO_JETSTREAM:
            raise Refused(f"{server}: JetStream is off, here or for this account (nats-server -js)")
        if code == _NOT_CLUSTERED:
            raise Refused(f"{server} is one server alone: it keeps no {self._replicas} replicas")
        if code in (_NO_STREAM, _NOT_OF_STREAM):
            raise BucketLost(said)
        if code in _FULL:
            raise Unreachable(f"{server}: JetStream cannot store more: {said}")
        if code == _NO_PEERS:
            raise Unreachable(f"{server}: too few servers of the cluster are up: {said}")
        raise Unreachable(f"{server}: JetStream: {said}")

    # Entries

    def _subject(self, key: str) -> str:
        return f"$KV.{self._bucket}.{self._generation}.{encoded(key)}"

    def _filter(self, prefix: str) -> str:
        if not prefix:
            return f"$KV.{self._bucket}.{self._generation}.>"
        if prefix.endswith("."):
            return f"{self._subject(prefix[:-1])}.>"
        return self._subject(prefix)

    def key_of(self, subject: str) -> str:
        return decoded(subject.split(".", 3)[3])

    def _revision(self, sequence: int) -> int:
        return self._generation << SEQUENCE_BITS | sequence

    def entry_of(self, value: bytes, headers: dict[str, str], sequence: int) -> Entry | None:
        if _OPERATION.lower() in headers:  # DEL or PURGE
            return None
        return Entry(value, self._revision(sequence))

    async def last(self, key: str) -> tuple[Entry | None, int]:
        """The entry, and the sequence of the last message of the key, an entry or a marker."""
        reply = await self._api(
            f"STREAM.MSG.GET.{self.stream}", {"last_by_subj": self._subject(key)}
        )
        if _code(reply) == _NO_MESSAGE:
            await self._check_generation()
            return None, 0
        self._raise(reply)
        try:
            message = reply["message"]
            sequence = int(message["seq"])
            value = base64.b64decode(message.get("data", ""))
            head = base64.b64decode(message.get("hdrs", ""))
        except (KeyError, TypeError, ValueError, binascii.Error):
            raise Unreachable(f"{self.connection.server}: not an answer of JetStream") from None
        headers = {_OPERATION.lower(): ""} if _OPERATION.encode() in head else {}
        return self.entry_of(value, headers, sequence), sequence

    async def write(self, key: str, value: bytes, expected: int | None) -> int | None:
        """Write if the key's last sequence is `expected`. The revision; None if it is not."""
        headers = {} if expected is None else {_SEQUENCE: str(expected)}
        return await self._write(key, value, headers)

    async def erase(self, key: str, expected: int | None) -> bool:
        headers = {_OPERATION: "DEL"}
        if expected is not None:
            headers[_SEQUENCE] = str(expected)
        return await self._write(key, b"", headers) is not None

    async def _write(self, key: str, value: bytes, headers: dict[str, str]) -> int | None:
        subject = self._subject(key)
        message = await self.connection.request(subject, value, TIMEOUT_S, headers)
        if message.status == "503":
            raise BucketLost("no stream")
        reply = self._json(message)
        if _code(reply) in _WRONG_SEQUENCE:
            return None
        self._raise(reply)
        sequence = reply.get("seq")
        if not isinstance(sequence, int):
            raise Unreachable(f"{self.connection.server}: not an answer of JetStream")
        return self._revision(sequence)

    def expected(self, revision: int) -> int | None:
        """The sequence of a revision; None if it is of another generation: wiped since."""
        generation, sequence = divmod(revision, 1 << SEQUENCE_BITS)
        return sequence if generation == self._generation else None

    # Consumers

    async def follow(self, prefix: str, handle: Callable[[Message], None]) -> Consumer:
        """Let the server send the last message under `prefix` of each key, and all later ones."""
        connection = self.connection
        subject = f"{connection.inbox}.follow.{connection.next_number()}"
        sid = connection.subscribe(subject, handle)
        config = {
            "deliver_subject": subject,
            "deliver_policy": "last_per_subject",
            "filter_subject": self._filter(prefix),
            "ack_policy": "none",
            "replay_policy": "instant",
            "max_deliver": 1,
            "flow_control": True,
            "idle_heartbeat": HEARTBEAT_S * 10**9,
            "mem_storage": True,
            "num_replicas": 1,
        }
        try:
            reply = await self._api(
                f"CONSUMER.CREATE.{self.stream}", {"stream_name": self.stream, "config": config}
            )
            self._raise(reply)
            return Consumer(self, sid, str(reply["name"]), int(reply.get("num_pending", 0)))
        except (KeyError, TypeError, ValueError):
            connection.unsubscribe(sid)
            raise Unreachable(f"{connection.server}: not an answer of JetStream") from None
        except BaseException:
            connection.unsubscribe(sid)
            raise


class Consumer:
    """The server's side of one `follow`."""

    def __init__(self, bucket: Bucket, sid: int, name: str, pending: int) -> None:
        self.pending = pending  # messages that were under the prefix when it began
        self._bucket, self._sid, self._name = bucket, sid, name

    def close(self) -> None:
        connection = self._bucket.connection
        connection.unsubscribe(self._sid)
        connection.publish(f"$JS.API.CONSUMER.DELETE.{self._bucket.stream}.{self._name}", b"")


def position(reply: str) -> tuple[int, int, int] | None:
    """(sequence in the stream, number of the delivery, how many follow) of a delivery's reply.

    `$JS.ACK.<stream>.<consumer>.<tries>.<sequence>.<number>.<time>.<pending>`, or with domain and
    account before the stream, and a token after (NATS ADR-15).
    """
    words = reply.split(".")
    if len(words) == 9:
        words = words[5:9]
    elif len(words) >= 11:
        words = words[7:11]
    else:
        return None
    try:
        return int(words[0]), int(words[1]), int(words[3])
    except ValueError:
        return None


def _code(reply: dict[str, Any]) -> int | None:
    """JetStream's code of the error, if it is one."""
    error = reply.get("error")
    if not isinstance(error, dict):
        return None
    code = error.get("err_code", error.get("code", 0))
    return code if isinstance(code, int) else 0
