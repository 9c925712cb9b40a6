"""Which handler the downloader finds for a scheme, and what it refuses with a PROXY."""

from __future__ import annotations

import pytest
from scrapy import Request
from scrapy.exceptions import NotSupported
from scrapy.settings import Settings

from tests.cases import each_of
from webcrawl.downloader.downloader import Downloader, _our_handlers
from webcrawl.downloader.handler import DownloadHandler

OURS = "webcrawl.downloader.DownloadHandler"
SCRAPYS = "scrapy.core.downloader.handlers.http11.HTTP11DownloadHandler"


class Users(DownloadHandler):
    """A subclass of a user's own."""


@each_of(
    ("handlers", "found"),
    [
        ({"http": OURS, "https": OURS}, {"http": DownloadHandler, "https": DownloadHandler}),
        ({"http": OURS, "https": Users}, {"http": DownloadHandler, "https": Users}),
        ({"http": OURS, "https": SCRAPYS}, {"http": DownloadHandler}),
        ({"http": None, "https": lambda crawler: Users}, {}),
    ],
)
def test_only_the_projects_handlers_are_called_directly(
    handlers: dict[str, object], found: dict[str, type]
) -> None:
    assert _our_handlers(Settings({"DOWNLOAD_HANDLERS": handlers})) == found


@each_of("url", ["https://a.br/", "ftp://a.br/", "s3://bucket/key"])
def test_no_request_goes_past_a_proxy(url: str) -> None:
    downloader = object.__new__(Downloader)
    downloader._has_proxy, downloader._ours = True, {"http": DownloadHandler}
    for allowed in ("http://a.br/", "data:,text"):
        downloader._refuse_bypass(Request(allowed))
    with pytest.raises(NotSupported, match="would not go through PROXY"):
        downloader._refuse_bypass(Request(url))
