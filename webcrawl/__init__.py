"""webcrawl: a broad web crawler as a Scrapy project."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from webcrawl.config.addon import Addon

__all__ = ["Addon", "__version__"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """`Addon`, which imports Scrapy: the command line catches Ctrl-C before that."""
    if name == "Addon":
        return import_module("webcrawl.config.addon").Addon
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
