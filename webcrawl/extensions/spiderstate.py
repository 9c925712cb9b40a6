"""`spider.state`, as Scrapy keeps it in JOBDIR from run to run, but whole whatever happens.

A kill leaves the state of the run before. A state that cannot be kept is one line of the log and
exit code 1; a folder that the crawl was refused is left as it is. The state is a pickle, and to
read one may run any code: a JOBDIR is to be trusted as the project's own modules are.
"""

from __future__ import annotations

import logging
import pickle
from pathlib import Path

from scrapy import Spider
from scrapy.extensions import spiderstate

from webcrawl.crawl.crawl import set_fatal_error

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
        except Exception as error:  # nor is it told what pickle raises for what it cannot keep
            why = getattr(error, "strerror", None) or error
            problem = f"spider.state cannot be kept in {path}: {why}"
            set_fatal_error(spider.crawler, problem)
            logger.error("%s", problem)
