"""What belongs to the crawl."""

from webcrawl.scope.rules import Rule, Scope, ScopeError

__all__ = ["Rule", "Scope", "ScopeError"]
