"""The crawl log: one line for each URL that had its turn, whether it was kept or not.

- `line`: the fields of a line, and its bytes. docs/crawl-log.md is the page for readers.
- `files`: the files of the lines, bound to the commits of the frontier.
"""

from webcrawl.crawllog.files import CrawlLog, LogError
from webcrawl.crawllog.line import Line

__all__ = ["CrawlLog", "Line", "LogError"]
