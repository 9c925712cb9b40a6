"""The checks of CLUSTER before a crawl, without the bus: its URL, and what is in JOBDIR.

A line has no text of CLUSTER, which may have a password.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from scrapy.settings import BaseSettings

from webcrawl.cluster.agreement.nodefile import NAME, SHARDS, NodeFileError, read_node
from webcrawl.cluster.buckets import BUCKETS
from webcrawl.cluster.bus import Address
from webcrawl.config.build import has_hub, job_folder
from webcrawl.config.kinds import SettingError
from webcrawl.config.table import read
from webcrawl.frontier.disk.frontier import FOLDER


def cluster_problems(settings: BaseSettings) -> list[str]:
    """One line for each reason why this node, or this crawl without CLUSTER, must not begin."""
    jobdir = job_folder(settings)
    if not settings.get("CLUSTER") or has_hub(settings):
        return list(_of_a_node(jobdir)) if jobdir is not None else []
    return list(_as_a_node(settings, jobdir))


def address_problem(value: object) -> str:
    """Why `value` is no CLUSTER, in a line without a secret; "" if it is one."""
    try:
        if value:
            Address.parse(str(value))
    except ValueError as error:
        return str(error)
    return ""


def _of_a_node(jobdir: Path) -> Iterator[str]:
    if (jobdir / NAME).exists():
        yield (
            f"JOBDIR = {str(jobdir)!r} belongs to a node of a crawl on several machines: start it"
            " with its CLUSTER, or use another JOBDIR"
        )
    elif jobdir.absolute().parent.name == SHARDS and (jobdir.absolute().parents[1] / NAME).exists():
        yield _of_a_shard(jobdir)


def _as_a_node(settings: BaseSettings, jobdir: Path | None) -> Iterator[str]:
    if jobdir is None:
        yield "JOBDIR is needed with CLUSTER: this node keeps its shards there"
        return
    if read(settings, "FRONTIER_STORE", str) != "disk":
        store = settings.get("FRONTIER_STORE")
        yield str(SettingError("FRONTIER_STORE", store, "'disk' with CLUSTER"))
    shards = read(settings, "CLUSTER_SHARDS", int)
    if shards > BUCKETS:
        yield str(SettingError("CLUSTER_SHARDS", shards, f"at most {BUCKETS}"))
    try:
        node = read_node(jobdir)
    except NodeFileError as error:
        yield f"JOBDIR: {error}"
        return
    if node is not None and node.shards not in (0, shards):
        allowed = f"the crawl in JOBDIR was begun with {node.shards}, which cannot change"
        yield str(SettingError("CLUSTER_SHARDS", shards, allowed))
    if node is None and (jobdir / FOLDER).exists():
        yield (
            f"JOBDIR = {str(jobdir)!r} has a crawl of one machine, which cannot be spread over"
            " several: start it without CLUSTER, or use another JOBDIR"
        )
    elif node is None and (jobdir / SHARDS).exists() and any((jobdir / SHARDS).iterdir()):
        yield (
            f"JOBDIR = {str(jobdir)!r} has shards, but {NAME} is missing, which says whose they"
            " are: put it back"
        )
    elif jobdir.absolute().parent.name == SHARDS and (jobdir.absolute().parents[1] / NAME).exists():
        yield _of_a_shard(jobdir)


def _of_a_shard(jobdir: Path) -> str:
    return (
        f"JOBDIR = {str(jobdir)!r} is one shard of a crawl on several machines: start its node,"
        f" with CLUSTER and JOBDIR = {str(jobdir.absolute().parents[1])!r}"
    )
