"""Builds the parts of a fetch from settings: client, limits, headers, TLS, wanted media types.

Pages use them, and the robots.txt and HEAD requests beside the pages.
"""

from __future__ import annotations

import logging
import os
import ssl
import sys
from pathlib import Path

from scrapy.http import Headers
from scrapy.settings import BaseSettings
from scrapy.utils.python import without_none_values

from webcrawl.base import openfiles
from webcrawl.base.textfile import NotAFile, open_file
from webcrawl.base.wording import SettingError
from webcrawl.config.kinds import DIRECT, TLS_VERSIONS
from webcrawl.config.table import read
from webcrawl.fetch.client import Client
from webcrawl.fetch.gate import Gate
from webcrawl.fetch.http1 import Headers as WireHeaders
from webcrawl.fetch.mediatypes import Wants, media_type_test
from webcrawl.fetch.proxy import Proxy, problem_of
from webcrawl.fetch.request import Limits
from webcrawl.fetch.room import Room
from webcrawl.fetch.signing import KeyFileError, Signer, read_key
from webcrawl.fetch.tls import client_context
from webcrawl.scope import refused_ports

logger = logging.getLogger(__name__)

# Deviation: no br and zstd, although fetch.decode removes them: many archive tools know gzip only.
ACCEPT_ENCODING = b"gzip, deflate"
# An idle connection is kept so long for its host's next page: servers close theirs after 5 to 75 s.
KEEP_ALIVE_S = 15.0
_PROXY_FILE_MAX = 4096


def client_from(
    settings: BaseSettings, limits: Limits, gate: Gate | None = None, room: Room | None = None
) -> Client:
    """A fetch client behind `gate`, with `limits`; TLS, local address, proxy and key from settings.

    Raises the limit of open files first. SettingError.
    """
    openfiles.raise_limit()
    return Client(
        limits,
        tls_context_from(settings),
        local_address=bind_address(settings.get("DOWNLOAD_BIND_ADDRESS")),
        idle_max=openfiles.plan().idle,
        gate=gate,
        proxy=proxy_from(settings),
        signer=signer_from(settings),
        refused_ports=refused_ports(read(settings, "ALLOW_PORTS", list)),
        room=room,
    )


def has_proxy(settings: BaseSettings) -> bool:
    """Whether every request goes through a proxy, or fails."""
    return settings.get("PROXY") not in (None, "", DIRECT)


def proxy_from(settings: BaseSettings) -> Proxy | None:
    """The proxy of the whole crawl. SettingError, whose text has no password."""
    value = settings.get("PROXY")
    if not has_proxy(settings):
        return None
    try:
        if not value.startswith("@"):
            return Proxy.parse(value)
        with open_file(Path(value[1:])) as file:
            lines = file.read(_PROXY_FILE_MAX).decode("utf-8-sig").split()
        if len(lines) == 1:
            return Proxy.parse(lines[0])
    except NotAFile as error:
        raise ProxyError(str(error)) from None
    except OSError as error:
        raise ProxyError(f"{value[1:]} cannot be read: {error.strerror}") from None
    except (AttributeError, ValueError):  # no text, no URL, no UTF-8
        pass
    where = f"{value[1:]} has not " if str(value).startswith("@") else "it is not "
    raise ProxyError(f"{where}one URL such as http://HOST:PORT or http://USER:PASSWORD@HOST:PORT")


def try_proxy(settings: BaseSettings) -> None:
    """SettingError if the proxy of the whole crawl cannot be used now."""
    proxy = proxy_from(settings)
    if proxy is not None and (problem := problem_of(proxy)):
        raise ProxyError(f"{proxy}: {problem}")


class ProxyError(SettingError):
    """The user's fault: a proxy that cannot be used. Its text has no password."""

    def __init__(self, why: str) -> None:
        ValueError.__init__(self, f"PROXY cannot be used: {why}")


