"""The header and the limits of a request, as the rules of its host (RULES) change them. Pure."""

from __future__ import annotations

import sys
from dataclasses import replace

from webcrawl.fetch.http1 import Headers
from webcrawl.fetch.request import Limits
from webcrawl.scope.hostrules import Values

_AGENT = b"user-agent"
_AUTHORIZATION = b"authorization"


def ruled_headers(headers: Headers, values: Values, url: str) -> Headers:
    """The crawl's default `headers` with those of `values` in their place, or behind them.

    A header whose value is empty is left out. A login is for one scheme: that of `url`, or none.
    """
    auth = values.auth
    if not (values.headers or values.user_agent or auth):
        return headers
    own = [(name.encode(), value.encode()) for name, value in values.headers or ()]
    if auth is not None and url[: len(auth.scheme) + 3].lower() == f"{auth.scheme}://":
        own = [pair for pair in own if pair[0].lower() != _AUTHORIZATION]
        own.append((b"Authorization", auth.header.encode()))
    replaced = {name.lower() for name, _ in own}
    agent = []
    if values.user_agent:
        agent = [(b"User-Agent", values.user_agent.encode())]
        replaced.add(_AGENT)
    rest = [pair for pair in headers if pair[0].lower() not in replaced]
    return agent + rest + [pair for pair in own if pair[1]]


def login_problem(values: Values, url: str) -> str:
    """Why `url` may have answered 401 although a rule has a login for its host; "" without one."""
    auth = values.auth
    if auth is None:
        return ""
    if url[: len(auth.scheme) + 3].lower() == f"{auth.scheme}://":
        return "the login of its rule is refused"
    return f"the login of its rule is for {auth.scheme} alone, so it was not sent"


def ruled_limits(limits: Limits, values: Values, *, of_page: bool) -> Limits:
    """`limits` with those of `values`. The size of a robots.txt has its own limit."""
    if values.timeout_s is not None:
        limits = replace(limits, timeout_s=values.timeout_s)
    if of_page and values.max_size_bytes is not None:
        limits = replace(limits, max_size_bytes=values.max_size_bytes or sys.maxsize)
    return limits
