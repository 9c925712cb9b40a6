"""What belongs to the crawl."""

from webcrawl.scope.rules import Rule, Scope, ScopeError
from webcrawl.scope.traps import PathLimits, is_numbered

__all__ = ["PathLimits", "Rule", "Scope", "ScopeError", "is_numbered"]
