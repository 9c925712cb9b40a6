"""Test cases of other projects.

Most are read from source archives that `make test` downloads: the group `cases` in pyproject.toml.
Those of projects in Java or C++ are in no package: tests read them from `../shared/cases`, a folder
beside the checkout, and are skipped without it.
"""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterable
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
ARCHIVES = ROOT / ".venv" / "cases"
SHARED = ROOT.parent / "shared" / "cases"


@cache
def files(package: str, pattern: str) -> dict[str, bytes]:
    """By name, the files whose path in the archive ends like `pattern`. Without an archive: {}."""
    found = {}
    for path in ARCHIVES.glob(f"{package}-*.tar.gz"):
        with tarfile.open(path) as archive:
            for member in archive:
                if fnmatch(member.name, f"*/{pattern}") and (file := archive.extractfile(member)):
                    found[member.name.rpartition("/")[2]] = file.read()
    return found


def needs(package: str) -> pytest.MarkDecorator:
    """Skips a test without the archive of `package`."""
    reason = f"no archive of {package} in .venv/cases: `make test` downloads it"
    return pytest.mark.skipif(not any(ARCHIVES.glob(f"{package}-*.tar.gz")), reason=reason)


def needs_shared(path: str, projects: str) -> pytest.MarkDecorator:
    """Skips a test without the file or folder `path` of `../shared/cases`."""
    reason = f"no ../shared/cases/{path}: no package has the cases of {projects}"
    return pytest.mark.skipif(not (SHARED / path).exists(), reason=reason)


def check_all(check: Callable[..., None], cases: Iterable[tuple[Any, ...]]) -> None:
    """Call `check` with each case, and fail with all that fail. A test for each would cost more."""
    failed, cases = [], list(cases)
    for case in cases:
        try:
            check(*case)
        except AssertionError as error:
            failed.append(f"{case!r}: {error}")
    assert cases
    assert not failed, "\n".join(failed)


def target_of(url: str) -> str:
    """Path and query as they stand in `url`, which may be a path."""
    if url.startswith("/"):
        return url
    rest = url.partition("#")[0].partition("://")[2]
    start = min((at for at in (rest.find("/"), rest.find("?")) if at >= 0), default=len(rest))
    return rest[start:] if rest[start:].startswith("/") else "/" + rest[start:]
