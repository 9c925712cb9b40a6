"""Reads the bodies of pages and sitemaps: small ones in place, large ones in another process.

`page` and `sitemap` are the reading itself, `process` runs in the other process, `reader` starts it
and keeps the order of the bodies. Knows nothing of Scrapy and of the frontier.
"""
