"""Makes or opens the index of earlier archives (DEDUP_INDEX) of a process.

It is made once, before the crawl starts, in JOBDIR or else in a temporary folder of this run.
"""

from __future__ import annotations

import atexit
import logging
import shutil
from pathlib import Path
from tempfile import mkdtemp

from scrapy.settings import BaseSettings

from webcrawl.config.build import job_folder
from webcrawl.config.kinds import SettingError
from webcrawl.config.table import read
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


def earlier_from(settings: BaseSettings, folder: Path) -> Earlier:
    """The index in `folder`, which `prepare_earlier` has made. SettingError."""
    try:
        return Earlier(folder)
    except EarlierError as error:
        raise SettingError("DEDUP_INDEX", settings["DEDUP_INDEX"], str(error)) from None
