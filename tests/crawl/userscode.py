"""Runs a crawl with a user's own spider."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent
from typing import Any

from simweb import Running
from tests.crawl.crawling import Result, crawl

HEAD = """
import os
from pathlib import Path

import scrapy
from scrapy.exceptions import CloseSpider, DropItem, IgnoreRequest
from webcrawl import settings
from webcrawl.items import Page
from webcrawl.spiders.broad import BroadSpider
"""


def run(folder: Path, web: Running, code: str, *arguments: str, **settings: Any) -> Result:
    """Crawl with the spider in `code`, a subclass of BroadSpider called `users`."""
    module = folder / "users.py"
    module.write_text(HEAD + dedent(code))
    feeds = {str(folder / "items.jsonl"): {"format": "jsonlines"}}
    settings = {"PYTHONPATH": folder, "FEEDS": json.dumps(feeds)} | settings
    return crawl(folder, web=web, spider=("runspider", str(module), *arguments), **settings)


def items(folder: Path, name: str = "items.jsonl") -> list[dict[str, Any]]:
    """The items in the crawl's feed."""
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]
