"""Decides which URLs belong to the crawl. Core and pure, but `rules` reads `@file` lists once.

Read in this order: `rules` (suffixes, deny and allow lists, ports of other protocols), `traps`
(endless paths), `hostrules` (other values for some hosts).
"""

from webcrawl.scope.rules import HostsAndPatterns, Rule, Scope, refused_ports
from webcrawl.scope.traps import SEQUENCE_MAX, PathLimits, is_numbered

__all__ = [
    "SEQUENCE_MAX",
    "HostsAndPatterns",
    "PathLimits",
    "Rule",
    "Scope",
    "is_numbered",
    "refused_ports",
]
