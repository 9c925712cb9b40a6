"""Scrapy's downloader and its download handler for HTTP and HTTPS. Read in this order:

- `downloader`: leased Requests bypass Scrapy's slots
- `handler`: a Request goes to `fetch.client`, and a Response and its Exchange come back
"""

from webcrawl.downloader.downloader import Downloader
from webcrawl.downloader.handler import DownloadHandler

__all__ = ["DownloadHandler", "Downloader"]
