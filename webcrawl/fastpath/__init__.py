"""The fast path: Scrapy's engine with less overhead per request. Read in this order:

- `extension`: `FastPath` installs it when the spider opens, if it fits this version of Scrapy;
  `StatsCollector` is Scrapy's without its deprecation shim
- `engine`: engine and scraper with one task per request, middlewares without wrappers
- `receivers`: a signal manager without tasks

`None` for `FastPath` in `EXTENSIONS` switches it off; the crawl does the same, more slowly.
"""

from webcrawl.fastpath.extension import FastPath, StatsCollector

__all__ = ["FastPath", "StatsCollector"]
