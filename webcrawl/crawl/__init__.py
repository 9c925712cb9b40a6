"""What Scrapy's parts share: an object for each page under way, and what comes of it."""

from webcrawl.crawl.page_fetch import PageFetchMiddleware

__all__ = ["PageFetchMiddleware"]
