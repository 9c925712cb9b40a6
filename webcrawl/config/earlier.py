"""Makes or opens the index of earlier archives (DEDUP_INDEX) of a process.

It is made once, before the crawl starts, in JOBDIR or else in a temporary folder of this run. The
internal setting EARLIER_FOLDER says to the crawl, and to its other processes, where it is.
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
from webcrawl.warc.earlierbuild import open_earlier, opened_earlier
from webcrawl.warc.earlierlines import EarlierError, sources_of

logger = logging.getLogger(__name__)

EARLIER_FOLDER = "EARLIER_FOLDER"  # internal setting: a folder with a finished index
NAME = "earlier"  # in JOBDIR
_PRIORITY = 100  # above every setting of a user


def prepare_earlier(settings: BaseSettings) -> None:
    """Make the index that DEDUP_INDEX asks for, if there is none. SettingError.

    10 µs a line of the indexes: 17 minutes for a hundred million. A KeyboardInterrupt ends it,
    and the next run with the same JOBDIR goes on.
    """
    names = read(settings, "DEDUP_INDEX", list)
    if not names or not read(settings, "WARC_ENABLED", bool):
        return
    jobdir = job_folder(settings)
    folder = jobdir / NAME if jobdir is not None else Path(mkdtemp(prefix="webcrawl-earlier-"))
    if jobdir is None:
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    try:
        sources = sources_of([str(name).strip() for name in names if name])
        open_earlier(folder, sources, lambda line: logger.info("DEDUP_INDEX: %s", line)).close()
    except EarlierError as error:
        raise SettingError("DEDUP_INDEX", settings["DEDUP_INDEX"], str(error)) from None
    settings.set(EARLIER_FOLDER, str(folder), _PRIORITY)


def earlier_from(settings: BaseSettings) -> Earlier | None:
    """The index that was prepared; made now if nobody has. None without DEDUP_INDEX. SettingError.

    A crawl that a script has started makes it here: its event loop stands still meanwhile.
    """
    if EARLIER_FOLDER not in settings:
        prepare_earlier(settings)
    if EARLIER_FOLDER not in settings:
        return None
    try:
        return opened_earlier(Path(settings[EARLIER_FOLDER]))
    except EarlierError as error:
        raise SettingError("DEDUP_INDEX", settings["DEDUP_INDEX"], str(error)) from None
