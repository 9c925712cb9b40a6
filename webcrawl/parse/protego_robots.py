"""Protego, Scrapy's parser of robots.txt, behind the interface of `robotsparsers.Reading`.

Imported only where ROBOTS_PARSER is "protego". tests/spec/test_rfc9309.py lists the cases that
Protego decides differently from RFC 9309.
"""

from __future__ import annotations

import re

from protego import Protego

# Protego reads these as "disallow": disalow, dissalow, disallaw, dissallow, diasllow.
_may_disallow = re.compile(rb"dis|dia", re.IGNORECASE).search


class ProtegoReading:
    """Protego's rules of one robots.txt for one product token."""

    def __init__(self, text: bytes, token: str) -> None:
        self._protego = Protego.parse(text.decode("utf-8", "replace"))
        self._token = token
        self.allows_all = _may_disallow(text) is None
        self.crawl_delay_s = self._protego.crawl_delay(token)
        self.sitemaps = tuple(self._protego.sitemaps)

    def allows(self, target: str) -> bool:
        # Protego wants a URL: it would read a target such as "//a/b" as a host and a path.
        return self._protego.can_fetch(f"http://host{target}", self._token)
