"""Makes the index of earlier archives (DEDUP_INDEX), in JOBDIR or in a temporary folder of a run.

It is made once, before the crawl starts. Each process opens it.
"""

from __future__ import annotations

import atexit
import logging
import shutil
from pathlib import Path
from tempfile import mkdtemp

from scrapy.settings import BaseSettings

from webcrawl.base.wording import SettingError
from webcrawl.config.build import job_folder
from webcrawl.config.table import read
from webcrawl.crawl.crawl import Crawl
from webcrawl.warc.earlier import Earlier
from webcrawl.warc.earlierbuild import open_earlier
from webcrawl.warc.earlierlines import EarlierError, sources_of

logger = logging.getLogger(__name__)

NAME = "earlier"  # in JOBDIR


def prepare_earlier(settings: BaseSettings) -> Path | None:
    """The folder of the index that DEDUP_INDEX asks for, made if there is none. SettingError.

    None without DEDUP_INDEX.

    10 µs a line of the indexes: 17 minutes for a hundred million. A KeyboardInterrupt ends it,
    and the next run with the same JOBDIR goes on.
    """
    names = read(settings, "DEDUP_INDEX", list)
    if not names or not read(settings, "WARC_ENABLED", bool):
        return None
    jobdir = job_folder(settings)
    folder = jobdir / NAME if jobdir is not None else Path(mkdtemp(prefix="webcrawl-earlier-"))
    if jobdir is None:
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    try:
        sources = sources_of([str(name).strip() for name in names if name])
        open_earlier(folder, sources, lambda line: logger.info("DEDUP_INDEX: %s", line)).close()
    except EarlierError as error:
        raise SettingError("DEDUP_INDEX", settings["DEDUP_INDEX"], str(error)) from None
    return folder


def open_earlier_of(crawl: Crawl, settings: BaseSettings) -> Earlier | None:
    """The index of DEDUP_INDEX for this process; None without one. SettingError."""
    if crawl.assignment is not None:
        crawl.earlier_folder = crawl.assignment.earlier_folder
    elif crawl.earlier_folder is None:  # a script's crawl: its event loop waits meanwhile
        crawl.earlier_folder = prepare_earlier(settings)
    try:
        return Earlier(crawl.earlier_folder) if crawl.earlier_folder is not None else None
    except EarlierError as error:
        raise SettingError("DEDUP_INDEX", settings["DEDUP_INDEX"], str(error)) from None
