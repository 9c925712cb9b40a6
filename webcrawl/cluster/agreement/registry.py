"""The crawl's record on the bus: one ID, protocol, number of shards and set of settings for all.

Owns the record `crawl`, joining, and the finding of a lost KV. Knows nothing of members or shards.

The era is a random text in the record. When the KV was lost (its disk wiped, its bucket deleted),
the record is made anew from a node's `node.json`, with another era. No era comes twice. So if
`confirm` finds the era that was known before a write, the write was made in that KV, and not in one
that has forgotten what others hold.

| the node has | and finds on the bus | so it |
| --- | --- | --- |
| no `node.json` | the record | joins, if protocol, shards and settings agree |
| no `node.json` | nothing, for GATHER_S | begins a crawl. In this time a node that has lost the KV makes the record anew |
| `node.json` of this crawl | the record | joins, if they agree; its shards are its own as before |
| `node.json` of this crawl | nothing | makes the record anew (a rebuilt KV), and its shards' records |
| `node.json` of another crawl | the record | is refused: exit code 2, its folder stays as it is |
| `node.json` of another version's crawl | the record | is refused by the protocol |
| joined | the record of the same era | goes on |
| joined | the record, another era | the KV was lost and another node was faster: writes its own records again |
| joined | nothing | makes the record anew, as above |
| joined | another crawl's record: the KV was lost, and a new node was the first | is refused: the node that came later ends, the other crawl goes on. Stop that one, wipe the bus, and start both again |
| other settings | another node alive | is refused, by the name of the first setting and both values |
| other settings | no node alive | replaces them for the whole crawl, with a warning, as in a crawl of one node |

Two nodes that begin, or make anew, at the same moment: `create` has one winner, the other joins its
record. In a rebuilt KV no shard without a record is begun (`shards`), no address is taken that may
still be held (`tenancy`), and no place of the target before all shards have written theirs.
"""  # noqa: E501  # the rows of a table

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Final
from uuid import uuid4

from msgspec.structs import replace

from webcrawl.cluster.agreement.nodefile import NodeStore
from webcrawl.cluster.agreement.records import CRAWL, PROTOCOL, Crawl, read, write
from webcrawl.cluster.bus import Bus, Refused
from webcrawl.crawllog.files import new_crawl_id

GATHER_S: Final = 4.0  # a node that has joined looks at the record at least each 3 s

# Settings that each node may have as it likes, with the reason. All others must agree.
OWN_SETTINGS: Final[Mapping[str, str]] = {
    "JOBDIR": "a folder of the machine",
    "WARC_DIR": "a folder of the machine",
    "DEDUP_INDEX": "files of the machine; each node looks up what it fetches",
    "WARC_PREFIX": "files of several machines may be put together: their names may tell whose",
    "WARC_MAX_SIZE": "a matter of the machine's disk",
    "WARC_MAX_TOTAL": "a budget of the machine's disk",
    "REPORT_DIR": "a folder of the machine",
    "DISK_FREE_MIN": "a matter of the machine's disk",
    "CONCURRENT_REQUESTS": "a matter of the machine's size",
    "CRAWL_PROCESSES": "a matter of the machine's size",
    "FRONTIER_ACTIVE_HOSTS": "a matter of the machine's memory",
    "KEEP_ALIVE": "a matter of the machine's sockets",
    "CLOSE_GRACE": "each node ends by itself",
    "CLOSESPIDER_TIMEOUT": "the time of one node's run",
    "BOT_AUTH_KEY": "a file of the machine",
    "PROXY": "a proxy near the machine; that there is one is compared by itself",
    "WARC_OMIT_HEADERS": "a matter of the machine's files",
    "DNS_SERVERS": "the name servers near the machine",
    "OUTAGE_TIMEOUT": "each machine has a network of its own",
    "STATS_INTERVAL": "lines on the machine's terminal",
    "LIVE": "a port of the machine",
    "RULES": "each node reads its own copy again when it changes; copy it to all machines",
    "CLUSTER": "another server of the same bus, or other credentials",
    "CLUSTER_NAME": "nodes with another name are on another bus",
    "CLUSTER_SHARDS": "compared by itself",
    "CLUSTER_CHECKPOINTS": "a folder of the machine",
    "CLUSTER_CHECKPOINT_INTERVAL": "a matter of the machine's disks",
    "CLUSTER_REBALANCE": "each node decides what it gives away",
}


def settings_to_agree(typed: Mapping[str, object]) -> dict[str, str]:
    """The settings of `typed` (by name) that all nodes must have alike, as JSON texts."""
    return {
        name: json.dumps(value, sort_keys=True, default=str)
        for name, value in sorted(typed.items())
        if name not in OWN_SETTINGS
    }


