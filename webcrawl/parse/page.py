"""What a page says: its links and what it asks of robots. (Stub: the signature is settled.)"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class ParsedPage:
    """What was read from one page."""

    charset: str = ""
    links: list[str] = field(default_factory=list)  # canonical http(s), each once, in order
    found: int = 0  # http(s) links before repeats were dropped
    nofollow: bool = False  # the page asked for its links not to be followed


PARSERS: dict[str, Callable[..., ParsedPage]] = {}


def read_page(
    payload: bytes,
    content_type: str,
    url: str,
    *,
    x_robots_tag: str = "",
    follow_rel_nofollow: bool = True,
    obey_nofollow: bool = True,
    user_agent_token: str = "",
) -> ParsedPage:
    """Links of the page at `url`; no links for a media type without a parser."""
    return ParsedPage()