def signer_from(settings: BaseSettings) -> Signer | None:
    """What signs each request; None without BOT_AUTH_KEY. SettingError."""
    path = settings.get("BOT_AUTH_KEY")
    if not path:
        return None
    agent = read(settings, "BOT_AUTH_AGENT", str) if settings.get("BOT_AUTH_AGENT") else ""
    if not agent:
        needed = "set BOT_AUTH_AGENT too, to the https URL at which your public key is"
        raise SettingError("BOT_AUTH_KEY", str(path), needed)
    try:
        return Signer(read_key(Path(path)), agent)
    except KeyFileError as error:
        raise SettingError("BOT_AUTH_KEY", str(path), str(error)) from None


def bind_address(value: str | tuple[str, int] | None) -> tuple[str, int] | None:
    """The local address of requests, from Scrapy's setting or meta key."""
    return (value, 0) if value and isinstance(value, str) else value or None


def limits_from(settings: BaseSettings) -> Limits:
    """The limits of one fetch. DOWNLOAD_MAXSIZE = 0 is no limit, as in Scrapy.

    Keep-alive is off if a delay is as long as KEEP_ALIVE_S: no connection would be used again.
    """
    # Not by `read`: with another scheduler than ours, Scrapy accepts any number as a delay.
    delay_s = max(settings.getfloat("DOWNLOAD_DELAY"), settings.getfloat("IP_DELAY"))
    return Limits(
        timeout_s=read(settings, "DOWNLOAD_TIMEOUT", float),
        max_size_bytes=read(settings, "DOWNLOAD_MAXSIZE", int) or sys.maxsize,
        keep_alive_s=KEEP_ALIVE_S if delay_s < KEEP_ALIVE_S else 0.0,
    )


def headers_from(settings: BaseSettings) -> WireHeaders:
    """The headers of a request without headers of its own, in the order of a browser's."""
    headers = Headers()
    if settings["USER_AGENT"]:
        headers["User-Agent"] = read(settings, "USER_AGENT", str)
    if settings.get("FROM"):
        headers["From"] = read(settings, "FROM", str)
    headers.update(without_none_values(read(settings, "DEFAULT_REQUEST_HEADERS", dict)))
    headers.setdefault("Accept-Encoding", ACCEPT_ENCODING)
    return pairs(headers)


def user_agent_of(settings: BaseSettings) -> str:
    """The User-Agent of a request without one of its own; "" if no User-Agent is sent."""
    for name, value in headers_from(settings):
        if name.lower() == b"user-agent":
            return value.decode("latin-1")
    return ""


def pairs(headers: Headers) -> WireHeaders:
    """Scrapy's headers as a list of names and values, in the order on the wire."""
    return [(name, value) for name, values in headers.items() for value in values]


def content_type_test(settings: BaseSettings) -> Wants:
    """A test of media types: whether CONTENT_TYPES wants the body of an answer."""
    return media_type_test(read(settings, "CONTENT_TYPES", list))


def tls_context_from(settings: BaseSettings) -> ssl.SSLContext:
    """The crawler's TLS context, limited by Scrapy's settings; obeys SSLKEYLOGFILE."""
    context = client_context(verify=read(settings, "DOWNLOAD_VERIFY_CERTIFICATES", bool))
    for name, bound in (
        ("DOWNLOAD_TLS_MIN_VERSION", "minimum_version"),
        ("DOWNLOAD_TLS_MAX_VERSION", "maximum_version"),
    ):
        if settings[name] is None:
            continue
        if settings[name] not in TLS_VERSIONS:  # not by `read`: these are Scrapy's words
            raise ValueError(f"Unknown {name} value: {settings[name]}")
        setattr(context, bound, TLS_VERSIONS[settings[name]])
    ciphers = settings["DOWNLOADER_CLIENT_TLS_CIPHERS"]
    if ciphers and ciphers != "DEFAULT":  # the context's own, which has old ciphers too
        context.set_ciphers(ciphers)
    keylog = os.environ.get("SSLKEYLOGFILE")
    if keylog:
        try:
            context.keylog_filename = keylog
        except OSError as error:
            logger.warning("Cannot write TLS session keys to %s: %s", keylog, error)
    return context
