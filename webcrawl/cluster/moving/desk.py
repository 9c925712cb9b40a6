"""Commands about shards (`scrapy shard`): where they are, moves, checkpoints, restores.

A command comes from a user of this machine, over the control socket, or over the bus. What comes
over the bus may name no path, and is only: the state of this node's shards, and a move of one.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final
from uuid import uuid4

import msgspec
from msgspec import Struct

from webcrawl.cluster.agreement.members import SILENT_S
from webcrawl.cluster.agreement.records import (
    CRAWL,
    DRIFT,
    NODES,
    SHARDS,
    UNREADABLE,
    Crawl,
    NodeRecord,
    ShardRecord,
    decode,
    read,
    shards_of,
)
from webcrawl.cluster.bus import Bus, BusError
from webcrawl.cluster.errors import CopyError, MoveError
from webcrawl.cluster.moving.checkpoints import copy_checkpoint, find_checkpoint, read_checkpoint
from webcrawl.cluster.moving.holding import Holding
from webcrawl.cluster.moving.mover import order

WAITS_S: Final = 50.0  # for the end of a move, before the answer
_ANSWER_S: Final = 5.0
CHECKPOINTS: Final = "checkpoints"  # in JOBDIR: where a command makes them without --to


class Status(Struct, frozen=True):
    """Of one shard, from its node.

    why -- it is not used, "" if it is
    """

    queued: int = 0
    pages: int = 0
    size_bytes: int = 0
    why: str = ""


class Desk:
    """Answers the commands that reach this node. MoveError, CopyError, BusError, StoreError."""

    def __init__(self, bus: Bus, holding: Holding, jobdir: Path) -> None:
        self._bus = bus
        self._holding = holding
        self._jobdir = jobdir

    async def do(self, arguments: list[str]) -> str:
        """A command of a user of this machine. Returns lines for the user."""
        match arguments:
            case ["list"]:
                return "\n".join(await listing(self._bus, self._holding.node.members.node))
            case ["move", shard, to]:
                return await move(self._bus, shard, to)
            case ["checkpoint", *folder]:
                return await self._checkpoint(Path(folder[0]) if folder else None)
            case ["restore", shard, folder]:
                return await self._restore(shard, Path(folder))
            case ["leave"]:
                self._holding.leave_crawl()
                return "leaving: the shards go to other nodes, one after the other; then it ends"
        raise MoveError(f"there is no command {' '.join(arguments)[:50]!r}")

    async def from_bus(self, arguments: list[str]) -> str:
        match arguments:
            case ["status"]:
                return msgspec.json.encode(await asyncio.to_thread(self._status)).decode()
            case ["give", shard, to]:
                return await self._give(shard, to)
        raise MoveError("this is no command for a node")

    def _status(self) -> dict[int, Status]:
        node = self._holding
        mine, me = node.node.shards.map.items(), node.node.members.node
        frontiers = node.shards
        found = {}
        for shard in [shard for shard, record in mine if record.node == me]:
            size = node.folders.size_bytes(shard)
            why = node.mover.moving.get(shard) or node.node.shards.waits.get(shard, "")
            frontier = frontiers.get(shard)
            if frontier is not None:
                counts = frontier.counters
                found[shard] = Status(counts.pending, counts.crawled, size, why)
            else:
                found[shard] = Status(0, 0, size, why or "is being opened")
        return found

    async def _give(self, text: str, to: str) -> str:
        shard = self._number(text)
        if shard not in self._holding.node.shards.held:
            raise MoveError(f"shard {shard} is not in use on this node: try again")
        task = self._holding.begin_move(shard, to)
        done, _ = await asyncio.wait({task}, timeout=WAITS_S)
        if not done:
            shows = "`scrapy shard JOBDIR list` shows it there"
            return f"shard {shard} is on its way to node {to}: {shows}"
        if task.cancelled():
            raise MoveError("the node ends")
        if problem := task.result():
            raise MoveError(f"shard {shard} is not moved: {problem}")
        return f"shard {shard} is on node {to} now"

    async def _checkpoint(self, root: Path | None) -> str:
        root = root or self._holding.plan.checkpoints or self._jobdir / CHECKPOINTS
        held = sorted(self._holding.node.shards.held)
        made = [await self._holding.checkpoint(shard, root) for shard in held]
        numbers = ", ".join(str(each.shard) for each in made)
        lines = [f"checkpoints of the shards {numbers or '(none)'} are in {root}"]
        if root.is_relative_to(self._jobdir):
            lines.append("They are on the disk of JOBDIR, and lost with it: copy them elsewhere")
        return "\n".join(lines)

    async def _restore(self, text: str, given: Path) -> str:
        shard, node = self._number(text), self._holding.node
        crawl = node.registry.crawl
        if crawl is None or node.state != "running":
            raise MoveError("this node has not joined the crawl yet")
        folder = await asyncio.to_thread(find_checkpoint, given, shard)
        found = await asyncio.to_thread(read_checkpoint, folder)
        if found is None or (found.crawl, found.shard, found.shards) != (
            *(crawl.id, shard, crawl.shards),
        ):
            raise CopyError(f"{folder} is no checkpoint of shard {shard} of the crawl {crawl.id}")
        copy = uuid4().hex[:12]
        await node.shards.refuse_restore(shard, crawl)
        await asyncio.to_thread(copy_checkpoint, folder, self._holding.folders, shard, copy)
        record = await node.shards.restore(shard, crawl, copy)
        wait_s = (SILENT_S + self._holding.plan.longest_fetch_s) * DRIFT
        return (
            f"shard {shard} is restored on this node, as of {found.time} (epoch {found.epoch})\n"
            "Pages that were fetched since are fetched again, and their records are in the archives"
            " twice\n"
            "Links that other shards have sent since are lost, unless CLUSTER_CHECKPOINTS was set"
            " on its node and this checkpoint is from there\n"
            f"It is used once node {record.before} was silent for {wait_s:.0f} s"
        )

    def _number(self, text: str) -> int:
        crawl = self._holding.node.registry.crawl
        return number_of(text, crawl.shards if crawl is not None else 0)


def number_of(text: str, shards: int) -> int:
    """MoveError if it is no shard."""
    if len(text) > 5 or not text.isascii() or not text.isdecimal() or int(text) >= shards:
        raise MoveError(f"{text[:20]!r} is no shard: 0 to {shards - 1}")
    return int(text)


async def move(bus: Bus, text: str, to: str) -> str:
    """Move a shard to the node whose ID begins with `to`. MoveError, BusError."""
    crawl, nodes = await _crawl(bus), await _nodes(bus)
    shard = number_of(text, crawl.shards)
    found = [node for node in nodes if node.startswith(to)]
    if len(found) != 1:
        count = f"the IDs of {len(found)} nodes begin" if found else "the ID of no node begins"
        raise MoveError(f"{count} with {to!r}: `scrapy shard JOBDIR list` shows them")
    record = await read(bus, f"{SHARDS}{shard}", ShardRecord)
    if record is None:
        raise MoveError(f"shard {shard} was never begun")
    holder = record.record.node
    if holder == found[0]:
        return f"shard {shard} is on node {holder} already"
    try:
        return await order(bus, holder, ["give", str(shard), found[0]], WAITS_S + _ANSWER_S)
    except BusError as error:
        raise MoveError(
            f"node {holder}, which has shard {shard}, does not answer: {error}"
        ) from None


async def listing(bus: Bus, here: str = "") -> list[str]:
    """All nodes and shards, as lines. MoveError, BusError."""
    crawl, nodes = await _crawl(bus), await _nodes(bus)
    entries = await bus.keys(SHARDS)
    found = shards_of(entries, crawl.shards)
    records = {shard: each.record for shard, each in found.items()}
    running = [node for node, record in nodes.items() if record.state != "left"]
    answers = dict(
        zip(running, await asyncio.gather(*(_ask(bus, n) for n in running)), strict=True)
    )
    lines = [f"crawl {crawl.id}: {crawl.shards} shards"]
    for node, heartbeat in sorted(nodes.items()):
        state = heartbeat.state
        if state != "left" and answers.get(node) is None:
            state = "no answer"  # type: ignore[assignment]
        has = sorted(shard for shard, record in records.items() if record.node == node)
        name = f" ({heartbeat.view.name})" if heartbeat.view.name else ""
        this = ", this node" if node == here else ""
        numbers = ", ".join(map(str, has)) or "none"
        lines.append(f"node {node}{name}: {state}{this}, shard{'s' * (len(has) != 1)} {numbers}")
    lines.append("shard epoch node         state          queued     pages      MB  why")
    shards = range(crawl.shards)
    return lines + [_line(shard, records.get(shard), nodes, answers) for shard in shards]


def _line(
    shard: int,
    record: ShardRecord | None,
    nodes: dict[str, NodeRecord],
    answers: dict[str, dict[int, Status] | None],
) -> str:
    if record is None:
        return f"{shard:5d}     - -            not begun"
    status, state, why = None, "in use", ""
    answer = answers.get(record.node)
    if answer is not None:
        status = answer.get(shard, Status(why="its node has not seen this epoch yet"))
        state, why = ("in use", "") if not status.why else ("waits", status.why)
    elif record.node in nodes and nodes[record.node].state == "left":
        state, why = "parked", "its node has ended: start it again, or restore the shard"
    else:
        state, why = "paused", "its node does not answer: start it again, or restore the shard"
    if status is None:  # only its node knows
        numbers = f"{'-':>10}{'-':>10}{'-':>8}"
    else:
        numbers = f"{status.queued:10,d}{status.pages:10,d}{status.size_bytes / 1e6:8,.1f}"
    return f"{shard:5d} {record.epoch:5d} {record.node:12} {state:10}{numbers}  {why}".rstrip()


async def _ask(bus: Bus, node: str) -> dict[int, Status] | None:
    """None without an answer."""
    try:
        text = await order(bus, node, ["status"], _ANSWER_S)
        return msgspec.json.decode(text, type=dict[int, Status])
    except (BusError, MoveError, *UNREADABLE):
        return None


async def _crawl(bus: Bus) -> Crawl:
    found = await read(bus, CRAWL, Crawl)
    if found is None:
        raise MoveError("no crawl is on this bus under this CLUSTER_NAME")
    return found.record


async def _nodes(bus: Bus) -> dict[str, NodeRecord]:
    entries = await bus.keys(NODES)
    return {key[len(NODES) :]: decode(key, e.value, NodeRecord) for key, e in entries.items()}
