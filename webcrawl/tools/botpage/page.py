"""The page that explains a crawler to the owners of servers, and the files beside it.

What owners need: draft-illyes-webbotauth-cbcp, 2.6 (name, contact, use of the data, how to block
it). The list of addresses: draft-illyes-webbotauth-jafar. The page is one file without scripts and
needs no network. Every value is escaped: settings come from people, but also from command lines.

Owns the texts; knows no settings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from html import escape
from ipaddress import IPv4Network, ip_network
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from webcrawl.synced import replace_file

ADDRESSES: Final = "addresses.json"
ADDRESSES_TYPE: Final = "application/jafar+json"  # of draft-illyes-webbotauth-jafar
_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)
_MAIL: Final = re.compile(r"[^\s@<>()\"',;+]+@[\w-]+(?:\.[\w-]+)+")
_WEB: Final = re.compile(r"https?://[^\s()<>\"';,]+")
_STYLE: Final = """
:root { color-scheme: light dark; --text: #1d2129; --soft: #59616f; --line: #d9dde5;
  --back: #fff; --box: #f4f6f9; --link: #0b57c2; }
@media (prefers-color-scheme: dark) { :root { --text: #e6e9ef; --soft: #a3acba;
  --line: #353c47; --back: #14171c; --box: #1d2229; --link: #8ab6ff; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--text);
  font: 17px/1.6 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 46rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 .5rem; }
p, ul { margin: .6rem 0; } ul { padding-left: 1.2rem; } li { margin: .3rem 0; }
.lead { color: var(--soft); font-size: 1.1rem; margin: 0 0 1.5rem; }
a { color: var(--link); overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: 9rem 1fr; margin: 1rem 0;
  border-top: 1px solid var(--line); }
dt, dd { margin: 0; padding: .6rem 0; border-bottom: 1px solid var(--line); }
dt { color: var(--soft); padding-right: 1rem; } dd { overflow-wrap: anywhere; }
code, pre { font: .9em/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
code { overflow-wrap: anywhere; }
pre { background: var(--box); border: 1px solid var(--line); border-radius: 8px;
  padding: .8rem 1rem; margin: .6rem 0 1.2rem; overflow-x: auto; }
footer { color: var(--soft); font-size: .9rem; border-top: 1px solid var(--line);
  margin-top: 3rem; padding-top: 1rem; }
@media (max-width: 32rem) { main { padding: 1.5rem 1rem 3rem; } h1 { font-size: 1.6rem; }
  dl { grid-template-columns: 1fr; } dt { border: 0; padding: .6rem 0 0; } dd { padding-top: 0; } }
"""


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
    name = escape(bot.token)
    ranges = f'<link rel="client-ranges" href="{ADDRESSES}">\n' if bot.addresses else ""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
{ranges}<title>{name}, a web crawler</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
<h1>{name}</h1>
<p class="lead">This page is for the owners of web sites that {name} has visited.</p>
{_facts(bot)}
<h2>How to block or slow it</h2>
{"".join(_blocking(bot))}
<h2>How it behaves</h2>
<ul>{"".join(f"<li>{line}</li>" for line in _manners(bot))}</ul>
<h2>How to recognise it</h2>
{"".join(_proofs(bot))}
<footer>Written on {escape(created[:10])} from the settings of the crawler.</footer>
</main>
</body>
</html>
"""


def _facts(bot: Bot) -> str:
    rows = [("Who runs it", escape(bot.operator)), ("What for", escape(bot.purpose))]
    contact = escape(bot.contact)
    rows.append(("Contact", contact and f'<a href="mailto:{contact}">{contact}</a>'))
    page = escape(bot.page)
    rows.append(("Web page", page and f'<a href="{page}">{page}</a>'))
    rows.append(("User agent", f"<code>{escape(bot.user_agent)}</code>"))
    return f"<dl>{''.join(f'<dt>{name}</dt><dd>{said}</dd>' for name, said in rows if said)}</dl>"


def _blocking(bot: Bot) -> Iterator[str]:
    token = escape(bot.token)
    if not bot.obeys_robots:
        yield "<p>This crawler runs by agreement with the owners, and does not read robots.txt."
        yield " If that is not so for your site, write to the contact above.</p>"
        return
    yield f"<p>In the <code>robots.txt</code> of your site, the name is <code>{token}</code>."
    yield " To keep it out of all pages:</p>"
    yield f"<pre>User-agent: {token}\nDisallow: /</pre>"
    yield "<p>Or out of some:</p>"
    yield f"<pre>User-agent: {token}\nDisallow: /private/\nDisallow: /*?sort=</pre>"
    longest = _seconds(bot.crawl_delay_max_s)
    yield f"<p>To let it come less often, in seconds ({longest} at most):</p>"
    yield f"<pre>User-agent: {token}\nCrawl-delay: {min(120, bot.crawl_delay_max_s):g}</pre>"
    if bot.also:
        also = ", ".join(f"<code>{escape(name)}</code>" for name in bot.also)
        yield f"<p>Rules for {also} hold too: a page is fetched only if they all allow it.</p>"
    yield "<p>A change is seen within 24 hours. The file is read as RFC 9309 says, so any tester"
    yield " of that standard shows what holds. To stop it at once, write to the contact.</p>"


def _manners(bot: Bot) -> list[str]:
    one_at_a_time = "It asks a host for one page at a time"
    if bot.delay_s:
        one_at_a_time += f", and waits {_seconds(bot.delay_s)} or more before the next"
    lines = [f"{one_at_a_time}."]
    if bot.ip_delay_s:
        lines.append(
            f"It waits {_seconds(bot.ip_delay_s)} or more between hosts on the same IP address."
        )
    if bot.delay_factor:
        lines.append(
            f"It waits {bot.delay_factor:g} times as long as a server takes to answer, if that is"
            " longer."
        )
    if bot.comes_again:
        lines.append("It visits pages again, to see whether they have changed.")
    if bot.obeys_robots:
        lines.append(
            "It fetches <code>robots.txt</code> before the first page, and again after 24 hours."
            " Where it gets no answer, or a status of 5xx, it asks for no page."
        )
    if bot.obeys_nofollow:
        lines.append(
            "It follows no links of pages marked <code>nofollow</code>, by <code>meta"
            " robots</code> or <code>X-Robots-Tag</code>."
        )
    if bot.obeys_noarchive:
        lines.append(
            "It archives no page marked <code>noarchive</code>, by <code>meta robots</code> or"
            " <code>X-Robots-Tag</code>."
        )
    lines.append(
        "It waits longer each time that a server fails, and heeds <code>Retry-After</code>."
    )
    lines.append("It sends no forms and runs no scripts.")
    if bot.has_rules:
        lines.append("Sites whose owners have agreed to it may have other values.")
    return lines


def _proofs(bot: Bot) -> Iterator[str]:
    yield "<p>The user agent alone proves nothing, since anyone can send it.</p><ul>"
    if bot.addresses:
        shown = ", ".join(f"<code>{escape(each)}</code>" for each in bot.addresses[:20])
        more = " and others" if len(bot.addresses) > 20 else ""
        yield f"<li>Requests come from {shown}{more} only: the list as"
        yield f' <a href="{ADDRESSES}">JSON</a>.</li>'
    if bot.key_ids and bot.agent:
        agent = escape(bot.agent)
        yield "<li>Requests are signed (RFC 9421, Web Bot Auth). The public keys are at"
        ids = ", ".join(f"<code>{escape(each)}</code>" for each in bot.key_ids)
        yield f' <a href="{agent}">{agent}</a>; key {ids}.</li>'
    if not (bot.addresses or (bot.key_ids and bot.agent)):
        yield "<li>Write to the contact, with the time and the address of a request.</li>"
    yield "</ul>"


def _seconds(value: float) -> str:
    return f"{value:g} second{'' if value == 1 else 's'}"


def missing(bot: Bot) -> list[str]:
    """What owners look for, and the settings do not say: such as "who runs it: set FROM"."""
    lines = []
    if not bot.contact:
        lines.append("to which mail address owners can write: set FROM")
    if not bot.operator:
        lines.append("who runs the crawler: set WARC_OPERATOR")
    if not bot.purpose:
        lines.append("what it is for: set WARC_DESCRIPTION")
    if not bot.page:
        lines.append("at which URL owners find it: put one into USER_AGENT")
    return lines
