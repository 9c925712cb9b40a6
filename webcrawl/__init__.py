"""webcrawl: a broad web crawler as a Scrapy project."""

__version__ = "0.1.0"
