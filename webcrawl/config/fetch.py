"""What settings say of a fetch: its limits, its headers, its TLS, and which bodies are wanted.

One place for the pages and for what runs beside them (robots.txt, HEAD).
"""

from __future__ import annotations

import logging
import os
import ssl
import sys

from scrapy.http import Headers
from scrapy.settings import BaseSettings
from scrapy.utils.python import without_none_values

from webcrawl import openfiles
from webcrawl.fetch.client import Client, Limits
from webcrawl.fetch.http1 import Headers as WireHeaders
from webcrawl.fetch.mediatypes import Wants, media_type_test
from webcrawl.fetch.requesthead import is_name, one_line
from webcrawl.fetch.tls import client_context

logger = logging.getLogger(__name__)

# Deviation: fetch.decode removes br and zstd too, but archives are read by tools that know gzip.
ACCEPT_ENCODING = b"gzip, deflate"

TLS_VERSIONS = {
    "TLSv1.0": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}


def client_from(settings: BaseSettings, limits: Limits) -> Client:
    """A client with `limits`."""
    return Client(
        limits,
        tls_context_from(settings),
        local_address=bind_address(settings.get("DOWNLOAD_BIND_ADDRESS")),
        idle_max=openfiles.plan().idle,
    )


def bind_address(value: str | tuple[str, int] | None) -> tuple[str, int] | None:
    """Where requests come from, as Scrapy's setting and meta key say it."""
    return (value, 0) if value and isinstance(value, str) else value or None


def limits_from(settings: BaseSettings) -> Limits:
    """What one fetch may cost. DOWNLOAD_MAXSIZE = 0 is no limit, as in Scrapy.

    No connection is kept that would only wait for the next request to be due.
    """
    keep_alive_s = settings.getfloat("KEEP_ALIVE")
    if keep_alive_s <= max(settings.getfloat("DOWNLOAD_DELAY"), settings.getfloat("IP_DELAY")):
        keep_alive_s = 0.0
    return Limits(
        timeout_s=settings.getfloat("DOWNLOAD_TIMEOUT"),
        max_size_bytes=settings.getint("DOWNLOAD_MAXSIZE") or sys.maxsize,
        max_header_bytes=settings.getint("DOWNLOAD_MAXHEADERSIZE", 64 << 10),
        keep_alive_s=keep_alive_s,
    )


def headers_from(settings: BaseSettings) -> WireHeaders:
    """The headers of a request that has none of its own, in the order of a browser's. ValueError
    where they are no headers.
    """
    headers = Headers({"User-Agent": settings["USER_AGENT"]} if settings["USER_AGENT"] else {})
    headers.update(without_none_values(settings.getdict("DEFAULT_REQUEST_HEADERS")))
    headers.setdefault("Accept-Encoding", ACCEPT_ENCODING)
    wire = pairs(headers)
    for name, value in wire:
        if not is_name(name) or one_line(value) != value:
            raise ValueError(f"DEFAULT_REQUEST_HEADERS: {name!r}: {value!r} is no header")
    return wire


def user_agent_of(settings: BaseSettings) -> str:
    """The User-Agent of a request that has none of its own: "" where none is sent."""
    for name, value in headers_from(settings):
        if name.lower() == b"user-agent":
            return value.decode("latin-1")
    return ""


def pairs(headers: Headers) -> WireHeaders:
    """Scrapy's headers as they go on the wire."""
    return [(name, value) for name, values in headers.items() for value in values]


def content_type_test(settings: BaseSettings) -> Wants:
    """Tests whether the body of an answer is worth reading, by CONTENT_TYPES."""
    return media_type_test(settings.getlist("CONTENT_TYPES"))


def tls_context_from(settings: BaseSettings) -> ssl.SSLContext:
    """The house's context within what Scrapy's settings ask for, with SSLKEYLOGFILE obeyed."""
    context = client_context(verify=settings.getbool("DOWNLOAD_VERIFY_CERTIFICATES"))
    for name, bound in (
        ("DOWNLOAD_TLS_MIN_VERSION", "minimum_version"),
        ("DOWNLOAD_TLS_MAX_VERSION", "maximum_version"),
    ):
        if settings[name] is None:
            continue
        if settings[name] not in TLS_VERSIONS:
            raise ValueError(f"Unknown {name} value: {settings[name]}")
        setattr(context, bound, TLS_VERSIONS[settings[name]])
    ciphers = settings["DOWNLOADER_CLIENT_TLS_CIPHERS"]
    if ciphers and ciphers != "DEFAULT":  # that one is the house's, with old ones in it
        context.set_ciphers(ciphers)
    keylog = os.environ.get("SSLKEYLOGFILE")
    if keylog:
        try:
            context.keylog_filename = keylog
        except OSError as error:
            logger.warning("Cannot write TLS session keys to %s: %s", keylog, error)
    return context
