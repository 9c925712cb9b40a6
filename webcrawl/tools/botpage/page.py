"""The page that explains a crawler to the owners of servers, and the files beside it.

What owners need: draft-illyes-webbotauth-cbcp, 2.6 (name, contact, use of the data, how to block
it). The list of addresses: draft-illyes-webbotauth-jafar. The page is one file without scripts and
needs no network; `static/page.html` has its text. Every value is escaped: settings come from
people, but also from command lines. Knows no settings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from ipaddress import IPv4Network, ip_network
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from webcrawl.base.synced import replace_file
from webcrawl.tools.template import page_template

ADDRESSES: Final = "addresses.json"
ADDRESSES_TYPE: Final = "application/jafar+json"  # of draft-illyes-webbotauth-jafar
_MAIL: Final = re.compile(r"[^\s@<>()\"',;+]+@[\w-]+(?:\.[\w-]+)+")
_WEB: Final = re.compile(r"https?://[^\s()<>\"';,]+")


class Bot(Struct, frozen=True, kw_only=True):
    """What the page says of a crawler. Seconds; empty texts and lists: not said."""

    token: str  # its name in robots.txt
    user_agent: str
    operator: str = ""
    purpose: str = ""
    mail: str = ""
    delay_s: float
    crawl_delay_max_s: float
    ip_delay_s: float
    obeys_robots: bool
    obeys_nofollow: bool
    has_rules: bool = False  # some hosts have other values
    also: tuple[str, ...] = ()  # other names whose groups of robots.txt are obeyed
    obeys_noarchive: bool = False
    delay_factor: float = 0.0  # of the time to first byte; 0: off
    comes_again: bool = False
    addresses: tuple[str, ...] = ()  # prefixes
    agent: str = ""  # the URL of its keys
    key_ids: tuple[str, ...] = ()

    @property
    def contact(self) -> str:
        """The mail address: as set, or that of the user agent."""
        found = _MAIL.search(self.user_agent)
        return self.mail or (found[0] if found else "")

    @property
    def page(self) -> str:
        """The URL in the user agent, or ""."""
        found = _WEB.search(self.user_agent)
        return found[0] if found else ""


def write_botpage(
    bot: Bot, keys: Mapping[str, Any] | None, keys_path: str, folder: Path, created: str
) -> list[Path]:
    """Write the page, the list of addresses, and the directory of `keys` if there are any. OSError.

    `created` is UTC in ISO 8601. Other files in `folder` stay.
    """
    files = {"index.html": html(bot, created)}
    if bot.addresses:
        files[ADDRESSES] = _json(address_list(bot, created))
    if keys is not None:
        files[keys_path.lstrip("/")] = _json(keys)
    paths = [folder / name for name in files]
    for path, text in zip(paths, files.values(), strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text.encode())
    return paths


def address_list(bot: Bot, created: str) -> dict[str, Any]:
    """The addresses in the format of the draft named above, which search engines use as well."""
    prefixes = []
    for text in bot.addresses:
        network = ip_network(text, strict=False)
        kind = "ipv4Prefix" if isinstance(network, IPv4Network) else "ipv6Prefix"
        prefixes.append({kind: str(network), "services": [bot.token]})
    return {"creationTime": created, "prefixes": prefixes}


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=2) + "\n"


def html(bot: Bot, created: str) -> str:
    """The text of index.html."""

    def seconds(value: float) -> str:
        return f"{value:g} second{'' if value == 1 else 's'}"

    page = page_template("webcrawl.tools.botpage", seconds=seconds)
    return page.render(bot=bot, created=created)


def missing(bot: Bot) -> list[str]:
    """What owners look for, and the settings do not say: such as "who runs it: set FROM"."""
    lines = {
        "to which mail address owners can write: set FROM": bot.contact,
        "who runs the crawler: set WARC_OPERATOR": bot.operator,
        "what it is for: set WARC_DESCRIPTION": bot.purpose,
        "at which URL owners find it: put one into USER_AGENT": bot.page,
    }
    return [line for line, said in lines.items() if not said]
