"""Settings of a crawl: the defaults of the project, and what a test gives on the command line."""

from __future__ import annotations

from typing import Any

from scrapy.settings import Settings

from webcrawl import settings as defaults


def of_a_crawl(**chosen: Any) -> Settings:
    settings = Settings()
    settings.setmodule(defaults, priority="project")
    settings.setdict(chosen, priority="cmdline")
    return settings
