"""The node of a crawl on several machines, built from settings."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from scrapy.settings import BaseSettings

from webcrawl.cluster.addresses import NodeAddresses
from webcrawl.cluster.agreement.ending import Ending
from webcrawl.cluster.agreement.node import Node
from webcrawl.cluster.agreement.nodefile import SHARD_LOG, NodeStore
from webcrawl.cluster.agreement.registry import settings_to_agree
from webcrawl.cluster.agreement.tenancy import Tenancies
from webcrawl.cluster.buckets import SUFFIX_LIST, Buckets
from webcrawl.cluster.bus import Bus, Refused, bus_from
from webcrawl.cluster.frontier import ClusterFrontier
from webcrawl.cluster.moving.folders import read_mark
from webcrawl.cluster.moving.holding import Plan
from webcrawl.cluster.running import RunningNode
from webcrawl.cluster.steering import NodeSteering
from webcrawl.config import build
from webcrawl.config.fetch import has_proxy
from webcrawl.config.table import read, typed_settings
from webcrawl.fetch.gate import Gate
from webcrawl.frontier.disk.frontier import JobFolder, LocalFrontier
from webcrawl.frontier.orderings import ORDERINGS
from webcrawl.scope import Scope
from webcrawl.scope.hostrules import HostRules

_WAIT_S = 10.0  # a lease may wait so long for its request


class Cluster(NamedTuple):
    frontier: ClusterFrontier
    node: RunningNode


def cluster_from(
    settings: BaseSettings, scope: Scope, rules: HostRules | None, gate: Gate
) -> Cluster:
    """The node of this process, not started.

    StoreError: JOBDIR cannot be used. NodeFileError, Refused: for one line.
    """
    url = str(settings["CLUSTER"])
    jobdir = build.job_folder(settings)
    assert jobdir is not None, "checked before the crawl"
    folder = JobFolder(jobdir)  # two processes of one node would have the same shards
    try:
        return _node_in(settings, url, scope, rules, gate, folder)
    except BaseException:
        folder.close()
        raise


def _node_in(
    settings: BaseSettings,
    url: str,
    scope: Scope,
    rules: HostRules | None,
    gate: Gate,
    folder: JobFolder,
) -> Cluster:
    shards = read(settings, "CLUSTER_SHARDS", int)
    longest_fetch_s = 2 * read(settings, "DOWNLOAD_TIMEOUT", float) + _WAIT_S
    checkpoints = settings.get("CLUSTER_CHECKPOINTS")
    name = read(settings, "CLUSTER_NAME", str)
    try:
        bus = bus_from(url, name)
    except ValueError as error:
        raise Refused(str(error)) from None
    store = NodeStore(folder.path)
    before = store.content
    if before.crawl and before.name not in ("", name):
        raise Refused(
            f"CLUSTER_NAME = {name!r}, and JOBDIR belongs to the crawl named {before.name!r}: use"
            " that name, or another JOBDIR"
        )
    store.note_name(name)
    buckets = Buckets(shards)
    addresses = _addresses_from(settings, longest_fetch_s)
    active_max = read(settings, "FRONTIER_ACTIVE_HOSTS", int)
    frontier = ClusterFrontier(buckets, addresses, active_max=active_max)
    agreed = settings_to_agree(typed_settings(settings)) | {
        "SUFFIX_LIST": SUFFIX_LIST,
        "PROXY": "set" if has_proxy(settings) else "unset",
    }
    if scope.domains:
        agreed["allowed_domains"] = ",".join(scope.domains)
    node = Node(bus, store, agreed, shards, longest_fetch_s=longest_fetch_s, clock=time.monotonic)
    tenancies = None
    if addresses is not None:
        tenancies = _tenancies_from(settings, bus, node, addresses, longest_fetch_s)
    ending = Ending(bus, node.members.node, shards)
    goal = read(settings, "CLOSESPIDER_PAGECOUNT", int)
    running = RunningNode(
        bus,
        node,
        frontier,
        tenancies,
        ending,
        NodeSteering(bus, store, node, ending, frontier, goal),
        shards=shards,
        folder=folder,
        open_shard=_opener(settings, scope, rules, buckets, addresses),
        gate=gate,
        plan=Plan(
            longest_fetch_s,
            rebalances=read(settings, "CLUSTER_REBALANCE", bool),
            checkpoints=Path(checkpoints).absolute() if checkpoints else None,
            checkpoint_s=read(settings, "CLUSTER_CHECKPOINT_INTERVAL", float),
        ),
    )
    frontier.rules = rules
    return Cluster(frontier, running)


def _addresses_from(settings: BaseSettings, longest_fetch_s: float) -> NodeAddresses | None:
    """None: no setting limits addresses."""
    ip_delay_s = read(settings, "IP_DELAY", float)
    pages_max = read(settings, "MAX_PAGES_PER_IP", int)
    if ip_delay_s <= 0 and not pages_max:
        return None
    return NodeAddresses(
        ip_delay_s=ip_delay_s,
        longest_fetch_s=longest_fetch_s,
        pages_max=pages_max,
        shared=read(settings, "CLUSTER_SHARED_ADDRESSES", list),
    )


def _tenancies_from(
    settings: BaseSettings, bus: Bus, node: Node, addresses: NodeAddresses, longest_fetch_s: float
) -> Tenancies:
    return Tenancies(
        *(bus, node.registry, node.members, addresses),
        shards=read(settings, "CLUSTER_SHARDS", int),
        epochs=node.shards.held,
        restored=node.shards.restored,
        ip_delay_s=read(settings, "IP_DELAY", float),
        longest_fetch_s=longest_fetch_s,
        pages_max=read(settings, "MAX_PAGES_PER_IP", int),
        clock=time.monotonic,
    )


def _opener(
    settings: BaseSettings,
    scope: Scope,
    rules: HostRules | None,
    buckets: Buckets,
    addresses: NodeAddresses | None,
) -> Callable[[int, Path, str], LocalFrontier]:
    def open_shard(number: int, folder: Path, crawl: str) -> LocalFrontier:
        # Each shard has rules of its own, since a change of the rules is one of their host.
        own = HostRules(rules.rules) if rules is not None else None
        policy = replace(build.policy_from(settings, own), denied=scope.denied, stale_s=0.0)
        now = time.monotonic()
        log = build.report_folder(settings) / f"{SHARD_LOG}{number:04d}"
        return LocalFrontier(
            folder,
            policy,
            ordering=ORDERINGS[read(settings, "FRONTIER_ORDER", str)](),
            caps=build.caps_from(settings, own),
            # Until the node has all its shards (`ClusterFrontier.share_active_hosts`).
            active_max=max(1, read(settings, "FRONTIER_ACTIVE_HOSTS", int) // len(buckets.ranges)),
            identity=build.identity_from(settings, scope),
            log_folder=log if read(settings, "CRAWL_LOG", bool) else None,
            now=now,
            utc_s=time.time() - now + read_mark(folder).skew_s,
            abroad=buckets.abroad(number),
            crawl=crawl,
            addresses=addresses.of(number) if addresses is not None else None,
        )

    return open_shard
