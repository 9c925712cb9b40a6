"""The fast path: Scrapy's engine with less overhead per request. Read in this order:

- `extension`: `FastPath` installs it when the spider opens, if it fits this version of Scrapy
- `engine`: engine and scraper with one task per request, middlewares without wrappers
- `receivers`: a signal manager without tasks
- `statscollector`: Scrapy's stats without its deprecation shim

`None` for `FastPath` in `EXTENSIONS` switches it off; the crawl does the same, more slowly.
"""

from webcrawl.fastpath.extension import FastPath
from webcrawl.fastpath.statscollector import StatsCollector

__all__ = ["FastPath", "StatsCollector"]
