"""`scrapy botpage`: the page that explains the crawler, its key directory and its addresses."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import gettempdir
from typing import cast
from urllib.parse import urlsplit

from scrapy.exceptions import UsageError
from scrapy.settings import Settings

from webcrawl.base.wording import utc_now
from webcrawl.config import kinds
from webcrawl.config.build import robots_token
from webcrawl.config.check import check
from webcrawl.config.fetch import signer_from, user_agent_of
from webcrawl.config.table import read
from webcrawl.fetch.signing import DIRECTORY_PATH, KeyFileError, read_key, thumbprint
from webcrawl.tools import command
from webcrawl.tools.botpage.keys import DIRECTORY_TYPE, directory, new_key, read_public_key
from webcrawl.tools.botpage.page import ADDRESSES, ADDRESSES_TYPE, Bot, missing, write_botpage

# The page does not say these, and their folders may be on another machine.
_UNUSED = {
    "CLUSTER": "",
    "CLUSTER_CHECKPOINTS": None,
    "CLUSTER_HUBS": 1,
    "JOBDIR": None,
    "PROXY": "",
    "REPORT_DIR": "",
}


class Command(command.Command):
    """Writes static files from the settings of the crawl. Uses no network."""

    arguments = "[--to DIR] [--address PREFIX] [--also-key FILE] | --new-key FILE"
    about = (
        "who runs it, what for, how to block it, its delays and its"
        " addresses, with the list of addresses as JSON and, with BOT_AUTH_KEY, the directory"
        " of its public keys. Static files, for any web server. Give the same settings as to"
        " the crawl. With --new-key, makes a private key for BOT_AUTH_KEY and nothing else."
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        add = parser.add_argument
        add("--to", metavar="DIR", default="botpage", help="folder of the files (botpage)")
        add("--new-key", metavar="FILE", help="make a private Ed25519 key, and end")
        add(
            "--also-key",
            metavar="FILE",
            action="append",
            default=[],
            help="another key, private or public, for the directory: the next one, or the last",
        )
        add(
            "--address",
            metavar="PREFIX",
            action="append",
            default=[],
            help="IP addresses from which you crawl, such as 192.0.2.0/28; may be given again",
        )

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if args:
            raise UsageError("give options only")
        opts.address = _prefixes(opts.address)
        if opts.new_key is not None:
            self._make_key(Path(opts.new_key))
            return
        settings = cast("Settings", self.settings)
        checked = settings.copy()
        checked.setdict(_UNUSED | {"WARC_DIR": gettempdir()}, "cmdline")
        if problems := check(checked):
            self.fail("\n".join(problems), 2)
            return
        try:
            self._write(settings, opts)
        except KeyFileError as error:
            self.fail(error, 2)
        except OSError as error:
            self.fail(f"{error.filename or opts.to} cannot be written: {error.strerror}", 1)

    def _make_key(self, path: Path) -> None:
        try:
            key = new_key(path)
        except OSError as error:
            self.fail(f"{path} cannot be made: {error.strerror}", 2)
            return
        print(f"{path} has a new private key, {thumbprint(key.public_key())}. Keep it secret.")
        print(f"Crawl with BOT_AUTH_KEY={path}, and BOT_AUTH_AGENT=the URL of its directory.")

    def _write(self, settings: Settings, opts: argparse.Namespace) -> None:
        keys = []
        if signer_from(settings) is not None:
            keys.append(read_key(Path(settings["BOT_AUTH_KEY"])).public_key())
        keys += [read_public_key(Path(name)) for name in opts.also_key]
        bot = bot_of(settings, tuple(map(thumbprint, keys)), tuple(opts.address))
        keys_path = _keys_path(bot.agent)
        found = directory(keys) if keys else None
        created = utc_now()
        for path in write_botpage(bot, found, keys_path, Path(opts.to), created):
            print(path)
        for line in missing(bot):
            print(f"The page does not say {line}", file=sys.stderr)
        if keys:
            print(f"Serve {keys_path} over https as {DIRECTORY_TYPE}", file=sys.stderr)
        if bot.addresses:
            print(f"Serve {ADDRESSES} as {ADDRESSES_TYPE}; write it anew daily", file=sys.stderr)


def _prefixes(given: list[str]) -> list[str]:
    """The prefixes of all `--address`, of which each may have several with commas."""
    prefixes = [prefix.strip() for text in given for prefix in text.split(",")]
    for prefix in prefixes:
        if not prefix or not kinds.PREFIXES.fits(prefix):
            raise UsageError(f"--address {prefix}: give {kinds.PREFIXES.allowed}")
    return prefixes


def _keys_path(agent: str) -> str:
    """Where the URL `agent` says that the directory is; by default the well-known path."""
    path = urlsplit(agent).path
    is_file = not path.endswith("/") and not {".", "..", ""} & set(path.split("/")[1:])
    return path if path and is_file else DIRECTORY_PATH


def bot_of(settings: Settings, key_ids: tuple[str, ...], addresses: tuple[str, ...] = ()) -> Bot:
    """What the settings say of the crawler, which crawls from `addresses`."""
    return Bot(
        token=robots_token(settings),
        user_agent=user_agent_of(settings),
        operator=read(settings, "WARC_OPERATOR", str),
        purpose=read(settings, "WARC_DESCRIPTION", str),
        mail=read(settings, "FROM", str),
        delay_s=read(settings, "DOWNLOAD_DELAY", float),
        crawl_delay_max_s=read(settings, "CRAWL_DELAY_MAX", float),
        ip_delay_s=read(settings, "IP_DELAY", float),
        obeys_robots=read(settings, "ROBOTSTXT_OBEY", bool),
        obeys_nofollow=read(settings, "OBEY_NOFOLLOW", bool),
        has_rules=bool(settings.get("RULES")),
        also=tuple(map(str, read(settings, "ROBOTSTXT_USER_AGENT", list)[1:])),
        obeys_noarchive=read(settings, "OBEY_NOARCHIVE", bool),
        delay_factor=read(settings, "DELAY_FACTOR", float),
        comes_again=read(settings, "RECRAWL", str) != "off",
        addresses=addresses,
        agent=settings.get("BOT_AUTH_AGENT") or "",
        key_ids=key_ids,
    )
