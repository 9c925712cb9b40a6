"""`spider.state`, as Scrapy keeps it in JOBDIR from run to run, but whole whatever happens.

A kill leaves the state of the run before. A folder that cannot be written costs one line of the
log, and one that the crawl was refused is left as it is.
"""

from __future__ import annotations

import logging
import pickle
from pathlib import Path

from scrapy import Spider
from scrapy.extensions import spiderstate

logger = logging.getLogger(__name__)


class SpiderState(spiderstate.SpiderState):
    """See the module. Stands in for Scrapy's in `EXTENSIONS`."""

    def spider_opened(self, spider: Spider) -> None:
        try:
            super().spider_opened(spider)
        except Exception as error:  # what pickle raises for garbage is anybody's guess
            spider.state = {}  # type: ignore[attr-defined]
            logger.error("%s cannot be read, so spider.state is empty: %s", self.statefn, error)

    def spider_closed(self, spider: Spider, reason: str = "") -> None:
        if reason == "frontier_error":
            return
        path = Path(self.statefn)
        part = path.with_suffix(".part")
        try:
            part.write_bytes(pickle.dumps(spider.state, protocol=4))  # type: ignore[attr-defined]
            part.replace(path)
        except OSError as error:
            logger.error("spider.state cannot be kept in %s: %s", path, error.strerror)
