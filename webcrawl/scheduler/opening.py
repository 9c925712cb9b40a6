"""Opens the frontier of a crawl, with the commands that steered its earlier runs."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterable
from typing import NamedTuple

from scrapy.crawler import Crawler

from webcrawl.base.wording import SettingError
from webcrawl.config import build
from webcrawl.config.table import read
from webcrawl.crawl.crawl import crawl_of
from webcrawl.crawl.keptcommands import steered_by
from webcrawl.crawllog.files import LogError
from webcrawl.frontier.base import Frontier
from webcrawl.frontier.disk.frontier import LocalFrontier
from webcrawl.frontier.store import StoreError
from webcrawl.hub.client import RemoteFrontier
from webcrawl.hub.server import FrontierServer
from webcrawl.hub.wire import Orders
from webcrawl.scope import Scope
from webcrawl.scope.hostrules import HostRules

logger = logging.getLogger(__name__)

_END_S = 10.0  # beyond CLOSE_GRACE_S, for a worker to hand its leases back


class Opened(NamedTuple):
    """A frontier, and the orders of earlier runs, which the scope has already.

    `problem` is why the crawl's own could not be opened; then `frontier` is an empty one.
    """

    frontier: Frontier
    orders: Orders
    problem: str = ""


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
        from webcrawl.config.cluster import hub_frontier  # noqa: PLC0415  (only a fetcher loads nats-py)

        return Opened(hub_frontier(settings, assignment.brief, rules), Orders())
    if assignment is not None:
        sock = socket.socket(fileno=assignment.descriptor)
        remote = RemoteFrontier(sock, rules)
        remote.crawl_id = assignment.crawl
        return Opened(remote, Orders())
    try:
        if (claim := crawl_of(crawler).claim) is not None:
            from webcrawl.config.cluster import several_from  # noqa: PLC0415  (as above)

            crawl_of(crawler).several = several_from(settings, claim)
        elif build.hubs_from(settings) > 1 and build.leads_crawl(crawler):
            raise StoreError("several hubs (CLUSTER_HUBS) are started with scrapy crawl")
        log_folder = None if build.is_debugging(crawler) else build.report_folder(settings)
        several = crawl_of(crawler).several
        frontier = FrontierServer(
            build.frontier_from(settings, scope, rules, several, log_folder),
            target=read(settings, "CLOSESPIDER_PAGECOUNT", int),
            grace_s=build.CLOSE_GRACE_S + _END_S,
        )
        frontier.orders = orders = _obey(frontier.local.commands, frontier, scope)
    except (StoreError, SettingError) as error:
        return Opened(LocalFrontier(None, in_memory=True), Orders(), f"JOBDIR: {error}")
    except LogError as error:
        return Opened(LocalFrontier(None, in_memory=True), Orders(), str(error))
    return Opened(frontier, orders)


def _obey(commands: Iterable[bytes], frontier: FrontierServer, scope: Scope) -> Orders:
    """Obey the commands of earlier runs, logged: target, and entries of `scope`. The orders."""
    before, setting = steered_by(commands), frontier.target
    for line in before.lines(setting):
        logger.info("%s", line)
    scope.extend(before.allow, before.deny)
    frontier.target = before.target(setting)
    return Orders(allow=before.allow, deny=before.deny)
