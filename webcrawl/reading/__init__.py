"""Reads the bodies of pages: small ones in place, large ones in a process of their own.

`page` is the reading itself, `process` runs in the other process, `reader` starts it and keeps the
order of the pages. Knows nothing of Scrapy and of the frontier.
"""
