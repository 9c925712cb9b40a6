"""Opens the frontier of a crawl, with the commands that steered its earlier runs."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterable
from typing import NamedTuple

from scrapy.crawler import Crawler

from webcrawl.cluster.agreement.nodefile import NodeFileError
from webcrawl.cluster.bus import BusError, Refused
from webcrawl.cluster.errors import NodeError, OffsetsError, one_line
from webcrawl.config import build
from webcrawl.crawl.crawl import crawl_of
from webcrawl.crawl.keptcommands import steered_by
from webcrawl.crawllog.files import LogError
from webcrawl.frontier.base import Frontier
from webcrawl.frontier.disk.frontier import LocalFrontier
from webcrawl.frontier.shared.client import RemoteFrontier
from webcrawl.frontier.shared.server import FrontierServer
from webcrawl.frontier.shared.wire import Orders
from webcrawl.frontier.store import StoreError
from webcrawl.scope import Scope
from webcrawl.scope.hostrules import HostRules

logger = logging.getLogger(__name__)

# Of the frontier, and of joining other machines.
CLUSTER_ERRORS = (StoreError, LogError, BusError, NodeError, NodeFileError, OffsetsError)


class Opened(NamedTuple):
    """A frontier, and the orders of earlier runs, which the scope has already.

    `problem` is why the crawl's own could not be opened; then `frontier` is an empty one.
    """

    frontier: Frontier
    orders: Orders
    problem: str = ""


def problem_of(error: Exception) -> str:
    """One line for the user about one of CLUSTER_ERRORS."""
    if isinstance(error, StoreError):
        return f"JOBDIR: {error}"
    if isinstance(error, LogError):
        return str(error)
    return one_line(error)


def rules_of(crawler: Crawler) -> HostRules | None:
    """The rules of the file of RULES; in a worker, those in force in the first process."""
    assignment = crawl_of(crawler).assignment
    if assignment is None:
        return build.rules_from(crawler.settings)
    return HostRules(assignment.rules) if assignment.rules is not None else None


def open_frontier(crawler: Crawler, scope: Scope, rules: HostRules | None) -> Opened:
    """Open the frontier of this process; in the first one, extend `scope` by earlier commands.

    A worker gets the client of the first process's frontier.
    """
    settings, assignment = crawler.settings, crawl_of(crawler).assignment
    if assignment is not None and assignment.brief is not None:
        from webcrawl.config.hub import hub_frontier  # noqa: PLC0415  (only a fetcher loads nats-py)

        return Opened(hub_frontier(settings, assignment.brief, rules), Orders())
    if assignment is not None:
        sock = socket.socket(fileno=assignment.descriptor)
        return Opened(RemoteFrontier(sock, rules), Orders())
    try:
        cluster = None
        has_shards = settings.get("CLUSTER") and not build.has_hub(settings)
        if has_shards and build.leads_crawl(crawler):
            from webcrawl.config.cluster import cluster_from  # noqa: PLC0415  (it takes 0.1 s)

            cluster = cluster_from(settings, scope, rules, crawl_of(crawler).gate)
        own = cluster.frontier if cluster is not None else None
        frontier = build.frontier_from(settings, scope, rules, own)
        crawl_of(crawler).node = cluster.node if cluster is not None else None
    except CLUSTER_ERRORS as error:
        crawl_of(crawler).is_refused = isinstance(error, Refused)
        return Opened(LocalFrontier(None, in_memory=True), Orders(), problem_of(error))
    assert isinstance(frontier, FrontierServer)
    steering = cluster.node.steering if cluster is not None else None
    commands = frontier.commands if steering is None else steering.commands
    frontier.orders = orders = _obey(commands, frontier, scope)
    if steering is not None:
        steering.kept, steering.server, frontier.whole = orders, frontier, steering.whole
    return Opened(frontier, orders)


def _obey(commands: Iterable[bytes], frontier: FrontierServer, scope: Scope) -> Orders:
    """Obey the commands of earlier runs, logged: target, and entries of `scope`. The orders."""
    before, setting = steered_by(commands), frontier.target
    for problem in before.problems:
        logger.warning("steering: %s", problem)
    for line in before.lines(setting):
        logger.info("%s", line)
    scope.extend(before.allow, before.deny)
    frontier.target = before.target(setting)
    return Orders(allow=before.allow, deny=before.deny)
