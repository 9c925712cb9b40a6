"""Scrapy's tests of an HTTP download handler, on ours; all other parts are Scrapy's."""

from __future__ import annotations

from typing import ClassVar

import pytest
from tests.utils.bases import download_handlers_http as bases

from webcrawl.downloader.handler import DownloadHandler


class Ours:
    download_handler_cls = DownloadHandler
    default_handler_settings: ClassVar = {}
    settings_dict = {
        "DOWNLOAD_HANDLERS": {
            "http": "webcrawl.downloader.DownloadHandler",
            "https": "webcrawl.downloader.DownloadHandler",
        }
    }


class TestHttp(Ours, bases.TestHttpBase):
    pass


class TestHttps(Ours, bases.TestHttpsBase):
    tls_log_message = "SSL connection to 127.0.0.1 using protocol TLSv1.3, cipher"


class TestSimpleHttps(Ours, bases.TestSimpleHttpsBase):
    pass


class TestHttpsWrongHostname(Ours, bases.TestHttpsWrongHostnameBase):
    pass


class TestHttpsInvalidDNSId(Ours, bases.TestHttpsInvalidDNSIdBase):
    pass


class TestHttpsInvalidDNSPattern(Ours, bases.TestHttpsInvalidDNSPatternBase):
    pass


class TestHttpsCustomCiphers(Ours, bases.TestHttpsCustomCiphersBase):
    pass


class TestHttpsDefaultCiphers(Ours, bases.TestHttpsDefaultCiphersBase):
    pass


class TestHttpsTLSVersion(Ours, bases.TestHttpsTLSVersionBase):
    pass


class TestHttpWithCrawler(Ours, bases.TestHttpWithCrawlerBase):
    pass


class TestHttpsWithCrawler(TestHttpWithCrawler):
    is_secure = True


class TestHttpProxy(Ours, bases.TestHttpProxyBase):
    pass


class TestHttpsProxy(TestHttpProxy):
    is_secure = True
    handler_supports_tls_in_tls = (
        False  # as in Scrapy's default handler, which proxied requests use
    )


@pytest.mark.requires_mitmproxy
class TestMitmProxy(Ours, bases.TestMitmProxyBase):
    pass
