"""The fast path: a request's way through Scrapy's engine with less overhead. Read in this order:

- `extension`: `FastPath` installs it when the spider opens, if this Scrapy is known
- `engine`: engine and scraper with one task per request, middlewares without wrappers
- `receivers`: a signal manager without tasks
- `statscollector`: Scrapy's stats without its deprecation shim

`None` for `FastPath` in `EXTENSIONS` switches it off; the crawl is the same, and slower.
"""

from webcrawl.fastpath.extension import FastPath
from webcrawl.fastpath.statscollector import StatsCollector

__all__ = ["FastPath", "StatsCollector"]
