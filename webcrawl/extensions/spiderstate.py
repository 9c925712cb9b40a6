"""`spider.state`, which Scrapy keeps in JOBDIR from run to run, written atomically.

After a kill the file has the state of the run before. If the state cannot be saved, the log gets
one line and the exit code is 1. If the frontier refused the JOBDIR, the file is not changed. The
state is a pickle, and loading a pickle can run any code: use only a JOBDIR that you trust as much
as the project's own modules.
"""

from __future__ import annotations

import logging
import pickle
from pathlib import Path

from scrapy import Spider
from scrapy.extensions import spiderstate

from webcrawl.base.synced import replace_file
from webcrawl.crawl.crawl import report_error

logger = logging.getLogger(__name__)


class SpiderState(spiderstate.SpiderState):
    """Replaces Scrapy's SpiderState: a kill or a full disk leaves a whole state."""

    def spider_opened(self, spider: Spider) -> None:
        try:
            super().spider_opened(spider)
        except Exception as error:  # pickle raises errors of any type for invalid data
            spider.state = {}  # type: ignore[attr-defined]
            logger.error("%s cannot be read, so spider.state is empty: %s", self.statefn, error)

    def spider_closed(self, spider: Spider, reason: str = "") -> None:
        if reason == "frontier_error":
            return
        path = Path(self.statefn)
        try:
            replace_file(path, pickle.dumps(spider.state, protocol=4))  # type: ignore[attr-defined]
        except Exception as error:  # pickle raises errors of any type for other objects, too
            why = getattr(error, "strerror", None) or error
            report_error(spider.crawler, f"spider.state cannot be saved in {path}: {why}")
