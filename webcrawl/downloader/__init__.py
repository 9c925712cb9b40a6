"""Scrapy's downloader and its download handler, for HTTP and HTTPS."""

from webcrawl.downloader.downloader import Downloader
from webcrawl.downloader.handler import DownloadHandler

__all__ = ["DownloadHandler", "Downloader"]
