"""webcrawl: a broad web crawler as a Scrapy project."""

from webcrawl.config.addon import Addon

__all__ = ["Addon", "__version__"]
__version__ = "0.1.0"
