"""Which URLs belong to the crawl. Core and pure, except that `rules` reads `@file` lists once.

In the order to read it: `rules` (suffixes, deny and allow lists), `traps` (endless paths).
"""

from webcrawl.scope.rules import Rule, Scope, ScopeError
from webcrawl.scope.traps import PathLimits, is_numbered

__all__ = ["PathLimits", "Rule", "Scope", "ScopeError", "is_numbered"]
