"""The command line from any folder: `python -m webcrawl crawl broad -a seeds=...`, or `webcrawl`.

It is Scrapy's command line with the settings of this project. Scrapy's own `scrapy` needs the
scrapy.cfg of a checkout, or SCRAPY_SETTINGS_MODULE, to find them.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

from webcrawl import __version__
from webcrawl.base.wording import INTERRUPTED


def main() -> None:
    """Runs one command; `--version` alone prints the version. Ctrl-C while it is imported is no
    traceback.
    """
    try:
        _main()
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


def _main() -> None:
    """A settings module in SCRAPY_SETTINGS_MODULE goes before the project's. Modules in the working
    folder can be imported, as Scrapy does it in a project's folder: the installed script `webcrawl`
    would not find a user's settings and spiders there.
    """
    import scrapy  # noqa: PLC0415  (it takes half a second)
    from scrapy.cmdline import execute  # noqa: PLC0415
    from scrapy.settings import Settings  # noqa: PLC0415

    from webcrawl.config.scrapysown import end_if_any, unreadable  # noqa: PLC0415

    sys.path.append(os.getcwd())
    os.environ.setdefault("SCRAPY_SETTINGS_MODULE", "webcrawl.settings")
    if sys.argv[1:] == ["--version"]:
        print(f"webcrawl {__version__} (Scrapy {scrapy.__version__})")
        return
    module = import_module(os.environ["SCRAPY_SETTINGS_MODULE"])
    end_if_any(unreadable(Settings(), vars(module)))  # Scrapy would end with a traceback
    execute()


if __name__ == "__main__":
    main()