def refusal(mine: Crawl, theirs: Crawl, *, with_settings: bool = True) -> str:
    """Why a node with `mine` may not join the crawl `theirs`, in one line; "" if it may."""
    if theirs.protocol != mine.protocol:
        return (
            f"the crawl {theirs.id} on this bus has protocol {theirs.protocol}, and this version"
            f" of webcrawl has {mine.protocol}: run the same version on all nodes"
        )
    if mine.id not in ("", theirs.id):
        return (
            f"JOBDIR belongs to the crawl {mine.id}, and the crawl on this bus is {theirs.id}:"
            " use another JOBDIR, or another CLUSTER_NAME"
        )
    if theirs.shards != mine.shards:
        return (
            f"CLUSTER_SHARDS = {mine.shards}, and the crawl {theirs.id} was begun with"
            f" {theirs.shards}: it cannot change"
        )
    name = different_setting(mine.settings, theirs.settings) if with_settings else ""
    if name:
        return (
            f"{name} = {mine.settings.get(name, 'unset')}, and the nodes of the crawl {theirs.id}"
            f" have {theirs.settings.get(name, 'unset')}: all nodes need the same"
        )
    return ""


def different_setting(mine: Mapping[str, str], theirs: Mapping[str, str]) -> str:
    """The first setting that differs, "" if none does."""
    names = sorted(mine.keys() | theirs.keys())
    return next((name for name in names if mine.get(name) != theirs.get(name)), "")


class Registry:
    """This node's view of the record. Memory: the record.

    crawl -- the record as last seen; None before `join` has returned it
    warning -- a line for the log: this node has replaced settings
    """

    def __init__(
        self,
        bus: Bus,
        store: NodeStore,
        settings: Mapping[str, str],
        shards: int,
        clock: Callable[[], float],
    ) -> None:
        self.crawl: Crawl | None = None
        self.warning = ""
        self._bus = bus
        self._store = store
        self._clock = clock
        known = store.content
        self._mine = Crawl(known.crawl, PROTOCOL, shards, dict(settings), "")
        if known.shards not in (0, shards):
            raise Refused(
                f"CLUSTER_SHARDS = {shards}, and the crawl {known.crawl} of JOBDIR was begun with"
                f" {known.shards}: it cannot change"
            )
        self._empty_at = float("inf")  # when the bus was first seen without a record
        self._gets = 0  # begun
        self._confirming = asyncio.Lock()
        self._confirmed = (0, "")  # the number of the last `get` that was answered, and the era

    def __repr__(self) -> str:
        return f"<Registry of {self.crawl.id if self.crawl is not None else 'no crawl'}>"

    @property
    def era(self) -> str:
        return self.crawl.era if self.crawl is not None else ""

    async def join(self, *, is_alone: bool) -> Crawl | None:
        """Join the crawl, or begin one. None: not yet, call again within a second.

        `is_alone`: no other node that has joined is alive, and this node's heartbeat was on the bus
        before that was looked at. Refused if this node must not join.
        """
        found = await read(self._bus, CRAWL, Crawl)
        if found is None:
            if not self._mine.id and not self._has_waited():
                return None
            return await self._make()
        theirs = found.record
        line = refusal(self._mine, theirs, with_settings=not is_alone)
        if line:
            raise Refused(line)
        name = different_setting(self._mine.settings, theirs.settings)
        if name:  # and is alone
            changed = replace(theirs, settings=self._mine.settings)
            if not await write(self._bus, CRAWL, changed, found.revision):
                return None
            self.warning = (
                f"{name} is {self._mine.settings.get(name, 'unset')} from now on, for all nodes;"
                f" it was {theirs.settings.get(name, 'unset')}"
            )
            theirs = changed
        return self._joined(theirs)

    async def check(self) -> Crawl:
        """Look at the record again. A lost one is made anew. Refused: it is another crawl's."""
        found = await read(self._bus, CRAWL, Crawl)
        while found is None:
            made = await self._make()
            if made is not None:
                return made
            found = await read(self._bus, CRAWL, Crawl)
        line = refusal(self._mine, found.record)
        if line:
            raise Refused(line)
        return self._joined(found.record)

    async def confirm(self, era: str) -> bool:
        """Whether the KV, after all that was written before this call, has the era `era` still.

        Calls at the same time share one `get`.
        """
        called = self._gets
        async with self._confirming:
            if self._confirmed[0] <= called:
                self._gets += 1
                number = self._gets
                found = await read(self._bus, CRAWL, Crawl)
                self._confirmed = (number, found.record.era if found is not None else "")
            return bool(era) and self._confirmed[1] == era

    async def settle(self, era: str) -> None:
        """Holders of addresses had the time to write theirs into the rebuilt KV of `era`."""
        found = await read(self._bus, CRAWL, Crawl)
        if found is not None and found.record.era == era and found.record.is_rebuilt:
            await write(self._bus, CRAWL, replace(found.record, is_rebuilt=False), found.revision)

    def _has_waited(self) -> bool:
        now = self._clock()
        self._empty_at = min(self._empty_at, now)
        return now >= self._empty_at + GATHER_S

    async def _make(self) -> Crawl | None:
        """Make the record. None: another node was faster."""
        before = self.crawl.losses if self.crawl is not None else 0
        losses = before + 1 if self._mine.id else 0
        record = replace(
            self._mine,
            id=self._mine.id or new_crawl_id(),
            era=uuid4().hex[:16],
            is_rebuilt=losses > 0,
            losses=losses,
        )
        if not await write(self._bus, CRAWL, record, 0):
            return None
        return self._joined(record)

    def _joined(self, record: Crawl) -> Crawl:
        self._mine = replace(self._mine, id=record.id)
        if self._store.content.crawl != record.id:
            self._store.keep(crawl=record.id, shards=record.shards)
        self.crawl = record
        return record
