"""`JOBDIR/node.json`: what a node knows of its crawl when the bus knows nothing any more.

It is on the disk before the node begins to use a shard, so that no shard is begun a second time.
Replaced as a whole and synced. It is small and written only when shards change their nodes.
"""

from __future__ import annotations

import json
from pathlib import Path
from uuid import uuid4

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from webcrawl.cluster.agreement.records import ShardRecord
from webcrawl.cluster.synced import replace_file

NAME = "node.json"
SHARDS = "shards"  # in JOBDIR
SHARD_LOG = "shard-"  # in REPORT_DIR: a folder with the crawl log of each shard


class NodeFileError(Exception):
    """The file cannot be read or written: one line for the user."""


class NodeFile(Struct, frozen=True):
    """The content.

    node -- ID of the node, the same in all runs of its JOBDIR
    run -- of the last process that used the file; "" in a copy of the folder
    folder -- inode of the folder: a copy has another, and the node of the original may run
    name -- of the crawl on the bus (CLUSTER_NAME); "" before the node has joined one
    crawl -- ID of the crawl; "" before the node has joined one
    shards -- of the whole crawl; 0 before
    era -- of the KV whose records of shards are whole, as far as the node knows
    goal, goal_version -- of the target, as last seen
    goal_setting -- CLOSESPIDER_PAGECOUNT of the last run; -1: there was none
    orders -- the last orders (`steering`) whose entries are all in `commands`
    commands -- `allow` and `deny` of the user, each as JSON (`crawl.keptcommands`)
    map -- by shard, also those of other nodes: as last seen
    ended -- number of the last end of the crawl that this node has carried out
    begun -- by shard: the epoch in which this node began to use its folder; it has these shards
    empty -- of these, shards that no node had before, and whose folder may not be on the disk yet:
        nothing was ever put into them
    """

    node: str
    run: str = ""
    folder: int = 0
    name: str = ""
    crawl: str = ""
    shards: int = 0
    era: str = ""
    goal: int = 0
    goal_version: int = 0
    goal_setting: int = -1
    orders: str = ""
    commands: list[str] = []
    ended: int = 0
    map: dict[int, ShardRecord] = {}
    begun: dict[int, int] = {}
    empty: list[int] = []

    @property
    def command_rows(self) -> list[bytes]:
        return [command.encode() for command in self.commands]


class NodeStore:
    """The file in `jobdir`, made if there is none; None keeps it in memory. NodeFileError."""

    def __init__(self, jobdir: Path | None) -> None:
        self._jobdir = jobdir
        before = read_node(jobdir) if jobdir is not None else None
        folder = jobdir.stat().st_ino if jobdir is not None else 0
        content = before or NodeFile(uuid4().hex[:12])
        is_copy = content.folder not in (0, folder)
        self.content = replace(content, folder=folder, run="" if is_copy else content.run)

    def __repr__(self) -> str:
        return f"<NodeStore of {self.content.node}: {sorted(self.content.begun)}>"

    def note_name(self, name: str) -> None:
        """Set the name of the crawl; it is on the disk with the next change."""
        self.content = replace(self.content, name=name)

    def keep(self, **changes: object) -> None:
        """Change fields. They are on the disk when this returns. NodeFileError."""
        content = replace(self.content, **changes)
        if content != self.content:
            if self._jobdir is not None:
                write_node(self._jobdir, content)
            self.content = content


def shard_folder(jobdir: Path, shard: int) -> Path:
    """The folder of a shard that a node has begun (`NodeFile.begun`)."""
    return jobdir / SHARDS / f"{shard:04d}"


def read_node(jobdir: Path) -> NodeFile | None:
    """The file in `jobdir`, None if there is none. NodeFileError."""
    path = jobdir / NAME
    try:
        return msgspec.json.decode(path.read_bytes(), type=NodeFile)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise NodeFileError(f"{path} cannot be read: {error}") from None


def write_node(jobdir: Path, content: NodeFile) -> None:
    """Replace the file: after a crash there is the old one or the new one. NodeFileError."""
    path = jobdir / NAME
    text = json.dumps(msgspec.to_builtins(content, str_keys=True), indent=1) + "\n"
    try:
        replace_file(path, text.encode())
    except OSError as error:
        raise NodeFileError(f"{path} cannot be written: {error}") from None
